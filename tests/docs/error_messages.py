"""The messages of all errors that the sources make, read off the sources themselves.

An error is any call of a class, or of a function of ours, whose name says so (`ValueError(...)`, `CallError(...)`,
`tf.errors.NotFoundError(...)`, `CheckpointError.of_write(...)`); its message is the longest text among the arguments,
with `…` for whatever is filled in. Where the text is a variable's, the assignments of that name in the same function,
or module, are read.
"""
import ast
import os
import re
from typing import Dict, Iterator, List, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("sok1x", "graph_ops", "launch", "cuda_kernels")
GAP = "…"
NAMES = re.compile(r"(Error|Missing|Failure)$")
BUILT = ("ValueError", "TypeError", "AttributeError", "KeyError", "IndexError", "StopIteration")
CODES = re.compile(r'errors::(?!Is)\w+\(([^;]*)\)', re.DOTALL)


class Message(NamedTuple):
    """One place that makes an error: where it is, of which class, and its text with gaps."""

    path: str
    line: int
    error: str
    text: str

    @property
    def says_itself(self) -> bool:
        """Whether it is about an argument, at the construction of a graph, and says what was expected instead."""
        return self.error in BUILT and "expected" in self.text


def sources(suffixes: tuple) -> Iterator[str]:
    """Paths of the source files, from the tree's top; the links in sok1x/ are not followed."""
    for folder in FOLDERS:
        for place, inside, files in os.walk(os.path.join(ROOT, folder)):
            inside[:] = sorted(name for name in inside if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(place, name), ROOT)


def _texts(node: ast.AST, known: Dict[str, List[ast.AST]], depth: int = 0) -> List[str]:
    """What a message may be; nothing for what is no text."""
    if isinstance(node, ast.Str):
        return [re.sub(r"%[sdr]|\{[^{}]*\}", GAP, node.s)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_texts(side, known, depth) or [GAP] for side in (node.left, node.right)]
        return [] if parts == [[GAP], [GAP]] else [one + other for one in parts[0] for other in parts[1]]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _texts(node.left, known, depth)
    if isinstance(node, ast.JoinedStr):
        return ["".join(value.s if isinstance(value, ast.Str) else GAP for value in node.values)]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, known, depth) + _texts(node.orelse, known, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        return _texts(node.func.value, known, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and depth < 3:
        return [text for value in known.get(node.func.id + "()", ()) for text in _texts(value, known, depth + 1)]
    if isinstance(node, ast.Name) and depth < 3:
        return [text for value in known.get(node.id, ()) for text in _texts(value, known, depth + 1)]
    return []


def _assigned(tree: ast.AST) -> Dict[str, List[ast.AST]]:
    """What each name of a function or module is given; of a function `name()`, what it returns."""
    found: Dict[str, List[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found[node.name + "()"] = [each.value for each in ast.walk(node)
                                       if isinstance(each, ast.Return) and each.value is not None]
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def _name(function: ast.AST) -> str:
    if isinstance(function, ast.Attribute):
        inner = _name(function.value)
        return inner if function.attr in ("of_write", "of_read") else function.attr
    return getattr(function, "id", "")


def in_python() -> Iterator[Message]:
    """All errors made in Python, without those whose text comes from elsewhere."""
    for path in sources((".py",)):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        calls = {id(node): node for node in ast.walk(tree)
                 if isinstance(node, ast.Call) and NAMES.search(_name(node.func))}
        if not calls:
            continue
        assigned = _assigned(tree)
        everywhere = {name: values for name, values in assigned.items()
                      if name.endswith("()") or name.strip("_").isupper()}
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)][::-1] + [tree]:
            inside = [calls.pop(id(node)) for node in ast.walk(function) if id(node) in calls]
            known = dict(everywhere, **_assigned(function)) if inside else {}
            for node in inside:
                given = list(node.args) + [keyword.value for keyword in node.keywords]
                texts = [text for argument in given for text in _texts(argument, known) if len(_plain(text)) >= 8]
                longest = max((len(text) for text in texts), default=0)
                for text in texts:
                    if len(text) * 2 > longest:
                        yield Message(path, node.lineno, _name(node.func), _one_line(text))


def in_cpp() -> Iterator[Message]:
    """All errors made in C++."""
    for path in sources((".cc", ".h")):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            code = file.read()
        for match in CODES.finditer(code):
            text = GAP.join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1)))
            if len(_plain(text)) >= 8:
                yield Message(path, code.count("\n", 0, match.start()) + 1, "Status", _one_line(text))


def _plain(text: str) -> str:
    return re.sub(r"[^a-zA-Z]", "", text)


def _one_line(text: str) -> str:
    return re.sub(r"{0}({0}|\s)*".format(GAP), GAP, re.sub(r"\s+", " ", text)).strip()


def messages() -> List[Message]:
    """All of them."""
    return list(in_python()) + list(in_cpp())


def fits(fragment: str, text: str) -> bool:
    """Whether a message has a part that reads like this, `…` standing for anything."""
    return re.search(".*?".join(re.escape(part.strip()) for part in fragment.split(GAP)), text) is not None
