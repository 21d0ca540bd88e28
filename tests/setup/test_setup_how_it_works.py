"""docs/how_it_works.md says what is there: operations, configs, headers, what runs together, imports, files."""
import ast
import glob
import importlib
import os
import pkgutil
import re

import pytest

from sok1x import graph_ops
from sok1x.graph_ops.bridge import executor, registry
from sok1x.graph_ops.exchanges.lookup import SAVED_DTYPES
from sok1x.graph_ops.operations import combined_lookup, dense_lookup

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = sorted(name for _, name, is_package in pkgutil.iter_modules(graph_ops.__path__) if is_package)


def section(title):
    with open(os.path.join(ROOT, "docs", "how_it_works.md"), encoding="utf-8") as file:
        text = file.read()
    return re.search(r"^## {}\n(.*?)(?=^## |\Z)".format(re.escape(title)), text, re.MULTILINE | re.DOTALL).group(1)


def rows(text, heading):
    """{first cell: other cells} of the table whose first heading is this, without the quotes of code."""
    table = re.search(r"^\| {} \|.*\n\|[-|]+\|\n((?:\|.*\n?)+)".format(re.escape(heading)), text, re.MULTILINE).group(1)
    found = [[cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
             for line in table.strip().split("\n")]
    assert len({cells[0] for cells in found}) == len(found)
    return {cells[0]: cells[1:] for cells in found}


def words(cell):
    return [word.strip() for word in cell.split(",") if word.strip()]


@pytest.fixture(scope="module")
def operations():
    for module in pkgutil.walk_packages(graph_ops.__path__, "sok1x.graph_ops."):
        if not module.name.endswith("._bridge"):  # TensorFlow's to load
            importlib.import_module(module.name)
    return {name: operation for name, operation in registry._operations.items() if not name.startswith("test.")}


def test_all_operations_with_their_configs(operations):
    said = {name: words(cells[0]) for name, cells in rows(section("All operations"), "operation").items()}
    assert said == {name: list(operation.Config._fields) for name, operation in operations.items()}
    first, = [name for name, operation in operations.items() if operation.before_init]
    assert "Only `{}` runs before `sok1x.Init`".format(first) in section("All operations")


def test_headers_are_of_those_that_communicate(operations):
    said = rows(section("Headers, and what is left"), "operation")
    assert sorted(said) == sorted(name for name, operation in operations.items() if operation.communicates)
    assert all(cells[0] for cells in said.values())


def test_what_forward_leaves():
    text = section("Headers, and what is left")
    said = {name: tuple(words(cells[0])) for name, cells in rows(text, "forward op").items()}
    assert said == {"operations.dense_lookup.forward": dense_lookup.Saved._fields,
                    "operations.combined_lookup.forward": combined_lookup.Saved._fields}
    more = re.search(r"A combined lookup with weights leaves (.*?) before `route`", text).group(1)
    *before, last = combined_lookup.Saved._fields
    assert list(combined_lookup.WeightedSaved._fields) == [*before, *re.findall(r"`(\w+)`", more), last]
    explained = re.findall(r"^\| `(\w+)`(?: \((?:bags|weights)\))? \|", text, re.MULTILINE)
    assert sorted(explained) == sorted(list(SAVED_DTYPES) + ["kept", "counts", "route"])


def test_what_runs_together(operations):
    said = re.findall(r"^- `([\w.]+)`$", section("What runs together"), re.MULTILINE)
    assert sorted(said) == sorted(name for name, operation in operations.items()
                                  if operation.group is not None and operation.group.several)


def test_how_much_is_taken_in_at_once():
    said = re.search(r"up to (\d+)\s+at a time.*?for (\d+) microseconds, and for all of them (\d+) at most",
                     section("The life of a request"), re.DOTALL)
    with open(os.path.join(ROOT, "graph_ops", "groups", "lane.cc"), encoding="utf-8") as file:
        gather = re.search(r"kGatherNext = (\d+), kGatherAll = (\d+);", file.read())
    assert [int(number) for number in said.groups()] == [executor._MOST_AT_ONCE] + [
        int(number) for number in gather.groups()]


def imported(room):
    """The other rooms that files of a room import, at their top or inside functions."""
    names = []
    for path in glob.glob(os.path.join(ROOT, "graph_ops", room, "*.py")):
        with open(path, encoding="utf-8") as file:
            for node in ast.walk(ast.parse(file.read())):
                if isinstance(node, ast.ImportFrom):
                    names += ["{}.{}".format(node.module, alias.name) for alias in node.names]
                elif isinstance(node, ast.Import):
                    names += [alias.name for alias in node.names]
    found = {match.group(1) for match in (re.match(r"sok1x\.graph_ops\.(\w+)", name) for name in names) if match}
    return sorted(found - {room})


def test_rooms_import_what_the_page_says():
    said = {room: sorted(words(cells[0])) for room, cells in rows(section("The layers"), "room").items()}
    assert said == {room: imported(room) for room in ROOMS}


def test_files_that_are_named_are_there():
    with open(os.path.join(ROOT, "docs", "how_it_works.md"), encoding="utf-8") as file:
        named = set(re.findall(r"`([a-z0-9_/]+\.(?:py|cc|h|cuh))\b", file.read()))
    assert len(named) > 50
    there = [os.path.relpath(path, ROOT) for folder in ("graph_ops", "launch", "cuda_kernels", "sok1x")
             for path in glob.glob(os.path.join(ROOT, folder, "**", "*.*"), recursive=True)]
    assert not [name for name in named if not any(("/" + path).endswith("/" + name) for path in there)]


def test_the_lower_folders_import_nothing_from_above():
    """As the page says: but for sok1x/ends.py."""
    allowed = {"launch": {"sok1x.launch", "sok1x.ends"}, "cuda_kernels": {"sok1x.cuda_kernels"},
               "graph_ops": {"sok1x.graph_ops", "sok1x.launch", "sok1x.cuda_kernels"}}
    for folder, below in allowed.items():
        for path in glob.glob(os.path.join(ROOT, folder, "**", "*.py"), recursive=True):
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            found = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    found |= {one.name for one in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    module = node.module or ""
                    found |= {module + "." + one.name for one in node.names} if module == "sok1x" else {module}
            ours = {name for name in found if name.split(".")[0] == "sok1x"}
            above = {name for name in ours if ".".join(name.split(".")[:2]) not in below}
            assert above == set(), path
            if folder != "graph_ops":
                assert not [name for name in found if name.split(".")[0] == "tensorflow"], path
