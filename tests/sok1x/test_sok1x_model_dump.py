"""incremental_model_dump: times and steps, pauses, threads, restores, and what it refuses."""
import datetime
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import environment, run_ranks
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.graph_ops.stores import step_times

v1 = tf
PAUSE = 0.3


class Model:
    """A layer, with keys [K] to feed."""

    def __init__(self, global_step=False, name=None):
        self.layer = dense_layer(max_vocabulary_size_per_gpu=100, embedding_initializer="ones")
        self.keys = v1.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(self.layer(tf.reshape(self.keys, [-1, 2, 3]), training=True))
        number = v1.train.get_or_create_global_step() if global_step else None
        self.step = v1.train.GradientDescentOptimizer(0.5).minimize(loss, number)

    def train(self, run, *keys):
        run.run(self.step, {self.keys: (list(keys) * 6)[:6]})


def now():
    return datetime.datetime.utcnow()


def since(run, model, when):
    (keys,), (values,) = sok.incremental_model_dump([model.layer], when, run)
    read = run.run(model.layer.embedding_variable)
    assert values.shape == (len(keys), read.shape[1]) and all((read == row).all(1).any() for row in values)
    return sorted(keys.tolist())


@pytest.mark.parametrize("global_step", [False, True])
def test_a_pause_is_told_from_what_was_before_and_what_came_after(global_step):
    before = now()
    with graph():
        model = Model(global_step)
        with session() as run:
            begins = now()
            assert since(run, model, begins) == since(run, model, before) == []
            times = []
            for keys in ((1, 2), (2, 3), (4,)):
                time.sleep(PAUSE)
                times.append(now())
                model.train(run, *keys)
                model.train(run, *keys)
            after = now()
            assert [since(run, model, when) for when in times] == [[1, 2, 3, 4], [2, 3, 4], [4]]
            assert since(run, model, before) == since(run, model, begins) == [1, 2, 3, 4]
            assert since(run, model, after) == since(run, model, after + datetime.timedelta(days=1)) == []
            several, _ = sok.incremental_model_dump([model.layer] * 4, [times[place] for place in (2, 0, 2, 1)], run)
            assert [sorted(keys.tolist()) for keys in several] == [[4], [1, 2, 3, 4], [4], [2, 3, 4]]
            aware = times[2].replace(tzinfo=datetime.timezone.utc).astimezone(
                datetime.timezone(datetime.timedelta(hours=-7)))
            assert since(run, model, aware) == [4]
            # What has no value of its own begins anew.
            run.run(v1.global_variables_initializer())
            model.train(run, 9)
            assert since(run, model, times[2]) == [9]


@pytest.mark.parametrize("pauses", [True, False])
def test_a_table_that_waits_while_others_train_tells_its_own_last_steps(pauses):
    """After a pause the other's step comes first; or there is no pause, and this table is trained seldom."""
    with graph():
        seldom, other = Model(), Model()
        with session() as run:
            seldom.train(run, 1)
            time.sleep(PAUSE if pauses else 0.0)

            def others(seconds):
                until = time.monotonic() + seconds
                other.train(run, 5)
                while time.monotonic() < until:
                    time.sleep(0.01)
                    other.train(run, 5)
            others(0.0 if pauses else 0.6)
            time.sleep(PAUSE if pauses else 0.0)
            when = now()
            others(0.01 if pauses else 0.6)
            assert since(run, seldom, when) == []
            seldom.train(run, 2)
            assert since(run, seldom, when) == [2] and since(run, other, when) == [5]
            others(1.2)
            seldom.train(run, 3)
            later = now()
            others(0.1)
            seldom.train(run, 4)
            assert since(run, seldom, when) == [2, 3, 4] and 4 in since(run, seldom, later)


def test_sessions_that_follow_each_other_know_their_own_steps():
    """What is known of a table of this name in the session before says nothing of this one's."""
    with graph():
        model = Model()
        for _ in range(4):
            with session() as run:
                when = now()
                assert since(run, model, when) == []
                model.train(run, 7)
                assert since(run, model, when) == [7]
                between = now()
                model.train(run, 8)
                model.train(run, 9)
                assert set(since(run, model, between)) >= {8, 9}


