"""Runs the examples in the docstrings of all public names, each in a graph of its own; prints which ran."""
import doctest
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import public_names  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow1_scripts  # noqa: E402


def main():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    documented = dict(public_names.public(), **public_names.modules())
    for name, value in sorted(documented.items()):
        shown = tensorflow1_scripts.here(value.__doc__ or "")
        test = parser.get_doctest(shown, {"__name__": "__main__"}, name, None, 0)
        if test.examples:
            tf.compat.v1.reset_default_graph()
            failures = runner.run(test, clear_globs=True).failed
            print("{} {}".format("FAILED" if failures else "ran", name), flush=True)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
