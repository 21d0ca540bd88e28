"""Packages whose docstrings are maps name every file of theirs, and no other."""
import glob
import importlib
import os
import pkgutil
import re

import pytest

import sok1x
from sok1x import checkpoint, core, graph_ops


def rooms(package):
    return [name for _, name, is_package in pkgutil.iter_modules(package.__path__) if is_package]


ROOMS = [package.__name__ + "." + name for package in (checkpoint, core, graph_ops) for name in rooms(package)]


def named(package):
    """Names in a map: a line each, four blanks before it and at least two behind."""
    return re.findall(r"^ {4}(\w+)  +\S", package.__doc__, re.MULTILINE)


def files(package):
    folder = os.path.dirname(package.__file__)
    ours = [name for pattern in ("*.py", "*.cc", "*.h") for name in glob.glob(os.path.join(folder, pattern))]
    return sorted({os.path.basename(name).split(".")[0] for name in ours} - {"__init__", "__main__"})


@pytest.mark.parametrize("name", ROOMS + ["sok1x." + name for name in (
    "checkpoint", "core", "deeprec", "dump_load", "embeddings", "feature_column", "launch", "metrics", "optimizers",
    "serving")])
def test_a_map_names_every_file_once(name):
    package = importlib.import_module(name)
    assert sorted(named(package)) == sorted(files(package) + rooms(package))


def test_the_map_of_the_public_package():
    """It is for who reads the sources: help(sok1x) is for users."""
    with open(sok1x.__file__, encoding="utf-8") as source:
        mapped = re.findall(r"^# {5}(\w+)  +\S", source.read(), re.MULTILINE)
    assert sorted(mapped) == files(sok1x)


def test_the_map_of_rooms():
    assert sorted(named(graph_ops)) == sorted(rooms(graph_ops))
