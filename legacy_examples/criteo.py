"""Click logs in Criteo's format as CSV: label, 13 numbers, 26 hashed strings a line; and small files of that kind.

Files named train*.csv and test*.csv lie in one folder. Where there are none, `make` writes some of its own, of which a
click depends on the strings and the numbers: so a model has something to learn.
"""
import glob
import os
import shutil
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

NUMBERS = ["I{}".format(number) for number in range(1, 14)]
STRINGS = ["C{}".format(number) for number in range(1, 27)]
# Fields with many different strings have more floats a row.
WIDE = {"C3", "C4", "C10", "C12", "C16", "C21", "C24", "C26"}
DIMS = {name: 128 if name in WIDE else 64 for name in STRINGS}
MISSING = "missing"  # what is empty in a file is a string as others are
DEFAULT_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".data", "criteo_synthetic")


def files(folder, kind, rank=0, ranks=1):
    """A rank's share of the files of a kind, 'train' or 'test': every N-th, perhaps none."""
    return sorted(glob.glob(os.path.join(folder, kind + "*.csv")))[rank::ranks]


def batches(paths, batch_size, epochs=1, seed=None):
    """A tf.data.Dataset of ({name: a tensor [B]}, labels float32 [B]): the lines of files, batch by batch.

    Numbers are float32 and strings tf.string. With a seed the lines are shuffled.
    """
    defaults = [[0.0]] + [[0.0]] * len(NUMBERS) + [[MISSING]] * len(STRINGS)

    def parsed(lines):
        columns = tf.io.decode_csv(lines, defaults)
        return dict(zip(NUMBERS + STRINGS, columns[1:])), columns[0]

    lines = tf.data.TextLineDataset(tf.constant(paths, tf.string, [len(paths)]))
    if seed is not None:
        lines = lines.shuffle(1 << 14, seed)
    return lines.repeat(epochs).batch(batch_size).map(parsed).prefetch(2)


def make(folder, lines=(20000, 9000, 4000), test_lines=(3000, 2000), seed=1):
    """Writes files of so many lines into `folder`, which appears whole; returns `folder`."""
    random = np.random.RandomState(seed)
    # Ever more strings a field; each has a weight in a click, and the frequent ones come often.
    sizes = [int(4 * 1.17 ** number) for number in range(len(STRINGS))]
    weights = [random.normal(size=size) for size in sizes]
    slopes = random.normal(size=len(NUMBERS))
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".make-", dir=parent) as work:
        made = os.path.join(work, "made")
        os.mkdir(made)
        for kind, counts in (("train", lines), ("test", test_lines)):
            for number, count in enumerate(counts):
                with open(os.path.join(made, "{}-{}.csv".format(kind, number)), "w") as file:
                    file.writelines(_lines(random, count, sizes, weights, slopes))
        try:
            os.rename(made, folder)
        except OSError:  # another process was first
            if not files(folder, "train"):
                shutil.rmtree(made)
                raise
    return folder


def _lines(random, count, sizes, weights, slopes):
    keys = np.stack([(size * random.uniform(size=count) ** 2).astype(int) for size in sizes], 1)
    numbers = random.exponential(1.5, [count, len(NUMBERS)])
    logits = sum(weight[keys[:, field]] for field, weight in enumerate(weights)) * 0.5
    logits += (numbers - 1.5).dot(slopes) * 0.2
    labels = random.uniform(size=count) < 1 / (1 + np.exp(-logits))
    counts = np.floor(np.expm1(numbers)).astype(int)
    gone = random.uniform(size=[count, len(STRINGS)]) < 0.02
    for row in range(count):
        strings = ["" if gone[row, field] else "{:08x}".format((key * 2654435761 + field * 40503 + 12345) % 2 ** 32)
                   for field, key in enumerate(keys[row])]
        yield ",".join([str(int(labels[row]))] + [str(number) for number in counts[row]] + strings) + "\n"
