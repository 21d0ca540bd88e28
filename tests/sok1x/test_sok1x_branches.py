"""Lookups inside tf.cond, tf.case and tf.while_loop train as tf.gather of a resource variable does."""
import contextlib
import functools
import os

import numpy as np
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from branch_twins import HOT, SLOTS, WAYS, Twins
from ranks import run_ranks
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_branches.py")
STEPS = 20
OPTIMIZERS = {
    "in_cond": [lambda: v1.train.MomentumOptimizer(0.1, 0.9), lambda: stock_lazy_adam.LazyAdamOptimizer(0.05)],
    "in_both": [lambda: v1.train.AdagradOptimizer(0.1), lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9)],
    "in_nested": [lambda: v1.train.AdamOptimizer(0.05), lambda: tf.keras.optimizers.Adam(0.05)],
    "in_loop": [lambda: v1.train.GradientDescentOptimizer(0.01), lambda: v1.train.FtrlOptimizer(0.1)],
}


def steps_of(make, wrap, loss, variable, clipped):
    """A step on the gradient as it comes, or clipped and made dense."""
    gradient, = tf.gradients(loss, [variable])
    if clipped:
        gradient, = tf.clip_by_global_norm([tf.convert_to_tensor(gradient)], 2.0)[0]
    return wrap(make()).apply_gradients([(gradient, variable)])


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"in_cond_in_loop"}))
def test_as_gather(way, seed):
    random = np.random.RandomState(seed)
    for i, make in enumerate(OPTIMIZERS.get(way, [lambda: v1.train.GradientDescentOptimizer(0.1)])):
        with graph():
            twins = Twins(WAYS[way], dense=i == 0)
            wrap = (sok.DistributedOptimizer, lambda optimizer: optimizer)[i]
            ours = steps_of(make, wrap, twins.our_loss, twins.table, i == 1)
            stock = steps_of(make, lambda optimizer: optimizer, twins.stock_loss, twins.stock, i == 1)
            with session() as run:
                twins.start(run)
                before = run.run(twins.stock)
                for step in range(STEPS):
                    keys = random.randint(0, 10, [random.randint(0, 4), SLOTS, HOT])
                    feed = {twins.keys: keys, twins.every: keys, twins.flags: [step % 2, step // 2 % 2]}
                    one, other = run.run([twins.our_loss, twins.stock_loss], feed)
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
                    run.run([ours, stock], feed)
                after = run.run(twins.stock)
                np.testing.assert_allclose(run.run(twins.rows), after, rtol=1e-4, atol=1e-5)
                assert np.abs(after - before).max() > 1e-3, "nothing was trained"


def test_a_branch_inside_a_loop(seed):
    """TensorFlow 1.15 cannot differentiate a gather there, and says so; looking up is possible."""
    for of_stock in (False, True):
        with graph():
            twins = Twins(WAYS["in_cond_in_loop"])
            with contextlib.ExitStack() as stack:
                if tf.__version__.startswith("1."):
                    stack.enter_context(pytest.raises(TypeError, match="resource"))
                tf.gradients(*[(twins.our_loss, [twins.table]), (twins.stock_loss, [twins.stock])][of_stock])
    with graph():
        twins = Twins(WAYS["in_cond_in_loop"])
        keys = np.random.RandomState(seed).randint(0, 10, [3, SLOTS, HOT])
        with session() as run:
            twins.start(run)
            for flag in (0, 1):
                one, other = run.run([twins.our_loss, twins.stock_loss],
                                     {twins.keys: keys, twins.every: keys, twins.flags: [flag, 0]})
                np.testing.assert_allclose(one, other, rtol=1e-5)


def test_our_own_adams_take_a_branch(seed):
    """Optimizers of ours, on the merged gradient of two branches."""
    random = np.random.RandomState(seed)
    for ours, stock in ((sok.tf.keras.optimizers.LazyAdamOptimizer, stock_lazy_adam.LazyAdamOptimizer),
                        (sok.optimizers.Adam, tf.keras.optimizers.Adam)):
        with graph():
            twins = Twins(WAYS["in_cond"])
            steps = [steps_of(lambda make=make: make(0.05), lambda optimizer: optimizer, loss, variable, False)
                     for make, loss, variable in ((ours, twins.our_loss, twins.table),
                                                  (stock, twins.stock_loss, twins.stock))]
            with session() as run:
                twins.start(run)
                for step in range(8):
                    keys = random.randint(0, 10, [3, SLOTS, HOT])
                    run.run(steps, {twins.keys: keys, twins.every: keys, twins.flags: [step % 3, 0]})
                np.testing.assert_allclose(run.run(twins.rows), run.run(twins.stock), rtol=1e-4, atol=1e-5)


def test_one_guard_a_decision():
    """However many ops are inside, a tf.cond brings one op, a loop one, and a lookup outside none."""
    for way, expected in (("in_cond", 1), ("in_both", 1), ("in_nested", 2), ("in_case", 2), ("in_loop", 1),
                          ("in_cond_in_loop", 2), ("beside", 1)):
        with graph() as made:
            twins = Twins(WAYS[way])
            if way != "in_cond_in_loop":
                tf.gradients(twins.our_loss, [twins.table])
            guards = [op for op in made.get_operations()
                      if op_types.is_ours(op) and op.get_attr("function") == b"operations.branches.agree"]
            assert len(guards) == expected, (way, [op.name for op in guards])


def test_two_ranks(seed):
    """They train as one; where they would part, all of them are told, and can go on."""
    finished = run_ranks(2, PROGRAM, seed)
    assert sorted(finished.out.split()) == ["done-0", "done-1"]


def unrolled(loop, look, keys):
    return {"a loop": look(keys) + look(keys + 1), "a loop in a loop": 2.0 * (look(keys) + look(keys + 1)),
            "no turn": 0.0 * look(keys[:0])}[loop]


def in_loops(loop, look, keys):
    """`look` of keys and of keys + 1, in tf.while_loops."""
    def turns(times, body):
        return v1.while_loop(lambda i, _: i < times, lambda i, total: (i + 1, total + body(tf.cast(i, tf.int64))),
                             [0, tf.zeros_like(look(keys))])[1]
    return {"a loop": lambda: turns(2, lambda i: look(keys + i)),
            "a loop in a loop": lambda: turns(2, lambda _: turns(2, lambda i: look(keys + i))),
            "no turn": lambda: turns(0, lambda i: look(keys + i))}[loop]()


@pytest.mark.parametrize("loop", ["a loop", "a loop in a loop", "no turn"])
@pytest.mark.parametrize("grows", [True, False])
def test_row_0_stays_where_no_turn_asks_for_it(loop, grows):
    """TensorFlow begins the sum with zeros for row 0, which momentum would move."""
    values = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    sok.init()
    with graph():
        tables = [sok.DynamicVariable(dimension=2, initializer=values, init_capacity=4) if grows else
                  sok.Variable(values) for _ in range(2)]
        keys = v1.placeholder(tf.int64, [None])
        steps = [v1.train.MomentumOptimizer(0.1, 0.9).minimize(
            tf.reduce_sum(how(loop, functools.partial(sok.all2all_dense_embedding, table), keys)) +
            tf.reduce_sum(sok.all2all_dense_embedding(table, keys)), var_list=[table])
            for how, table in zip((in_loops, unrolled), tables)]
        in_order = [sok.all2all_dense_embedding(table, keys) for table in tables]  # a loop's lookups may not be
        with session() as run:
            run.run(in_order, {keys: range(4 if grows else 1)})
            for batch in ([0, 1], [2], [1], [2]):
                run.run(steps, {keys: batch})
            ours, expected = (run.run(table.read_value()) for table in tables)
            np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_a_loop_on_a_rank_without_rows():
    """Of a table all of whose rows are on another rank there is no row 0 here."""
    finished = run_ranks(2, os.path.join(os.path.dirname(PROGRAM), "program_loop_without_rows.py"))
    assert sorted(finished.out.split()) == ["done-0", "done-1"]


def test_steps_in_branches_that_are_functions():
    finished = run_ranks(2, os.path.join(os.path.dirname(PROGRAM), "program_branched_functions.py"), timeout=120)
    assert finished.out.count("ok") == 2


@pytest.mark.parametrize("kind", ["fixed", "grows", "forgets", "cached"])
def test_dumps_have_what_a_branch_that_is_not_taken_moves(kind):
    """Momentum goes on with all rows, as with those of a stock variable; with a cached table's none."""
    values = np.full([3, 1], 0.5, np.float32)
    sok.init()
    with graph():
        table = sok.Variable(values) if kind == "fixed" else sok.DynamicVariable(
            1, "0.5", init_capacity=3, **{"grows": {}, "forgets": {"max_capacity": 50},
                                          "cached": {"var_type": "hybrid", "cache_rows": 2}}[kind])
        stock = v1.get_variable("stock", initializer=values, use_resource=True)
        flag, keys = v1.placeholder(tf.bool, []), v1.placeholder(tf.int64, [None])
        steps, global_step = [], v1.train.get_or_create_global_step()
        for variable, look in ((stock, lambda: tf.gather(stock, keys)),
                               (table, lambda: sok.all2all_dense_embedding(table, keys))):
            loss = tf.reduce_sum(v1.cond(flag, look, lambda: tf.zeros([tf.size(keys), 1])))
            steps.append(v1.train.MomentumOptimizer(0.1, 0.9).minimize(
                loss, global_step if variable is table else None, var_list=[variable]))
        with session() as run:
            run.run(v1.global_variables_initializer())
            for key in range(3):
                run.run(steps, {flag: True, keys: [key]})
            before = run.run(stock)
            run.run(steps, {flag: False, keys: [0]})
            after = run.run(stock)
            assert (after < before).all()
            found, rows = sok.export(table, run)
            expected = before if kind == "cached" else after
            np.testing.assert_allclose(rows[np.argsort(found)], expected, rtol=1e-6)
            changed, rows = sok.incremental_dump(table, 3, run)
            if kind != "cached":
                np.testing.assert_array_equal(np.sort(changed), [0, 1, 2])
                np.testing.assert_allclose(rows[np.argsort(changed)], after, rtol=1e-6)
            else:
                assert len(changed) == 0
