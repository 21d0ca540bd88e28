"""Run by test_sok1x_model_dump.py: a rank is stopped while all ranks' rows are given out, and asks again; or asks alone
for what has left.

    mpiexec -np 2 python program_model_dump_stopped.py SEED
"""
import datetime
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch, model_dump
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.talk import Talk

SINCE = datetime.datetime(1970, 1, 1)


class Stopped(BaseException):
    """As Ctrl-C, or what a signal's handler raises."""


class NoRoom:
    """NumPy, that once has no memory for rows."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        if np.size(shape) == 2:
            model_dump.np = np
            raise MemoryError("no room for rows")
        return np.empty(shape, dtype)


def stop_at(part):
    """This rank is stopped before it takes part in the exchange of that."""
    stock = Talk.gather

    def gather(self, session, payload):
        if self._call.value is not None and part in self._call.value.what:
            Talk.gather = stock
            raise Stopped()
        return stock(self, session, payload)

    Talk.gather = gather


def main():
    sok.init()
    rank = launch.current().rank
    random = np.random.RandomState(int(sys.argv[1]))
    keys = random.permutation(10 ** 6)[:4000] * 2
    keys[:40] += 1  # few of one rank
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(dimension=3, initializer="7", var_type="hbm")
        fed = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, fed)
        session.run(tf.global_variables_initializer())
        session.run(rows, {fed: np.array_split(keys, 2)[rank]})

        def check():
            found, values = sok.incremental_model_dump([table], SINCE, session)
            np.testing.assert_array_equal(np.sort(found[0]), np.sort(keys))
            np.testing.assert_array_equal(values[0], np.full([len(keys), 3], 7, np.float32))

        check()
        for part in ("the keys of", "the rows of"):
            if rank == 1:
                stop_at(part)
                try:
                    check()
                    raise AssertionError("it was not stopped")
                except Stopped:
                    pass
            try:  # rank 0 still waits for that, and rank 1 begins anew
                check()
                raise AssertionError("each has another's bytes")
            except CheckpointError as error:
                assert part in str(error) and "all ranks must do the same with tables" in str(error), error
            check()
        if rank == 1:
            model_dump.np = NoRoom()
        try:
            check()
            raise AssertionError("there was room")
        except (MemoryError, CheckpointError) as error:
            assert "no room for rows" in str(error) and isinstance(error, MemoryError) == (rank == 1), error
        check()
        try:
            sok.incremental_model_dump([table], SINCE, session, evicted=rank == 0)
            raise AssertionError("what has left of rank 1 is not there")
        except CheckpointError as error:
            assert "with evicted=True" in str(error) and "all ranks must do the same with tables" in str(error), error
        check()
    print("ok", rank)


if __name__ == "__main__":
    main()
