"""Every public docstring has its parts, and its example does what it says.

Parts: a summary line; Args with every parameter, with shape and dtype where it is a tensor; Returns where something
is returned; Raises; Example.
"""
import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap

import public_names
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Note")
DTYPES = re.compile(r"\b(u?int\d*|float\d*|bool\w*|string|str|bytes|dtype|keys?|variables?|gradients?)\b")
SHAPE = re.compile(r"\[[^\]]*\]|\bscalar\b|\bshapes?\b")


def sections_of(doc):
    """Summary line and sections of a Google style docstring: ('', {'Args': text, ...})."""
    found, current = {}, None
    lines = inspect.cleandoc(doc or "").split("\n")
    for line in lines:
        heading = re.match(r"(\w+):$", line)
        if heading and heading.group(1) in SECTIONS:
            current = found.setdefault(heading.group(1), [])
        elif current is not None and (line.startswith(" ") or not line):
            current.append(line)
        else:
            current = None
    summary = "" if lines[0].rstrip(":") in SECTIONS else lines[0]
    return summary, {name: textwrap.dedent("\n".join(text)).strip("\n") for name, text in found.items()}


def arguments_of(text):
    """{parameter: description} of an Args section; `a, b: ...` describes both."""
    described = {}
    for entry in re.split(r"\n(?=\S)", text):
        names, _, description = entry.partition(":")
        for name in names.split(","):
            described[name.strip()] = description.strip()
    return described


def parameters_of(value):
    """Names of the parameters that a caller may give; *rest and **options with their stars."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    function = value.__init__ if inspect.isclass(value) else value
    if isinstance(value, property) or function is object.__init__:
        return []
    parameters = list(inspect.signature(function).parameters.values())
    return [stars.get(one.kind, "") + one.name for one in parameters if one.name not in ("self", "cls")]


def returns_something(value):
    """Whether a return statement of the function itself has a value that is not None."""
    if inspect.isclass(value):
        return False
    function = inspect.unwrap(value.fget if isinstance(value, property) else value)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Return) and node.value is not None \
                and not (isinstance(node.value, ast.NameConstant) and node.value.value is None):
            return True
        waiting.extend(ast.iter_child_nodes(node))
    return False


def faults(value):
    """What the docstring of a public function, class, method or property lacks."""
    summary, sections = sections_of(value.__doc__)
    lacking = []
    if not summary.strip():
        lacking.append("a summary in its first line")
    described = arguments_of(sections.get("Args", ""))
    for name in parameters_of(value):
        text = described.get(name)
        if not text:
            lacking.append("'{}' under Args".format(name))
        elif re.search(r"\btf\.(Sparse)?Tensor\b|\btensors?\b", text) and not (
                SHAPE.search(text) and DTYPES.search(text)):
            lacking.append("shape and dtype of the tensor '{}'".format(name))
    if returns_something(value) and not isinstance(value, property) and not sections.get("Returns"):
        lacking.append("Returns")
    if not isinstance(value, property) and not sections.get("Raises"):
        lacking.append("Raises")
    if ">>>" not in sections.get("Example", ""):
        lacking.append("an Example that can be run")
    return lacking


@pytest.fixture(scope="module")
def names():
    return public_names.public()


def test_the_promised_names_are_there(names):
    assert {"sok1x." + name for name in (
        "Init", "InitHook", "DistributedEmbedding", "All2AllDenseEmbedding", "OptimizerScope", "DistributedOptimizer",
        "split_embedding_variable_from_others", "BroadcastGlobalVariablesHook", "broadcast_global_variables",
        "install_as_sparse_operation_kit", "DistributedEmbedding.call")} <= set(names)


def test_every_public_docstring_has_its_parts(names):
    lacking = {name: faults(value) for name, value in names.items()}
    assert not {name: what for name, what in lacking.items() if what}


def test_every_module_says_what_it_is():
    assert not [name for name, module in public_names.modules().items() if not (module.__doc__ or "").strip()]


def test_examples_run(names):
    done = subprocess.run([sys.executable, "-W", "ignore", os.path.join(HERE, "run_examples.py")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=240)
    assert done.returncode == 0, done.stdout
    ran = set(re.findall(r"^ran (\S+)$", done.stdout, re.MULTILINE))
    assert ran >= set(names), "an Example that nothing of was run: {}".format(set(names) - ran)


# The checks above can fail: what they say of docstrings that lack a part.

def complete(tensor, count=1, **options):
    """Adds.

    Args:
        tensor: a tensor, float32 [B, D].
        count: how often.
        **options: none yet.

    Returns:
        float32 [B, D].

    Raises:
        ValueError: count is negative.

    Example:
        >>> 1 + 1
        2
    """
    return tensor


@pytest.mark.parametrize("old, new, words", [
    ("Adds.\n", "", "summary"),
    ("count: how often.", "", "'count'"),
    ("**options: none yet.", "", "'**options'"),
    ("float32 [B, D].\n    count", "of numbers.\n    count", "shape and dtype of the tensor 'tensor'"),
    ("Returns:", "Gives:", "Returns"),
    ("Raises:", "Throws:", "Raises"),
    (">>> ", "", "Example"),
])
def test_what_lacks_is_seen(old, new, words):
    assert faults(complete) == []
    doc = inspect.cleandoc(complete.__doc__)
    assert old in doc

    def broken(tensor, count=1, **options):
        return tensor

    broken.__doc__ = doc.replace(old, new, 1)
    assert len(faults(broken)) == 1 and words in faults(broken)[0]
