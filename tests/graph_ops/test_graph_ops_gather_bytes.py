"""gather_bytes on one rank and on several."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.graph_ops.operations import gather_bytes

PROGRAM = """
import numpy as np, tensorflow.compat.v1 as tf, sok1x as sok
from sok1x.graph_ops.operations import gather_bytes
fed = tf.placeholder(tf.uint8, [None])
gathered = gather_bytes.gather_bytes(fed)
with tf.Session() as session:
    session.run(sok.Init(global_batch_size=1))
    from mpi4py import MPI
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for step in range(4):
        own = [np.random.RandomState([step, i]).randint(0, 256, i * step * 1000).astype(np.uint8) for i in range(ranks)]
        payloads, lengths = session.run(gathered, {fed: own[rank]})
        assert lengths.tolist() == [len(one) for one in own]
        np.testing.assert_array_equal(payloads, np.concatenate(own))
print("ok")
"""


@pytest.mark.parametrize("payload", [b"", b"x", b"\x00\xff" * 40000])
def test_one_rank_gets_its_own(payload):
    with tf.Graph().as_default(), tf.Session() as session:
        gathered = gather_bytes.gather_bytes(np.frombuffer(payload, np.uint8))
        session.run(sok.Init(global_batch_size=1))
        payloads, lengths = session.run(gathered)
        assert payloads.tobytes() == payload and lengths.tolist() == [len(payload)]


def test_all_ranks_get_all():
    assert run_ranks(3, PROGRAM).out.count("ok") == 3
