"""Loads exported models by TensorFlow alone, and compares what they predict: program_served.py FOLDER.

Prints a line NAME OUTPUT DIFFERENCE for each output, with tabs between them.
"""
import os
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
ROUNDED = 2.0 ** -11  # what float16 rounds a number by, at most

v1.logging.set_verbosity(v1.logging.ERROR)


class NoSok1x:
    """Nothing of sok1x can be imported."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sok1x":
            raise ImportError("this process does without sok1x")


def predict(path, values, signature="serving_default"):
    """{output: value}."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        assert not [node.name for node in meta.graph_def.node if node.op.startswith("Sok")]
        assert not [op.name for op in graph.get_operations() if op.type.startswith("Sok")]
        found = meta.signature_def[signature]
        return session.run({name: one.name for name, one in found.outputs.items()},
                           {one.name: values[name] for name, one in found.inputs.items()})


def main():
    sys.meta_path.insert(0, NoSok1x())
    folder = sys.argv[1]
    values = dict(np.load(os.path.join(folder, "batch.npz"), allow_pickle=True))
    expected = dict(np.load(os.path.join(folder, "predicted.npz")))
    models = os.path.join(folder, "models")
    for name in sorted(os.listdir(models)):
        if name == "tables":
            continue
        found = predict(os.path.join(models, name, "1"), values)
        assert set(found) == set(expected), (name, sorted(found))
        for output, value in sorted(found.items()):
            assert value.shape == expected[output].shape and value.dtype == expected[output].dtype, (name, output)
            print(name, output, float(np.abs(value - expected[output]).max()),
                  float((np.abs(value - expected[output]) - ROUNDED * np.abs(expected[output])).max()), sep="\t")
    if os.path.isdir(os.path.join(models, "tables")):
        # A table alone: what the layer gives for keys of any shape, but for what keys read that have no row.
        found = predict(os.path.join(models, "tables", "1"), {"keys": values["dense"]}, "EmbeddingVariable")["rows"]
        seen = (found != -1.5).any(-1)
        off = np.abs(found - expected["dense"])[seen]
        print("tables", "dense", int(seen.sum()), int((~seen).sum()), float(off.max()),
              float((off - ROUNDED * np.abs(expected["dense"][seen])).max()), sep="\t")
    assert "sok1x" not in sys.modules


if __name__ == "__main__":
    main()
