"""What every test shares: the folder with the rank launcher on the path, quiet TensorFlow, a printed seed."""
import os
import random
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture
def seed():
    """A random seed, printed so that a failing run can be repeated with SOK1X_TEST_SEED."""
    value = int(os.environ.get("SOK1X_TEST_SEED", random.SystemRandom().randrange(2 ** 31)))
    print("SOK1X_TEST_SEED={}".format(value))
    return value
