"""Memory ends in the middle of a table in host memory with a cache: program_hybrid.py runs it."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge, growing
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import cache_plan, host_left, host_tier


def memory_ends():
    """Every allocation fails in turn, on one rank: all ranks hear of it, no row has changed, and later it goes well."""
    world = launch.current()
    left, inside = [None], [False]
    stock = growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory
    stock_plan = cache_plan.make

    def scarce(place, error):
        def call(self, *arguments, **how):
            if left[0] is not None and inside[0]:
                left[0] -= 1
                if left[0] == -1:
                    raise error
            return stock[place](self, *arguments, **how)
        return call

    def plan(*arguments):
        inside[0] = True
        try:
            return stock_plan(*arguments)
        finally:
            inside[0] = False

    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(3, "uniform", name="t", cache_rows=16, max_capacity=22)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        gradient, = tf.gradients(tf.reduce_sum(rows * rows), table)
        step = tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient, table)])
        known, size = sok.export(table), world.size
        session.run(tf.global_variables_initializer())
        for first in range(0, 60, 10):
            session.run(step, {keys: range(size * first, size * (first + 10))})
        values = {one.op.name: one.value() for one in tf.global_variables()
                  if not one.op.name.endswith(("/counters", "/used", "/tiers"))}
        # New keys, for which others leave the cache, and the table, of some the both.
        batch, failed = range(size * 57, size * 70), 0
        for number in range(0, 200, 1 if size == 1 else 5):
            state, exported = session.run(values), session.run(known)
            no_memory = CallError(RESOURCE_EXHAUSTED, "no memory")
            growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory = [
                scarce(place, error) for place, error in enumerate((no_memory, OSError(12, "no memory"), no_memory))]
            left[0], cache_plan.make = number if world.rank == 0 else None, plan
            try:
                session.run(rows, {keys: batch})
            except tf.errors.ResourceExhaustedError:
                failed += 1
            else:
                if world.rank == 0 and left[0] < 0:
                    raise AssertionError("allocation {} went well".format(number))
                break
            finally:
                growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory = stock
                cache_plan.make = stock_plan
            for name, now in session.run(values).items():
                np.testing.assert_array_equal(now, state[name], err_msg="{} {}".format(name, number))
            for one, other in zip(session.run(known), exported):
                np.testing.assert_array_equal(one, other)
        assert failed > (20 if size == 1 else 4), failed
        try:
            session.run(step, {keys: range(size * 200, size * 217)})
        except tf.errors.ResourceExhaustedError as error:
            assert "its cache has 16 rows, too few" in error.message and "17 more keys" in error.message, error.message
        else:
            raise AssertionError("a batch that is larger than the cache")
        least, host_left._least = host_left._least, lambda: (1000, "")
        try:
            big = sok.DynamicVariable(1 << 14, "uniform", name="big", cache_rows=4)
            looked_up = sok.all2all_dense_embedding(big, keys)
            session.run([variable.initializer for variable in tf.global_variables() if "big" in variable.name])
            session.run(looked_up, {keys: range(size)})
        except tf.errors.ResourceExhaustedError as error:
            for words in ("embedding table 'big' on rank 0", "1000 bytes of the host's memory are left",
                          "no row was changed"):
                assert words in error.message, error.message
        else:
            raise AssertionError("no memory")
        finally:
            host_left._least = least
