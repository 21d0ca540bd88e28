"""Plans of graphs, which threads of the program make and the executor's lists."""
import sys
import threading

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import plan


def test_they_are_listed_while_other_threads_build_graphs():
    """As a session ends: the executor died of it where a graph came meanwhile."""
    kept = [tf.Graph() for _ in range(200)]
    expected = {plan.of(graph) for graph in kept}
    ended, built = threading.Event(), []

    def build():
        while not ended.is_set():
            held = [tf.Graph() for _ in range(20)]
            built.append(len({plan.of(graph) for graph in held}))

    builders = [threading.Thread(target=build) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for builder in builders:
            builder.start()
        while len(built) < 200:
            assert expected <= set(plan.all_of())
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        for builder in builders:
            builder.join()
    assert set(built) == {20}
