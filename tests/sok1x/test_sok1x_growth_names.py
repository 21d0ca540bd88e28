"""A table that grows leaves alone what is merely called like something that it might have beside its rows."""
import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.core.tables import table_root

ROWS, MANY = 4, 64
FORGETS = {"evict_strategy": "lru", "max_capacity": 4 * ROWS}
FROM_ROWS = {"initializer": np.array([[1.0, 1.0], [2.0, 2.0]], np.float32)}


def table(name, **options):
    return sok.DynamicVariable(2, **dict(dict(initializer="7", name=name, init_capacity=ROWS), **options))


def dense(name):
    return tf.get_variable(name, initializer=tf.range(20.0) + 1, use_resource=True)


def step_of(variable, keys):
    rows = sok.all2all_dense_embedding(variable, keys)
    return tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(rows), var_list=[variable])


@contextlib.contextmanager
def running():
    sok.init()
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        yield tf.placeholder(tf.int64, [None])


@contextlib.contextmanager
def initialized():
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session


def grow(session, step, keys):
    for first in range(0, 4 * ROWS, ROWS):
        session.run(step, {keys: np.arange(first, first + ROWS)})


@pytest.mark.parametrize("options, beside", [
    ({}, "used"), ({}, "free"), ({}, "frequency"), ({}, "start"), ({}, "every"),
    (FORGETS, "frequency"), (FORGETS, "start"), (FROM_ROWS, "free")])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("rows", [2 * ROWS, MANY])
def test_another_tables_rows(options, beside, first, rows):
    with running() as keys:
        made = {name: table(name, **(options if name == "user" else dict(init_capacity=rows)))
                for name in sorted(["user", "user/" + beside], reverse=first)}
        steps = {name: step_of(one, keys) for name, one in made.items()}
        found = {name: sok.export(one) for name, one in made.items()}
        with initialized() as session:
            session.run(steps["user/" + beside], {keys: np.arange(rows)})
            grow(session, steps["user"], keys)
            for name, count in (("user/" + beside, rows), ("user", 4 * ROWS)):
                got, values = session.run(found[name])
                np.testing.assert_array_equal(np.sort(got), np.arange(count))
                begins = options.get("initializer") if name == "user" else None
                expected = np.full([count, 2], 6.5) if begins is None else begins[got % 2] - 0.5
                np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("options, beside", [({}, "free"), (FORGETS, "frequency")])
@pytest.mark.parametrize("first", [False, True])
def test_a_variable_of_the_users(options, beside, first):
    """tf.get_variable("free") in the scope `user`."""
    with running() as keys:
        variable = dense("user/" + beside) if first else None
        user = table("user", **options)
        variable = variable if first else dense("user/" + beside)
        step = step_of(user, keys)
        with initialized() as session:
            grow(session, step, keys)
            np.testing.assert_array_equal(session.run(variable), np.arange(20) + 1)
            np.testing.assert_array_equal(session.run(sok.export(user)[1]), np.full([4 * ROWS, 2], 6.5))


@pytest.mark.parametrize("options, beside", [({}, "stamps"), ({}, "index"), (FORGETS, "free"), (FROM_ROWS, "start"),
                                             (dict(var_type="hybrid", cache_rows=8), "every"), ({}, "Stamps")])
@pytest.mark.parametrize("other", [dense, table])
def test_a_name_under_which_it_would_not_be_found_is_refused(options, beside, other):
    with running():
        other("user/" + beside)
        known = [variable.op.name for variable in tf.global_variables()]
        with pytest.raises(ValueError, match="table 'user': name: got one by which a variable of the table would be "
                                             "called 'user/{}', and something else".format(beside.lower())):
            table("user", **options)
        assert [variable.op.name for variable in tf.global_variables()] == known
        table("visitor", **options)


def test_names_of_tables_that_do_not_grow_are_not_refused():
    with running():
        dense("user/stamps"), dense("items/stamps")
        sok.Variable(np.ones([4, 2], np.float32), name="user")
        table("items/stamps/of")


@pytest.mark.parametrize("beside", ["stamps", "index"])
def test_in_a_graph_that_an_earlier_sok1x_has_built_it_does_not_grow(monkeypatch, beside):
    """There nothing was refused when the table was made."""
    monkeypatch.setattr(table_root, "refuse_taken", lambda table: None)
    with running() as keys:
        other = table("user/" + beside, init_capacity=2 * ROWS)
        user = table("user")
        steps = [step_of(one, keys) for one in (other, user)]
        found = sok.export(other)
        with initialized() as session:
            session.run(steps[0], {keys: np.arange(2 * ROWS)})
            with pytest.raises(tf.errors.FailedPreconditionError, match=(
                    "'user' cannot get more rows: what its graph calls 'user/{}' is not the table's").format(beside)):
                grow(session, steps[1], keys)
            np.testing.assert_array_equal(session.run(found[1]), np.full([2 * ROWS, 2], 6.5))


@pytest.mark.parametrize("other", [dense, table])
def test_a_slot_whose_name_is_taken_is_refused(other):
    with running() as keys:
        user = table("user")
        other("user/Adagrad")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(user, keys))
        with pytest.raises(ValueError, match="table 'user': its optimizer would call a slot 'user/Adagrad', and "
                                             "something else"):
            tf.train.AdagradOptimizer(0.5).minimize(loss, var_list=[user])
        tf.train.AdagradOptimizer(0.5, name="Adagrad_of_tables").minimize(loss, var_list=[user])


def test_a_slot_that_is_called_like_a_column_in_host_memory(seed):
    """The free rows there are listed in a column `vacant`, of no variable."""
    found = []
    for name in ("Adagrad", "vacant"):
        random = np.random.RandomState(seed)
        with running() as keys:
            user = table("user", var_type="hybrid", cache_rows=2 * ROWS, max_capacity=6 * ROWS, init_capacity=None,
                         evict_strategy="lru")
            loss = tf.reduce_sum(sok.all2all_dense_embedding(user, keys))
            step = tf.train.AdagradOptimizer(0.5, name=name).minimize(loss, var_list=[user])
            exported = sok.export(user)
            with initialized() as session:
                for _ in range(20):
                    session.run(step, {keys: random.choice(MANY, ROWS, replace=False)})
                got, values = session.run(exported)
                found.append((got[np.argsort(got)], values[np.argsort(got)]))
    assert len(found[0][0]) > 2 * ROWS
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
