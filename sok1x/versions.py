"""The installed TensorFlow's version, as SOK 2.x's scripts ask for it."""
import re

import tensorflow as tf

tf_version = [int(number) for number in re.findall(r"\d+", tf.__version__)[:3]]
