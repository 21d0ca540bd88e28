"""Python imports this first of all, in every process that tests start: see tests/conftest.py."""
import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

# TensorFlow's import and the building of a graph make hundreds of thousands of objects and hardly any garbage. Looking
# for it after every 700 of them, as Python does by default, is a quarter of what a small program costs.
gc.set_threshold(50000)

# Ranks write to one pipe, and tests read lines: a line is one write, where an unbuffered print makes two of it, its
# text and its end, between which another rank's may come. pytest, whose process has this from conftest.py, captures
# what it prints in its own way.
if __name__ == "sitecustomize":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)


class QuickTensorFlow:
    """Finds TensorFlow, and once it is imported spares the programs what costs them time and tells nobody anything.

    Its modules the collector need not look through: at the end of a process Python does so several times, a tenth of
    what a small program costs. What the program itself makes is collected as ever. And a function of TensorFlow's with
    a deprecated argument looks at each call whether it was given, a twelfth of what a graph costs.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target) if name == "tensorflow" else None
        if spec is not None:
            real = spec.loader.exec_module

            def exec_module(module):
                real(module)
                importlib.import_module("tensorflow.python.util.deprecation")._PRINT_DEPRECATION_WARNINGS = False
                behavior = "v2" if module.__version__.startswith("1.") else os.environ.get("SOK1X_TEST_BEHAVIOR")
                if behavior == "graphs":
                    module.compat.v1.disable_eager_execution()
                elif behavior != "v2":
                    # Programs written for TensorFlow 1.15 begin with this line. Those that run eagerly take it back.
                    module.compat.v1.disable_v2_behavior()
                gc.freeze()
            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, QuickTensorFlow)
