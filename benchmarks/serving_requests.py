"""What the models of serving.py are asked: the same in training's process and in the one that serves."""
import numpy as np


def requests(options, known):
    """{case: [(numbers, keys)]}: two of each size, without unseen keys and with them."""
    random = np.random.RandomState(options["seed"] + 1)
    found = {}
    for samples in options["batches"]:
        for unseen in (0.0, 0.1):
            made = []
            for _ in range(2):
                keys = known[random.randint(len(known), size=[samples, options["slots"], 1])]
                fresh = random.randint(-2 ** 63, 2 ** 63 - 1, keys.shape, dtype=np.int64)
                made.append((random.exponential(1.5, [samples, options["dense"]]).astype(np.float32),
                             np.where(random.uniform(size=keys.shape) < unseen, fresh, keys)))
            found["B={}{}".format(samples, " unseen" if unseen else "")] = made
    return found
