"""The same training on 1, 2 and 4 ranks and in stock TensorFlow ends with the same losses and the same tables."""
import os

import equality_model as model
import numpy as np
import once
import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = (1, 2, 4)
PARTS = ("dense0", "sparse0", "dense1", "sparse1", "losses")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A seed, and for each number of ranks {part of a case: value}."""
    def make(folder):
        seed, results = int(os.environ.get("SOK1X_TEST_SEED", np.random.randint(2 ** 31))), {}
        print("SOK1X_TEST_SEED={}".format(seed))
        for ranks in RANKS:
            out = os.path.join(folder, "{}.npz".format(ranks))
            run_ranks(ranks, os.path.join(HERE, "program_equality.py"), out, seed, timeout=240)
            with np.load(out) as loaded:
                results[ranks] = dict(loaded)
        return seed, results

    seed, results = once.made(tmp_path_factory, "mpi_equality", make)
    print("SOK1X_TEST_SEED={}".format(seed))
    return seed, results


@pytest.fixture(scope="module")
def stock(trained):
    """Trains in stock TensorFlow: once for any number of ranks, as long as they begin with the same rows."""
    seed, made = trained[0], {}

    def train(case, optimizer, dense, sparse):
        start = (case.name, optimizer, dense.tobytes(), sparse.tobytes())
        if start not in made:
            made[start] = model.train_stock(case, optimizer, seed, dense, sparse)
        return made[start]
    return train


def close(got, expected, message):
    # Adam divides a gradient by its own size: where sums of another order leave another small one, rows differ by some
    # millionths of their range.
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=5e-6, err_msg="{}".format(message))


@pytest.mark.parametrize("case", model.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("ranks", RANKS)
def test_equals_stock_tensorflow(trained, stock, case, ranks):
    seed, results = trained
    for optimizer in case.optimizers:
        got = {part: results[ranks]["{}/{}/{}".format(case.name, optimizer, part)] for part in PARTS}
        losses, tables = stock(case, optimizer, got["dense0"], got["sparse0"])
        message = (case.name, optimizer, "seed", seed)
        assert abs(got["dense1"] - got["dense0"]).max() > 1e-3, message
        np.testing.assert_allclose(got["losses"], losses, rtol=1e-5, err_msg=str(message))
        close(got["dense1"], tables[0], message)
        close(got["sparse1"], tables[1], message)


@pytest.mark.parametrize("case", model.CASES, ids=lambda case: case.name)
def test_the_number_of_ranks_makes_no_difference(trained, case):
    seed, results = trained
    for optimizer in case.optimizers:
        for part in PARTS:
            name = "{}/{}/{}".format(case.name, optimizer, part)
            for ranks in RANKS[1:]:
                if part.endswith("0") and case.initializer != "glorot_uniform":
                    # Initial rows are a function of seed, table and key: the same bits.
                    np.testing.assert_array_equal(results[ranks][name], results[1][name], err_msg=name)
                elif case.initializer != "glorot_uniform":  # whose range depends on the rows of all ranks together
                    close(results[ranks][name], results[1][name], (name, "seed", seed))
