"""Every public docstring has its parts, says no empty words, and its example does what it says.

Parts: a summary line; Args with every parameter, with shape and dtype where it is a tensor; Returns where something
is returned; Raises where the code itself raises; Example, unless the one of its class uses the method, or the method is
one that TensorFlow calls. A part that says nothing is a fault: `Raises: Nothing`, or an example of which no output is
compared, or none but whether there is such a name.
"""
import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
import textwrap

import public_names
import pytest
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Note")
DTYPES = re.compile(r"\b(u?int\d*|float\d*|bool\w*|string|str|bytes|dtype|keys?|variables?|gradients?)\b")
EMPTY = re.compile(r"\s*((nothing|none|never|n/a|-)\b.*)?\s*$", re.IGNORECASE | re.DOTALL)
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


def raises(value):
    """Whether a function, or a class when it is made, has a raise statement that names an error."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    function = function.fget if isinstance(function, property) else function
    if function is None:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError):  # made by a decorator or by C
        return False
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def shown_by_its_class(name, owner):
    """Whether a method of a class of ours needs no example: its class's uses it, or TensorFlow's class has it."""
    if owner is None:
        return False
    theirs = [base for base in owner.__mro__[1:] if base.__module__.split(".")[0] not in ("sok1x", "builtins")]
    return any(name in vars(base) for base in theirs) or bool(
        re.search(r"\.{}\b".format(name), sections_of(owner.__doc__)[1].get("Example", "")))


def shows_something(example):
    """Whether the output of a line is compared, and tells more than that there is such a name."""
    lines = doctest.DocTestParser().get_examples(example)
    return any((line.want or line.exc_msg) and not re.match(r"callable\([\w.]+\)$", line.source.strip())
               for line in lines)


def faults(value, name="", owner=None):
    """What the docstring of a public function, class, method or property lacks, or says without need."""
    summary, sections = sections_of(value.__doc__)
    lacking = []
    if not summary.strip():
        lacking.append("a summary in its first line")
    described = arguments_of(sections.get("Args", ""))
    for parameter in parameters_of(value):
        text = described.get(parameter)
        if not text:
            lacking.append("'{}' under Args".format(parameter))
        elif re.search(r"\btf\.(Sparse)?Tensor\b|\btensors?\b", text) and not (
                SHAPE.search(text) and DTYPES.search(text)):
            lacking.append("shape and dtype of the tensor '{}'".format(parameter))
    if returns_something(value) and not isinstance(value, property) and not sections.get("Returns"):
        lacking.append("Returns")
    if raises(value) and not sections.get("Raises"):
        lacking.append("Raises")
    if EMPTY.match(sections.get("Raises", "some")):
        lacking.append("an error under Raises, which is empty words")
    if ">>>" in sections.get("Example", ""):
        if not shows_something(sections["Example"]):
            lacking.append("an output in its example")
    elif "Example" in sections or not shown_by_its_class(name, owner):
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
    lacking = {name: faults(value, name.split(".")[-1], names.get(name.rpartition(".")[0]))
               for name, value in names.items()}
    assert not {name: what for name, what in lacking.items() if what}


def test_every_module_says_what_it_is():
    assert not [name for name, module in public_names.modules().items() if not (module.__doc__ or "").strip()]


def test_no_docstring_says_empty_words():
    """Those of inner functions too, which the test above does not see."""
    empty = re.compile(r"^ *(?:Raises|Returns|Yields):\n *(?:Nothing|None)\b\.?$|^ *>>> callable\([\w.]+\)$",
                       re.MULTILINE)
    found = []
    for folder in ("sok1x", "graph_ops", "launch", "cuda_kernels"):
        for place, inside, files in os.walk(os.path.join(ROOT, folder)):
            for name in files:
                if name.endswith(".py"):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        found += [(name, match.group(0)) for match in empty.finditer(file.read())]
    assert not found
    assert empty.search("    Raises:\n        Nothing.\n") and empty.search("    >>> callable(sok.Saver)\n")


def test_examples_run(names):
    done = subprocess.run([sys.executable, "-W", "ignore", os.path.join(HERE, "run_examples.py")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=240)
    assert done.returncode == 0, done.stdout
    ran = set(re.findall(r"^ran (\S+)$", done.stdout, re.MULTILINE))
    written = {name for name, value in names.items() if ">>>" in (value.__doc__ or "")}
    assert ran >= written, "an Example that nothing of was run: {}".format(written - ran)


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
    if count < 0:
        raise ValueError("count: got {}, expected 0 or more".format(count))
    return tensor


@pytest.mark.parametrize("old, new, words", [
    ("Adds.\n", "", "summary"),
    ("count: how often.", "", "'count'"),
    ("**options: none yet.", "", "'**options'"),
    ("float32 [B, D].\n        count", "of numbers.\n        count", "shape and dtype of the tensor 'tensor'"),
    ("Returns:", "Gives:", "Returns"),
    ("Raises:", "Throws:", "Raises"),
    ("ValueError: count is negative.", "Nothing.", "empty words"),
    ("ValueError: count is negative.", "None", "empty words"),
    (">>> ", "", "Example"),
    ("1 + 1\n        2", "_ = 1 + 1", "an output"),
    ("1 + 1\n        2", "callable(complete)\n        True", "an output"),
])
def test_what_lacks_is_seen(old, new, words):
    assert faults(complete) == []
    assert old in complete.__doc__

    def broken(tensor, count=1, **options):
        if count < 0:
            raise ValueError("count: got {}, expected 0 or more".format(count))
        return tensor

    broken.__doc__ = complete.__doc__.replace(old, new, 1)
    assert len(faults(broken)) == 1 and words in faults(broken)[0]


def test_what_need_not_be_said():
    class Hook(tf.estimator.SessionRunHook):
        """Counts.

        Example:
            >>> Hook().total()
            0
        """

        def begin(self):
            """Begins."""

        def total(self):
            """Counts so far."""

        def more(self):
            """Counts further."""

    assert [faults(vars(Hook)[name], name, Hook) for name in ("begin", "total")] == [[], []]
    assert faults(Hook.more, "more", Hook) == ["an Example that can be run"]