def test_each_of_many_steps_is_in_the_dump_after_it(seed):
    """Of two tables now one is trained and now both, with rests between: who follows has all rows."""
    random = np.random.RandomState(seed)
    with graph():
        models = [Model(), Model()]
        both = [model.step for model in models]
        with session() as run:
            last, known = datetime.datetime(1970, 1, 1), [{}, {}]
            for number in range(60):
                some = random.randint(0, 100, 6)
                run.run(both if random.rand() < 0.3 else random.choice(both), {model.keys: some for model in models})
                time.sleep(random.choice([0, 0, 0, 0.02, 0.26] if number % 4 else [0]))
                here = now()
                keys, values = sok.incremental_model_dump([model.layer for model in models], last, run)
                last = here
                for place, model in enumerate(models):
                    known[place].update(zip(keys[place].tolist(), values[place].tolist()))
                    (every,), (rows,) = sok.incremental_model_dump(model.layer, datetime.datetime(1970, 1, 1), run)
                    assert known[place] == dict(zip(every.tolist(), rows.tolist())), (number, place)


@pytest.mark.parametrize("options", [{"var_type": "hbm"}, {"max_capacity": 64}])
def test_what_takes_all_rows_away_leaves_no_complete_list_of_keys_that_have_left(options, tmp_path):
    forgets = "max_capacity" in options  # whose steps go back when it is restored: there less is known afterwards
    with graph():
        table = sok.DynamicVariable(1, "1", **options)
        keys = v1.placeholder(tf.int64, [None])
        step = v1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(sok.all2all_dense_embedding(table, keys)))
        manager = sok.CheckpointManager(str(tmp_path / "checkpoints"))
        key_0 = sok.Saver().load_embedding_values(table, tf.ones([1, 1]))
        with session() as run:
            run.run(step, {keys: [7]})
            manager.save(run, 1)
            sok.dump(str(tmp_path / "dump"), table, session=run)
            for takes, has in ((lambda: manager.restore(run), []), (lambda: run.run(key_0), [0]),
                               (lambda: sok.load(str(tmp_path / "dump"), table, session=run), []),
                               (lambda: run.run(v1.global_variables_initializer()), [])):
                run.run(step, {keys: [9]})
                time.sleep(PAUSE)
                when = now()
                run.run(step, {keys: [5]})
                *_, complete = sok.incremental_model_dump(table, when, run, evicted=True)
                assert complete == [True] or forgets
                takes()
                after = now()
                time.sleep(PAUSE)
                run.run(step, {keys: [7]})
                (found,), _, (gone,), (complete,) = sok.incremental_model_dump(table, when, run, evicted=True)
                assert found.tolist() == has + [7] and not complete and not len(gone)
                *_, complete = sok.incremental_model_dump(table, after, run, evicted=True)
                assert complete == [True] or forgets


def test_no_change_is_lost_while_threads_train(seed):
    """Two threads train keys of their own all the time; who takes the time before each dump misses nothing."""
    with graph():
        model, counts = Model(), np.zeros(2, int)
        with session() as run:
            ends = threading.Event()

            def train(thread):
                while not ends.is_set():
                    counts[thread] += 1
                    model.train(run, 100 * thread + counts[thread] % 7)

            threads = [threading.Thread(target=train, args=[number]) for number in range(2)]
            for thread in threads:
                thread.start()
            known, last, dumps, end = {}, datetime.datetime(1970, 1, 1), 0, time.monotonic() + 60
            while (dumps < 12 or counts.min() < 8) and time.monotonic() < end:
                dumps += 1
                time.sleep(0.02)
                here = now()
                (keys,), (values,) = sok.incremental_model_dump(model.layer, last, run)
                known.update(zip(keys.tolist(), values.tolist()))
                last = here
            ends.set()
            for thread in threads:
                thread.join()
            (keys,), (values,) = sok.incremental_model_dump(model.layer, last, run)
            known.update(zip(keys.tolist(), values.tolist()))
            (keys,), (values,) = sok.incremental_model_dump(model.layer, datetime.datetime(1970, 1, 1), run)
            assert known == dict(zip(keys.tolist(), values.tolist())) and len(known) == 2 * 7


def test_what_a_saver_restores_has_changed_then(tmp_path):
    with graph():
        model, saver = Model(), v1.train.Saver()
        with session() as run:
            model.train(run, 1, 2)
            path = saver.save(run, str(tmp_path / "model"))
            time.sleep(PAUSE)
            model.train(run, 3)
            time.sleep(PAUSE)
            before = now()
            saver.restore(run, path)
            after = now()
            assert since(run, model, before) == [1, 2] and since(run, model, after) == []
            time.sleep(PAUSE)
            model.train(run, 2)
            assert since(run, model, after) == [2] and since(run, model, before) == [1, 2]


