"""The pages of docs/ and the README as data: their links, headings and blocks of code.

A comment before a block says how it is checked:

    <!-- not run: REASON -->      the block below is only read: what follows in it needs something that a test has not
    <!-- before:                  Python that runs before the block below, for what the reader has already
    CODE
    -->
"""
import os
import re
from typing import Dict, Iterator, List, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(ROOT, "docs")
README = "README.md"
LANGUAGES = ("python", "bash", "text", "json")


class Block(NamedTuple):
    """A block of code: its language, its text, the line that it begins on, and what the comment before it says."""

    language: str
    code: str
    line: int
    not_run: str
    before: str


class Link(NamedTuple):
    """A link or an image: the line, and where it leads."""

    line: int
    target: str


def names() -> List[str]:
    """Paths of all pages from the tree's top, the README first."""
    return [README] + sorted("docs/" + name for name in os.listdir(DOCS) if name.endswith(".md"))


def read(name: str) -> str:
    """A page's text."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def blocks(text: str) -> Iterator[Block]:
    """All blocks between ``` and ```, with the comments that belong to them."""
    pattern = re.compile(r"(?:^<!-- (not run|before):(.*?)-->\n)?^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for match in pattern.finditer(text):
        kind, said, language, code = match.groups()
        said = (said or "").strip() if kind == "not run" else (said or "").strip("\n")
        yield Block(language, code, text.count("\n", 0, match.start(3)) + 1, said if kind == "not run" else "",
                    said if kind == "before" else "")


def prose(text: str) -> str:
    """The text without blocks of code and comments, its lines kept."""
    def blank(match):
        return "\n" * match.group(0).count("\n")

    return re.sub(r"<!--.*?-->", blank, re.sub(r"^```.*?^```$", blank, text, flags=re.MULTILINE | re.DOTALL),
                  flags=re.DOTALL)


def links(text: str) -> Iterator[Link]:
    """All links and images, outside code."""
    plain = re.sub(r"`[^`]*`", lambda match: re.sub(r"[^\n]", " ", match.group(0)), prose(text))
    for match in re.finditer(r"\]\(\s*([^)\s]+)\s*\)", plain):
        yield Link(plain.count("\n", 0, match.start()) + 1, match.group(1))


def headings(text: str) -> List[str]:
    """All headings, without marks."""
    return re.findall(r"^#{1,6} +(.*?) *$", prose(text), re.MULTILINE)


def anchor(heading: str) -> str:
    """By what a link leads to a heading, on a code host and in the site alike."""
    return re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")


def broken(name: str, known: Dict[str, str]) -> List[str]:
    """What is wrong with a page's links; `known` are all pages' texts."""
    wrong = []
    for link in links(known[name]):
        if re.match(r"(https?|mailto):", link.target):
            continue
        path, _, mark = link.target.partition("#")
        page = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(ROOT, page)):
            wrong.append("{}:{}: there is no {}".format(name, link.line, page))
        elif mark and (page not in known or mark not in [anchor(heading) for heading in headings(known[page])]):
            wrong.append("{}:{}: {} has no heading for #{}".format(name, link.line, page, mark))
    return wrong


def all_broken() -> List[str]:
    """What is wrong with the links of all pages."""
    known = {name: read(name) for name in names()}
    return [one for name in known for one in broken(name, known)]
