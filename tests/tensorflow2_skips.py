"""Tests that TensorFlow 2 cannot run, and why: they look at something that only TensorFlow 1.15, or its set-up, has."""
import sys

# TensorFlow 1.15 has no wheels for these Pythons, TensorFlow 2.15 and later none for those before.
ON_TENSORFLOW_2 = sys.version_info >= (3, 9)

# TensorFlow 2.15 tells of a healthy start as of an error: that three factories have been registered twice.
LOG_LEVEL = "3" if ON_TENSORFLOW_2 else "2"

# A file, or a test in it, with all its parameters
SKIPPED = {
    "tests/sok1x/test_sok1x_variable.py::test_eager_execution_is_refused_with_advice": "eager execution works there",
    "tests/serving/test_serving_export.py::test_the_loader_that_tensorflow_serving_has":
        "reads TensorFlow 1.15's form of strings in its C API",
    "tests/setup/test_setup_find_python.py": "plays with this Python as the 3.7 to find",
}


def reason(node):
    """Why a test is skipped on TensorFlow 2, by its id in pytest; None if it is not."""
    if ON_TENSORFLOW_2:
        for name, why in SKIPPED.items():
            if node == name or node.startswith((name + "::", name + "[")):
                return "TensorFlow 2: " + why
    return None
