"""Run by test_checkpoint_manager.py: a rank is stopped while all save or restore together, and asks again.

    mpiexec -np 2 python program_stopped.py FOLDER graph|eager
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.ranks import Ranks

KEYS = np.arange(6)


class Stopped(BaseException):
    """As Ctrl-C, or what a signal's handler raises."""


def stop_at(number, call):
    """This rank is stopped in a call before it takes part in the exchange of this number, from 1 on."""
    stock, seen = Ranks.exchange, []

    def exchange(self, session, value):
        seen.append(value)
        if len(seen) == number:
            raise Stopped()
        return stock(self, session, value)

    Ranks.exchange = exchange
    try:
        call()
        raise AssertionError("it was not stopped")
    except Stopped:
        pass
    finally:
        Ranks.exchange = stock


def check(what, call):
    """The call has four exchanges; rank 1 is stopped before each of them in turn, and calls again."""
    call()
    for number in (1, 2, 3, 4):
        if launch.current().rank == 1:
            stop_at(number, call)
        if number > 1:
            try:  # rank 0 still waits for that, and rank 1 begins anew
                call()
                raise AssertionError("each has heard the other")
            except CheckpointError as error:
                told = ["'{}' ({})".format(what, at) for at in (number, 1)]
                assert all(one in str(error) for one in told), (number, error)
                assert "all ranks must do the same with tables" in str(error), error
        call()


def check_all(manager, what, *session):
    """Both, of a manager in whose folder nothing is: what is there in the end is whole."""
    check(what("save"), lambda: manager.save(*session, step=5))
    check(what("restore"), lambda: manager.restore(*session))
    assert manager.restore(*session) == 5


def in_graph(folder):
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(dimension=2, initializer="7", var_type="hbm")
        rows = sok.all2all_dense_embedding(table, tf.constant(KEYS, tf.int64))
        manager = sok.CheckpointManager(folder)
        session.run(tf.global_variables_initializer())
        session.run(rows)
        check_all(manager, "{} a checkpoint".format, session)
        assert len(session.run(sok.export(table)[0])) == 3


def eagerly(folder):
    table = sok.DynamicVariable(dimension=2, initializer="7", var_type="hbm")
    sok.all2all_dense_embedding(table, tf.constant(KEYS, tf.int64))
    check_all(sok.CheckpointManager(folder), lambda done: {
        "save": "save {} of step 5", "restore": "restore {}"}[done].format(folder))
    assert len(sok.export(table)[0]) == 3


def main(folder, how):
    (tf.enable_v2_behavior if how == "eager" else tf.disable_v2_behavior)()
    sok.init()
    {"graph": in_graph, "eager": eagerly}[how](folder)
    print("ok", launch.current().rank)


if __name__ == "__main__":
    main(*sys.argv[1:])
