"""Python imports this first of all, in every process that tests start: see tests/conftest.py."""
import gc

# TensorFlow's import and the building of a graph make hundreds of thousands of objects and hardly any garbage. Looking
# for it after every 700 of them, as Python does by default, is a quarter of what a small program costs.
gc.set_threshold(50000)
