"""Run on two ranks by test_mpi_servers.py: sessions on servers of TensorFlow's, one in each rank, in one cluster.

    mpiexec -np 2 python program_servers.py PORT,PORT WHERE JOINED
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])


def main(ports, where, joined):
    cluster = tf.train.ClusterSpec({"worker": ["localhost:" + port for port in ports.split(",")]})
    server = tf.train.Server(cluster, "worker", RANK)
    if joined == "by a call":
        sok.init()
    with tf.device("/job:worker/task:{}".format(RANK) if where == "own" else None):
        layer = sok.All2AllDenseEmbedding(8, 2, 1, 1, use_hashtable=False, embedding_initializer="ones")
        vectors = layer(tf.constant([[[0]], [[1]]], tf.int64), training=True)
        step = tf.train.GradientDescentOptimizer(0.25).minimize(tf.reduce_sum(vectors), var_list=layer.variables)
        begin = tf.global_variables_initializer()
        if joined == "by an op":
            init = sok.Init(global_batch_size=4)
    MPI.COMM_WORLD.Barrier()  # a server knows our ops when its process has made one
    with tf.Session(server.target) as session:
        if joined == "by an op":
            session.run(init)
        session.run(begin)
        for _ in range(2):
            session.run(step)
        np.testing.assert_array_equal(session.run(vectors), np.full([2, 1, 1, 2], 0.0))  # both ranks', twice
    sys.stdout.write("done-{}\n".format(RANK))


main(*sys.argv[1:])
