"""Every name of sok1x that the pages mention is there, whatever TensorFlow there is."""
import importlib
import os
import re
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))

import docs_pages  # noqa: E402

import sok1x  # noqa: E402

NAME = re.compile(r"(?<![\w/.])(?:sok|sok1x)\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def found(path):
    """Whether the names lead anywhere: of what a function returns nobody knows."""
    one, names = sok1x, []
    for name in path.split("."):
        names.append(name)
        if isinstance(one, types.FunctionType):
            return True
        if not hasattr(one, name):
            if not isinstance(one, types.ModuleType):
                return False
            try:
                importlib.import_module(".".join(["sok1x"] + names))
            except ImportError:
                return False
        one = getattr(one, name)
    return True


def test_names():
    mentioned = {(page, name) for page in docs_pages.names() for name in NAME.findall(docs_pages.read(page))}
    assert len(mentioned) > 200 and not sorted(one for one in mentioned if not found(one[1]))


def test_what_is_not_there_is_found_out():
    assert not found("rank") and not found("DynamicVariable.nothing") and found("check") and found("init")
