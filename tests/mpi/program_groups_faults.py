"""Members of a group that fail, or are not as the others are: each as if it ran by itself.

    [mpiexec -np N] python program_groups_faults.py

Each scenario builds a graph and gives what runs in sessions of it, twice, together and one by one: results, errors and
all variables must be the same. Those of both lists run with lookups by key, and with lookups by bag by each exchange.
"""
import sys

import tensorflow.compat.v1 as tf
from groups_faults import (
    batches_not_in_order,
    full_table,
    gradient_of_another_shape,
    key_beyond_its_type,
    key_outside,
    never_initialized,
    training_of_another_shape,
)
from groups_model import (
    BAG_FORWARD,
    FORWARD,
    all_bags,
    bags_by,
    one_by_one,
    pause,
    same,
    sizes,
)
from groups_unlike import (
    another_exchange_each_step,
    evaluated_by_themselves,
    evaluation,
    keys_of_many_dimensions,
    one_table_several_times,
    one_table_several_times_with_a_global_step,
    runs_at_once,
)
from settled import settle

import sok1x as sok
from sok1x import launch

BY_KEY_AND_BY_BAG = (full_table, key_outside, key_beyond_its_type, never_initialized, gradient_of_another_shape,
                     training_of_another_shape, evaluation, one_table_several_times_with_a_global_step)
BY_KEY = BY_KEY_AND_BY_BAG + (evaluated_by_themselves, one_table_several_times, keys_of_many_dimensions, runs_at_once)
BY_SUMS = BY_KEY_AND_BY_BAG + (batches_not_in_order,)
BY_BAG = BY_SUMS + (another_exchange_each_step,)


def main():
    pause[0] = settle
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
    world = launch.current()
    runs = [(False, "all2all", one) for one in BY_KEY] + [(True, "all2all", one) for one in BY_BAG]
    if world.size > 1:
        runs += [(True, "reduce_scatter", one) for one in BY_SUMS]
    for all_bags[0], bags_by[0], scenario in runs:
        if sys.argv[1:] and scenario.__name__ not in sys.argv[1:]:
            continue
        sizes.clear()
        with tf.Graph().as_default():
            run = scenario(world.rank, world.size)
            ours = run()
            assert max(sizes.get(BAG_FORWARD if all_bags[0] else FORWARD, [0])) > 1, sizes
            seen = {name: list(groups) for name, groups in sizes.items()}
            with one_by_one():
                theirs = run()
        print("{} {}\n".format(scenario.__name__, seen), end="")
        assert sizes == seen, sizes
        same(ours, theirs)
    print("rank {} ok\n".format(world.rank), end="")


if __name__ == "__main__":
    main()
