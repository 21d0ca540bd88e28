"""Dense gradients, of lookups in loops and in tf.recompute_grad, where rows leave a table or it grows: against NumPy.

    [mpiexec -np N] python program_dense_gradients.py FOLDER
"""
import sys

import numpy as np
import tensorflow as tf
from refusals import refused

tf.compat.v1.enable_v2_behavior()
from dense_losses import (  # noqa: E402
    DIM,
    EACH,
    KERAS,
    STEP,
    apply,
    exported,
    forgetting,
    gradient_of,
    in_turns,
    keys_from,
    moved,
    optimizers,
    repeated,
)

import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

LEFT = "whose rows leave at max_capacity: got a dense gradient, and rows have left since it was made"


def check_kept(world, loss, in_function):
    """A step at once moves the batch's keys; one after others' lookups is refused, as soon as rows have left."""
    make = tf.function(gradient_of) if in_function else gradient_of
    for optimizer in optimizers():
        table = forgetting()
        mine = {key for key in keys_from(0).numpy().tolist() if key % world.size == world.rank}
        apply(optimizer, make(table, loss, keys_from(0)), table)
        assert moved(table, {}) == mine
        assert all(row == [1 - STEP] * DIM for key, row in exported(table).items() if key in mine)
        kept = make(table, loss, keys_from(0))
        sok.all2all_dense_embedding(table, keys_from(1000))  # which has room
        before = exported(table)
        apply(optimizer, kept, table)
        assert moved(table, before) == mine
        kept = make(table, loss, keys_from(0))
        for first in (2000, 3000):
            sok.all2all_dense_embedding(table, keys_from(first, 2))
        before = exported(table)
        assert not mine & set(before), "they have left"
        refused(ValueError, LEFT, lambda optimizer=optimizer, kept=kept, table=table: apply(optimizer, kept, table))
        assert exported(table) == before


def check_within_a_function(world):
    """The step is taken where the gradient is made, with lookups between."""
    for optimizer in optimizers()[:3]:
        table = forgetting()

        @tf.function
        def step(keys, others, table=table, optimizer=optimizer):
            gradient = gradient_of(table, repeated, keys)
            for part in others:
                sok.all2all_dense_embedding(table, part)
            optimizer.apply_gradients([(gradient, table)])

        step(keys_from(0), [keys_from(1000, 2)] * 3)
        mine = {key for key in keys_from(0).numpy().tolist() if key % world.size == world.rank}
        assert moved(table, {}) == mine
        sok.all2all_dense_embedding(table, keys_from(2000, 2))
        before = exported(table)
        refused(tf.errors.InvalidArgumentError, LEFT, lambda step=step: step(keys_from(3000), [
            keys_from(first, 2) for first in (4000, 5000, 6000)]))
        assert not moved(table, before), "nothing has moved"


def check_none_of_it(world, in_function):
    """Where rows have left on rank 0 alone no rank moves anything of the step; the next one all ranks take."""
    table, other, weight = forgetting(), forgetting(), tf.Variable(1.0)
    optimizer = KERAS.legacy.SGD(STEP)
    if world.size > 1:
        optimizer = sok.DistributedOptimizer(optimizer, average=False)

    def step(others):
        with tf.GradientTape() as tape:
            made = tf.reduce_sum(sok.all2all_dense_embedding(other, keys_from(0)))
            made = (made + weight * repeated(table, keys_from(0))) / world.size
        gradients = tape.gradient(made, [table, other, weight])
        for part in others:
            sok.all2all_dense_embedding(table, part)
        optimizer.apply_gradients(zip(gradients, [table, other, weight]))

    step = tf.function(step) if in_function else step
    mine = [key for key in keys_from(0).numpy().tolist() if key % world.size == world.rank]
    floats = EACH * DIM
    step([keys_from(0)] * 3)
    after = 1 - STEP * floats * world.size
    np.testing.assert_allclose(weight, after)
    before = exported(other)
    refused(tf.errors.InvalidArgumentError if in_function else ValueError, "'{}' on rank 0, {}".format(
        table.table.name, LEFT), lambda: step([
            world.size * tf.range(first, first + 4, dtype=tf.int64) for first in (1000, 2000, 3000)]))
    assert weight.numpy() == np.float32(after) and exported(other) == before and int(optimizer.iterations) == 1
    assert moved(table, {}) == (set() if world.rank == 0 else set(mine))
    step([keys_from(0)] * 3)
    np.testing.assert_allclose(weight, after - STEP * floats * (1 + (world.size - 1) * (1 - STEP)))
    assert int(optimizer.iterations) == 2


def returned(captured):
    return tf.function(lambda: tf.identity(captured))()


def check_captured_and_restored(folder):
    """What a function returns of an eager gradient is as kept as that is; a restore has all rows leave."""
    for restored in (False, True):
        table, manager = forgetting(), sok.CheckpointManager(folder)
        sok.all2all_dense_embedding(table, keys_from(1000))
        if restored:
            manager.save(step=1)
        kept = gradient_of(table, repeated, keys_from(0))
        if restored:
            manager.restore()
        else:
            kept = returned(kept)
        for first in (2000, 3000, 4000)[:1 if restored else 3]:
            sok.all2all_dense_embedding(table, keys_from(first, 2))
        before = exported(table)
        refused(ValueError, LEFT, lambda kept=kept, table=table: KERAS.legacy.SGD(STEP).apply_gradients(
            [(kept, table)]))
        assert exported(table) == before


