"""What pages and docstrings show is of TensorFlow 1.15; on TensorFlow 2 it is run as docs/from_tensorflow1.md says.

Only the line that changes there changes: so what they show is tested on both.
"""
import re

from tensorflow2_skips import ON_TENSORFLOW_2


def here(text):
    """Python, or a docstring with examples, as it runs on the TensorFlow that is here; lines keep their numbers."""
    if not ON_TENSORFLOW_2:
        return text
    return re.sub(r"^( *(?:>>> )?)import tensorflow as tf$",
                  r"\1import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()", text, flags=re.MULTILINE)
