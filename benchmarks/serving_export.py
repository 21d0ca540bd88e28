"""Makes, saves and exports the model of serving.py, and times its evaluation here. Started by serving.py:

    python benchmarks/serving_export.py OPTIONS.json RESULT.json
"""
import json
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
from serving_requests import requests

import sok1x as sok


def scores(options, numbers, vectors):
    """DLRM's score [B] from numbers [B, dense] and rows [B, S, D]."""
    hidden = numbers
    for layer, units in enumerate(options["bottom"]):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu, name="bottom_{}".format(layer))
    every = tf.concat([hidden[:, tf.newaxis], vectors], 1)
    count = options["slots"] + 1
    products = tf.reshape(tf.matmul(every, every, transpose_b=True), [-1, count * count])
    below = [row * count + column for row in range(count) for column in range(row)]
    hidden = tf.concat([hidden, tf.gather(products, below, axis=1)], 1)
    for layer, units in enumerate(options["top"]):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu if layer + 1 < len(options["top"]) else None,
                                 name="top_{}".format(layer))
    return tf.sigmoid(hidden[:, 0])


def model(options, hashed):
    """(inputs, score) of a graph, with a table of keys or of rows."""
    numbers = tf.placeholder(tf.float32, [None, options["dense"]], "numbers")
    keys = tf.placeholder(tf.int64, [None, options["slots"], 1], "keys")
    training = tf.placeholder_with_default(False, [], "training")
    layer = sok.All2AllDenseEmbedding(
        max_vocabulary_size_per_gpu=options["vocabulary"], embedding_vec_size=options["bottom"][-1],
        slot_num=options["slots"], nnz_per_slot=1, use_hashtable=hashed)
    return numbers, keys, training, scores(options, numbers, layer(keys, training=training)[:, :, 0])


def make(options, hashed, keys):
    """Builds and saves the model, and exports it in its forms; (figures of each, ms of evaluations)."""
    folder, config = options["folder"], tf.ConfigProto(intra_op_parallelism_threads=options["threads"])
    name = "keys" if hashed else "rows"
    times = {}
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.set_random_seed(options["seed"])
        numbers, fed, training, score = model(options, hashed)
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        step = options["slots"] * 4096
        for first in range(0, len(keys) if hashed else 0, step):
            some = np.resize(keys[first:first + step], [-(-len(keys[first:first + step]) // options["slots"]),
                                                         options["slots"], 1])
            session.run(score, {numbers: np.zeros([len(some), options["dense"]]), fed: some, training: True})
        saved = sok.CheckpointManager(os.path.join(folder, name)).save(session, 1)
        expected = {}
        if hashed:
            run = session.make_callable(score, [numbers, fed])
            for case, made in requests(options, keys).items():
                expected[case.replace(" ", "_")] = np.stack([run(*one) for one in made])
                times[case] = [_ms(run, made[number % 2]) for number in range(
                    options["rounds"] * options["requests"])]
            np.savez(os.path.join(folder, "expected.npz"), **expected)
        figures = {}
        for form, options_of_form in options["forms"].items():
            if (form == "rows") == hashed:
                continue
            path = os.path.join(folder, "models", form, "1")
            began = time.perf_counter()
            sok.serving.export_saved_model(path, saved, inputs={"numbers": numbers, "keys": fed},
                                           outputs={"score": score}, **options_of_form)
            figures[form] = {"export s": round(time.perf_counter() - began, 3), "bytes": sum(
                os.path.getsize(os.path.join(place, one)) for place, _, names in os.walk(path) for one in names)}
    return figures, times


def _ms(run, request):
    began = time.perf_counter()
    run(*request)
    return (time.perf_counter() - began) * 1e3


def main():
    with open(sys.argv[1]) as file:
        options = json.load(file)
    tf.logging.set_verbosity(tf.logging.ERROR)
    random = np.random.RandomState(options["seed"])
    keys = np.unique(random.randint(-2 ** 63, 2 ** 63 - 1, options["vocabulary"], dtype=np.int64))
    random.shuffle(keys)
    np.save(os.path.join(options["folder"], "keys.npy"), keys)
    figures, times = make(options, True, keys)
    figures.update(make(options, False, keys)[0])
    with open(sys.argv[2], "w") as file:
        json.dump({"forms": figures, "sok1x": times,
                   "sizes": {"keys": len(keys), "D": options["bottom"][-1],
                             "rows MB": round(len(keys) * options["bottom"][-1] * 4 / 1e6, 1)}}, file)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
