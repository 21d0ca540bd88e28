"""What a Keras model's loss has besides means over samples: regularizers, add_loss, masks, as docs/keras.md says."""
import os

import pytest
from ranks import run_ranks
from tensorflow2_skips import ON_TENSORFLOW_2

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_keras_terms.py")


@pytest.mark.parametrize("execution", ["graph"] + ["eager"] * ON_TENSORFLOW_2)
def test_terms_of_the_loss_count_once(execution):
    assert run_ranks(2, PROGRAM, execution, timeout=300).out.count("ok") == 2
