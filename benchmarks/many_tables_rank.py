"""One rank of many_tables.py: [mpiexec -np N] python benchmarks/many_tables_rank.py OPTIONS.json RESULT.json"""

import jobs
import model_sides
import numpy as np
import sparse_sides
import tensorflow.compat.v1 as tf
from measure import Ranks, answer, asked, time_steps

SIDES = {"sok1x": model_sides.Sok1x, "stock": model_sides.Stock, "horovod": model_sides.Horovod}


def batch_of(options, rank, number):
    """One of a rank's batches, one key each."""
    random = np.random.RandomState([options.seed, rank, number])
    return model_sides.Batch(model_sides.table_keys(random, options), ())


def main():
    """Measures; rank 0 writes."""
    options = asked()
    jobs.take_gpu(options.gpus)
    tf.logging.set_verbosity(tf.logging.ERROR)
    ranks = Ranks("horovod" in options.sides, options.ranks == 1)
    options.device_name = "/gpu:0" if options.gpus else "/cpu:0"
    config = model_sides.session_config(options.threads)
    with tf.Graph().as_default(), tf.device(options.device_name), tf.Session(config=config) as session:
        session.run(tf.zeros([1]))  # TensorFlow's own start is no side's
    known, make_batch = (sparse_sides.SIDES, sparse_sides.Batch) if options.sparse else (SIDES, batch_of)
    batches = [make_batch(options, ranks.rank, number) for number in range(options.batches)]
    sides = {name: known[name](model_sides.LOSSES[options.loss](), options, config, ranks) for name in options.sides}
    found = {"seconds": {}, "ms": {}}
    for name, side in sides.items():
        side.begin(batches[0])
        gathered = ranks.gather(side.seconds)
        found["seconds"][name] = {part: max(each[part] for each in gathered) for part in side.seconds}
    if options.sparse:  # each has taken the same steps
        found["losses"] = sparse_sides.losses(sides, batches[0], ranks)
    for mode in options.modes:
        found["ms"][mode] = time_steps({name: model_sides.Mode(side, mode) for name, side in sides.items()}, batches,
                                       vars(options), ranks)
    found["distinct"] = float(np.mean(ranks.gather(np.mean(
        [sum(len(np.unique(keys)) for keys in batch.keys) for batch in batches]))))
    found.update(model_sides.describe(options))
    answer(ranks, found)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