def test_a_log_keeps_its_newest_notes_and_fewer_of_the_older():
    log, last = step_times._Log(0), 3 * step_times._MOST_NOTES
    for step in range(1, last + 1):
        log.before_step(step_times._Now(step, step, 1000 * step, 1000 * step + 5), step)
    assert len(log._times) < step_times._MOST_NOTES
    busy = step_times._Now(last + 1, last + 1, 1000 * last, 1000 * last)
    for step in range(1, last, 97):
        found = log.step_at(1000 * step + 999, busy, last, 1)
        age = last - step
        assert step - (age // 4 if age > step_times._MOST_NOTES // 2 else 0) <= found <= step, (step, found)
    assert log.step_at(999, busy, last, 1) == step_times.EVERY


def test_steps_in_flight_together_leave_a_moment_when_all_of_them_have_ended():
    log = step_times._Log(0)
    at = step_times._Now
    log.before_step(at(newest=2, oldest=1, ended=0, time=10), 5)    # run 1 is in flight still
    log.before_step(at(newest=3, oldest=2, ended=11, time=20), 6)   # now it has ended; of 2 and 3 nobody knows
    log.before_step(at(newest=5, oldest=3, ended=21, time=30), 8)
    busy = at(newest=6, oldest=4, ended=31, time=40)
    assert [log.step_at(time, busy, 9, 1) for time in (19, 20, 29, 30, 39)] == [step_times.EVERY, 5, 5, 6, 6]


def test_a_moment_of_rest_is_one_whatever_has_begun_since():
    """Eagerly the step of another table may be in flight, which has begun just before this table's."""
    log, at = step_times._Log(5), step_times._Now
    log.before_step(at(newest=2, oldest=1, ended=0, time=10), 0, stamped=0)  # the table's first
    log.before_step(at(newest=4, oldest=3, ended=20, time=30, quiet=20), 1, stamped=10)
    log.before_step(at(newest=6, oldest=4, ended=40, time=50, quiet=20), 2, stamped=30)  # what was stamped at 30 may be
    log.before_step(at(newest=7, oldest=6, ended=60, time=70, quiet=20), 3, stamped=50)  # in flight; no longer
    busy = at(newest=8, oldest=7, ended=80, time=90)
    assert [log.step_at(time, busy, 9, 60) for time in (4, 5, 19, 20, 69, 70)] == [step_times.EVERY, 0, 0, 1, 1, 2]
    assert [log.step_at(time, busy, 9, 60, before=2) for time in (4, 5, 21, 22)] == [step_times.EVERY, 0, 0, 1]


def test_a_rank_that_is_stopped_between_exchanges_and_asks_again_or_asks_for_more(seed):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_model_dump_stopped.py")
    assert run_ranks(2, program, seed, timeout=300).out.count("ok") == 2


@pytest.mark.parametrize("how", [[]] + [["eagerly"]] * (not tf.__version__.startswith("1.")))
def test_a_clock_that_is_set_loses_nothing(how, tmp_path):
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    library = str(tmp_path / "set_clock.so")
    subprocess.check_call(["gcc", "-O2", "-shared", "-fPIC", os.path.join(tests, "set_clock.c"), "-o", library])
    program = os.path.join(tests, "sok1x", "program_model_dump_set_clock.py")
    env = dict({"LD_PRELOAD": library}, **({"SOK1X_TEST_BEHAVIOR": "v2"} if how else {}))
    done = subprocess.run([sys.executable, program, library] + how, env=environment(env), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=240)
    assert (done.returncode, done.stdout.strip()) == (0, b"ok"), done.stderr.decode()


def test_what_it_refuses():
    with graph():
        layer, other = dense_layer(), v1.get_variable("dense", [4])
        with graph():
            elsewhere = dense_layer()
        with session() as run:
            for wrong in (other, [layer, other], None):
                with pytest.raises(TypeError, match="incremental_model_dump: variables: got .*expected a sok1x.Var"):
                    sok.incremental_model_dump(wrong, now(), run)
            for wrong in (1.5, None, "2024-01-01", [now(), 3]):
                with pytest.raises(TypeError, match="utc_datetime: got .*expected a datetime.datetime"):
                    sok.incremental_model_dump([layer, layer], wrong, run)
            with pytest.raises(ValueError, match="got 3 times for 1 tables"):
                sok.incremental_model_dump([layer], [now()] * 3, run)
            with pytest.raises(ValueError, match="of two graphs"):
                sok.incremental_model_dump([layer, elsewhere], now(), run)
            with pytest.raises(ValueError, match="got one of another graph"):
                sok.incremental_model_dump(elsewhere, now(), run)
            assert sok.incremental_model_dump([], now(), run) == ([], [])
