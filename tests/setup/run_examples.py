"""Runs the examples in the docstrings of all public names, each in a graph of its own; prints which ran."""
import doctest
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import public_names  # noqa: E402
import tensorflow as tf  # noqa: E402


def main():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    documented = dict(public_names.public(), **public_names.modules())
    for name, value in sorted(documented.items()):
        test = parser.get_doctest(value.__doc__ or "", {"__name__": "__main__"}, name, None, 0)
        if test.examples:
            tf.compat.v1.reset_default_graph()
            failures = runner.run(test, clear_globs=True).failed
            print("{} {}".format("FAILED" if failures else "ran", name), flush=True)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