def check_what_is_counted():
    """Rows that have left, where a dense gradient may be applied and rows leave: no step of other tables pays."""
    for options, counts in (({"evict_strategy": "lru", "max_capacity": 8}, True), ({"admit_after": 2}, False),
                            ({"cache_rows": 8}, False)):
        table = sok.DynamicVariable(DIM, initializer="1", init_capacity=8, **options)

        @tf.function
        def made(table=table):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys_from(0)))
            return tape.gradient(loss, table)

        kinds = [op.type for op in made.get_concrete_function().graph.get_operations()]
        assert ("ResourceGather" in kinds) == counts, (options, kinds)


def check_returned_later(nested):
    """A function that goes on looking up returns the gradient; or the one that it has from a function inside."""
    for loss in (in_turns, repeated):
        table = forgetting()
        make = tf.function(gradient_of) if nested else gradient_of

        @tf.function
        def returned(others, table=table, make=make, loss=loss):
            gradient = make(table, loss, keys_from(0))
            for part in others:
                sok.all2all_dense_embedding(table, part)
            return gradient

        kept = returned([keys_from(first, 2) for first in (2000, 3000, 4000)])
        before = exported(table)
        refused(ValueError, LEFT, lambda kept=kept, table=table: KERAS.legacy.SGD(STEP).apply_gradients(
            [(kept, table)]))
        assert exported(table) == before


def check_lookups_before_the_gradient():
    """Of other keys, while the batch's rows are kept: there is no room for them, or they have left."""
    table, optimizer = forgetting(), KERAS.legacy.SGD(STEP)

    @tf.function
    def step(others):
        with tf.GradientTape() as tape:
            made = in_turns(table, keys_from(0, 2))
        for part in others:
            sok.all2all_dense_embedding(table, part)
        optimizer.apply_gradients([(tape.gradient(made, table), table)])

    refused(tf.errors.ResourceExhaustedError, "is full", lambda: step([keys_from(first) for first in range(
        1000, 6000, 1000)]))
    assert not moved(table, {})


def check_two_blocks(function):
    """The second block's lookup must not have rows leave whose gradient the first has made.

    function: what is a tf.function: "", the "loss", the whole "gradient", "each" block, or "all": the gradient and each
      block. Where the blocks have calls of their own rows cannot be made to stay: where they have left it is refused.
    """
    for strategy in ("lru", "lfu"):
        table, size = forgetting(strategy), launch.current().size
        for _ in range(6):
            sok.all2all_dense_embedding(table, keys_from(1000, 3))  # what is asked for often

        block = tf.function(repeated) if function in ("each", "all") else repeated

        def loss(table=table, block=block):
            return (block(table, keys_from(0)) + 2 * block(table, keys_from(100 * size))) / size

        called = tf.function(loss) if function == "loss" else loss

        def gradient(table=table, called=called):
            with tf.GradientTape() as tape:
                made = called()
            return tape.gradient(made, table)

        made = (tf.function(gradient) if function in ("gradient", "all") else gradient)()
        before = exported(table)
        if strategy == "lfu" and function in ("each", "all"):
            refused(ValueError, LEFT, lambda made=made, table=table: KERAS.legacy.SGD(STEP).apply_gradients(
                [(made, table)]))
            continue
        KERAS.legacy.SGD(STEP).apply_gradients([(made, table)])
        for key, row in exported(table).items():
            times = 0 if key >= 1000 else 2 if key >= 100 * size else 1
            np.testing.assert_allclose(row, np.array(before[key]) - times * STEP, err_msg=str((strategy, key)))
        assert len([key for key in before if key < 1000]) == 2 * EACH, before


def check_growth():
    """TensorFlow says no more than that shapes differ."""
    for optimizer in optimizers():
        table = sok.DynamicVariable(DIM, initializer="1", init_capacity=4)
        kept = gradient_of(table, repeated, keys_from(0))
        sok.all2all_dense_embedding(table, keys_from(1000, 3))
        refused(ValueError, "which grows: got a dense gradient of 4 rows, made before the table had 8",
                lambda optimizer=optimizer, kept=kept, table=table: apply(optimizer, kept, table))
        refused(tf.errors.InvalidArgumentError, "which grows: got a dense gradient of 4 rows", tf.function(
            lambda optimizer=optimizer, kept=kept, table=table: apply(optimizer, kept, table)))
        assert not moved(table, {})


def check_in_a_branch():
    """Keras' optimizers want all gradients of a step from one graph."""
    for optimizer in optimizers()[:-1]:
        table, dense = sok.DynamicVariable(DIM, initializer="1", init_capacity=8), tf.Variable(tf.ones([DIM, 1]))

        @tf.function
        def step(keys, number, optimizer=optimizer, table=table, dense=dense):
            with tf.GradientTape() as tape:
                loss = 0.0
                for key in keys:
                    loss += tf.reduce_sum(tf.matmul(sok.all2all_dense_embedding(table, key[None]), dense))
            gradients = tape.gradient(loss, [table, dense])
            if number % 2 == 0:
                optimizer.apply_gradients(zip(gradients, [table, dense]))
            return loss

        first, second = (float(step(tf.constant([0, 1], tf.int64), tf.constant(number))) for number in (1, 0))
        assert first == second == 2.0 * DIM, (first, second)
        assert float(step(tf.constant([0, 1], tf.int64), tf.constant(1))) < first


def main():
    tf.get_logger().setLevel("ERROR")  # a scale of 1 needs no scaled loss
    sok.init()
    world = launch.current()
    for loss, in_function in ((in_turns, True), (repeated, False), (repeated, True)):
        check_kept(world, loss, in_function)
    check_within_a_function(world)
    for nested in (False, True):
        check_returned_later(nested)
    check_lookups_before_the_gradient()
    for function in ("", "loss", "gradient", "each", "all"):
        check_two_blocks(function)
    for in_function in (False, True):
        check_none_of_it(world, in_function)
    check_captured_and_restored(sys.argv[1])
    check_what_is_counted()
    check_growth()
    if world.size == 1:
        check_in_a_branch()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
