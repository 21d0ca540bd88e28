"""Loads the models that serving_export.py has exported, and times requests, without sok1x. Started by serving.py:

    python benchmarks/serving_load.py OPTIONS.json RESULT.json
"""
import json
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
from serving_requests import requests


def memory():
    """Bytes that this process has in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def load(options, form):
    """What runs requests of a form, and its figures."""
    before, began = memory(), time.perf_counter()
    graph = tf.Graph()
    session = tf.Session(graph=graph,
                         config=tf.ConfigProto(intra_op_parallelism_threads=options["threads"]))
    with graph.as_default():
        meta = tf.saved_model.load(session, ["serve"], os.path.join(options["folder"], "models", form, "1"))
    seconds = time.perf_counter() - began
    found = meta.signature_def["serving_default"]
    run = session.make_callable(found.outputs["score"].name, [found.inputs[one].name for one in ("numbers", "keys")])
    return run, {"load s": round(seconds, 3), "memory MB": round((memory() - before) / 1e6, 1), "ms": {}}, \
        len(meta.graph_def.node)


def main():
    with open(sys.argv[1]) as file:
        options = json.load(file)
    tf.logging.set_verbosity(tf.logging.ERROR)
    keys = np.load(os.path.join(options["folder"], "keys.npy"))
    expected = np.load(os.path.join(options["folder"], "expected.npz"))
    runs, figures, nodes = {}, {}, {}
    for form in options["forms"]:
        runs[form], figures[form], nodes[form] = load(options, form)
        figures[form]["differs by"] = 0.0
    for case, made in requests(options, keys).items():
        for form, run in runs.items():
            given = made
            if form == "rows":  # which has no unseen keys
                if "unseen" in case:
                    continue
                given = [(numbers, one % options["vocabulary"]) for numbers, one in made]
            figures[form]["ms"][case] = []
            off = max(float(np.abs(run(*one) - known).max()) for one, known in zip(
                given, expected[case.replace(" ", "_")]))
            figures[form]["differs by"] = max(figures[form]["differs by"], off)
        for turn in range(options["rounds"]):
            for form in list(runs)[::1 if turn % 2 else -1]:
                if case not in figures[form]["ms"]:
                    continue
                given = [(numbers, one % options["vocabulary"]) for numbers, one in made] if form == "rows" else made
                for number in range(options["requests"]):
                    began = time.perf_counter()
                    runs[form](*given[number % 2])
                    figures[form]["ms"][case].append((time.perf_counter() - began) * 1e3)
    assert "sok1x" not in sys.modules
    with open(sys.argv[2], "w") as file:
        json.dump({"forms": figures, "nodes": nodes}, file)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
