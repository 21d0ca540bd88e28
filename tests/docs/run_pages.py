"""Runs the Python of the pages that are named, each page in a graph and a folder of its own; prints which ran."""
import contextlib
import os
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tools"), os.path.join(ROOT, "legacy_examples")]

import docs_pages  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow1_scripts  # noqa: E402


def run(name):
    """Whether all Python of a page runs: its blocks one after the other, in one namespace."""
    tf.compat.v1.reset_default_graph()
    tf.compat.v1.keras.backend.clear_session()
    np.random.seed(0)
    space = {"__name__": "__main__"}
    for block in docs_pages.blocks(docs_pages.read(name)):
        if block.language != "python" or block.not_run:
            continue
        try:
            for part, code in (("before ", block.before), ("", block.code)):
                with contextlib.redirect_stdout(sys.stderr):
                    # As many empty lines before it as the page has: an error then names the page's line.
                    exec(compile("\n" * (0 if part else block.line) + tensorflow1_scripts.here(code), part + name,
                                 "exec"), space)
        except BaseException:
            traceback.print_exc()
            print("FAILED {}:{}".format(name, block.line), flush=True)
            return False
        print("ran {}:{}".format(name, block.line), flush=True)
    return True


def main():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    done = []
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            done.append(run(name))
            os.chdir(ROOT)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
