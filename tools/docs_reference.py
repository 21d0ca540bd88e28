"""The API reference: all public names of sok1x, with what their docstrings say, as Markdown.

Run with the environment in which sok1x is built: signatures are those of the running program.
"""
import inspect
import os
import re
import sys
import textwrap
from typing import Any, Dict, List, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "setup"))

import public_names  # noqa: E402

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Note")
LISTED = ("Args", "Attributes", "Raises")
# What a name below sok1x is filed under; the first that fits.
GROUPS: List[Tuple[str, str]] = [
    (r"(All2AllDenseEmbedding|DistributedEmbedding)$", "Layers"),
    (r"(Variable|DynamicVariable|DistributedVariable|LocalizedVariable|EmbeddingVariable|GraphKeys)$",
     "Tables as variables"),
    (r"(lookup_sparse|all2all_dense_embedding|export|assign)$", "Lookups and rows"),
    (r"(Init|InitHook|Scaffold|init|set_comm_tool|communication\..*)$", "Joining the ranks"),
    (r"(EvenSteps)$", "Data"),
    (r"(DistributedOptimizer|OptimizerWrapper|OptimizerScope|SGD|clip_by_global_norm|global_norm|optimizers\..*"
     r"|filter_variables|split_embedding_variable_from_others|tf\..*)$", "Optimizers and gradients"),
    (r"(Broadcast.*|broadcast_.*|MetricAverageCallback)$", "Dense variables and metrics"),
    (r"(Checkpoint.*|Saver|dump|load|incremental_.*|checkpoint\..*|evicted_keys|sparse_read_and_evict)$",
     "Checkpoints and files"),
    (r"(table_stats|statistics\..*|summar.*|Summar.*|metrics\..*|timeline\..*)$", "Seeing what happens"),
    (r"feature_column\.", "Feature columns"),
    (r"serving\.", "Serving"),
    (r"operations\.", "Operations"),
    (r"(deeprec\.|install_as_)", "Names of other libraries"),
]


def group_of(name: str) -> str:
    """What a name, without its first `sok1x.`, is filed under."""
    return next((title for pattern, title in GROUPS if re.match(pattern, name)), "Others")


def escaped(text: str) -> str:
    """Prose whose stars, underscores and brackets Markdown leaves as they are; indented lines are code."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("    "):
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if part.startswith("`") else re.sub(r"([*_\[\]<>])", r"\\\1", part) for part in parts)
        lines.append(line)
    return "\n".join(lines)


def split(doc: str) -> Tuple[str, Dict[str, str]]:
    """A docstring's prose, and its sections."""
    prose: List[str] = []
    sections: Dict[str, List[str]] = {}
    current = prose
    for line in inspect.cleandoc(doc or "").split("\n"):
        heading = re.match(r"(\w+):$", line)
        if heading and heading.group(1) in SECTIONS:
            current = sections.setdefault(heading.group(1), [])
        else:
            if current is not prose and line and not line.startswith(" "):
                current = prose
            current.append(line)
    return "\n".join(prose).strip(), {name: textwrap.dedent("\n".join(text)).strip("\n")
                                      for name, text in sections.items()}


def listed(text: str) -> str:
    """`name: what it is` entries as a list."""
    out = []
    for entry in re.split(r"\n(?=\S)", text):
        name, colon, rest = entry.partition(":")
        rest = textwrap.dedent(re.sub(r"^ +", "", rest)).replace("\n", " ")
        out.append("- `{}`: {}".format(name.strip(), escaped(re.sub(r"\s+", " ", rest).strip())) if colon
                   else "- " + escaped(re.sub(r"\s+", " ", entry)))
    return "\n".join(out)


def signature_of(value: Any) -> str:
    """`(a, b=1)`; nothing for a property, or where Python cannot say."""
    if isinstance(value, property):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def entry(name: str, value: Any, level: int) -> str:
    """One name's part of the page."""
    prose, sections = split(value.__doc__ or "")
    parts = ["{} {}".format("#" * level, escaped(name)),
             "```text\n{}{}\n```".format(name, signature_of(value)), escaped(prose)]
    for title, text in sections.items():
        if not text:
            continue
        parts.append("**{}**".format(title))
        parts.append("```python\n{}\n```".format(text) if title == "Example" else
                     listed(text) if title in LISTED else escaped(text))
    return "\n\n".join(part for part in parts if part)


def markdown() -> str:
    """The page's generated part: groups, in each the names in order, methods behind their class."""
    names = public_names.public()
    filed: Dict[str, List[str]] = {}
    for name in names:
        owner = name.rpartition(".")[0]
        filed.setdefault(group_of((owner if owner in names else name).split(".", 1)[1]), []).append(name)
    parts = []
    for title in [title for _, title in GROUPS] + ["Others"]:
        if filed.get(title):
            parts.append("## " + title)
            for name in filed.pop(title):
                method = name.rpartition(".")[0] in names
                parts.append(entry(name, names[name], 4 if method else 3))
    return "\n\n".join(parts) + "\n"
