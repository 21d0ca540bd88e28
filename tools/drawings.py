"""Draws docs/drawings/*.svg from the texts of the same names beside them: `python tools/drawings.py`.

A drawing says who does what in which order, from top to bottom. Its text has a line for each thing:

    title: The journey of a key
    actors: model | asking rank | owner        columns, from left to right
    == before any exchange                     a stage: a line across all columns
    asking rank: keys are made distinct        a box in a column; | breaks its lines, which are wrapped besides
    asking rank -> owner: keys                 an arrow; <-> is one with two heads
"""
import os
import re
import sys
import textwrap
from typing import Dict, List, NamedTuple, Tuple
from xml.sax.saxutils import escape

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "drawings")
COLUMN, LINE, PAD, SIDE, BOX = 190, 16, 7, 12, 168
FONT = "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\""
INK, EDGE, FILL, HEAD, STAGE = "#1d2733", "#5b6b7d", "#eef3f8", "#d5e2f0", "#8a6d1a"


class Event(NamedTuple):
    """A stage ('=='), a box (':'), or an arrow ('->', '<->') of a drawing."""

    kind: str
    actors: Tuple[str, ...]
    text: str


def parse(text: str) -> Tuple[str, List[str], List[Event]]:
    """A drawing's title, its actors, and what happens."""
    title, actors, events = "", [], []  # type: str, List[str], List[Event]
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("title:"):
            title = line[6:].strip()
        elif line.startswith("actors:"):
            actors = [name.strip() for name in line[7:].split("|")]
        elif line.startswith("=="):
            events.append(Event("==", (), line[2:].strip()))
        else:
            who, _, said = line.partition(":")
            arrow = re.match(r"(.*?) (<->|->) (.*)$", who)
            names = (arrow.group(1).strip(), arrow.group(3).strip()) if arrow else (who.strip(),)
            unknown = [name for name in names if name not in actors]
            if unknown:
                raise ValueError("line {}: got {!r}, expected one of {}".format(number, unknown[0], actors))
            events.append(Event(arrow.group(2) if arrow else ":", names, said.strip()))
    return title, actors, events


def lines_of(text: str, width: int) -> List[str]:
    """A text broken into lines of so many pixels, at 6.3 a letter."""
    return [line for part in text.split("|") for line in textwrap.wrap(part.strip(), int(width / 6.3)) or [""]]


def words(lines: List[str], x: float, y: float, anchor: str = "middle", color: str = INK,
          weight: str = "normal") -> str:
    """Lines of text, the first on y."""
    return "".join('<text x="{:g}" y="{:g}" text-anchor="{}" fill="{}" font-weight="{}">{}</text>\n'.format(
        x, y + LINE * number, anchor, color, weight, escape(line)) for number, line in enumerate(lines))


def draw(text: str) -> str:
    """The SVG of a drawing's text."""
    title, actors, events = parse(text)
    at: Dict[str, float] = {name: SIDE + COLUMN * (number + 0.5) for number, name in enumerate(actors)}
    width = 2 * SIDE + COLUMN * len(actors)
    parts, y = [], 34.0
    heads = [lines_of(name, BOX) for name in actors]
    tall = max(len(head) for head in heads) * LINE + 2 * PAD
    for name, head in zip(actors, heads):
        parts.append('<rect x="{:g}" y="{:g}" width="{}" height="{:g}" rx="4" fill="{}" stroke="{}"/>\n'.format(
            at[name] - BOX / 2, y, BOX, tall, HEAD, EDGE))
        parts.append(words(head, at[name], y + tall / 2 - LINE * (len(head) - 1) / 2 + 4, weight="bold"))
    y += tall + 12
    top = y - 12
    for event in events:
        if event.kind == "==":
            y += 8
            parts.append('<line x1="{}" y1="{:g}" x2="{}" y2="{:g}" stroke="{}" stroke-dasharray="5 4"/>\n'.format(
                SIDE, y, width - SIDE, y, STAGE))
            parts.append(words([event.text], SIDE + 2, y + LINE, "start", STAGE, "bold"))
            y += LINE + 12
        elif event.kind == ":":
            said = lines_of(event.text, BOX - 8)
            height = len(said) * LINE + 2 * PAD - 2
            parts.append('<rect x="{:g}" y="{:g}" width="{}" height="{:g}" rx="3" fill="{}" stroke="{}"/>\n'.format(
                at[event.actors[0]] - BOX / 2, y, BOX, height, FILL, EDGE))
            parts.append(words(said, at[event.actors[0]], y + PAD + 10))
            y += height + 10
        else:
            begin, end = at[event.actors[0]], at[event.actors[1]]
            said = lines_of(event.text, max(abs(end - begin) - 20, BOX))
            y += LINE * len(said)
            middle = (begin + end) / 2
            for number, line in enumerate(said):  # on white, so that no column's line goes through it
                half = 3.3 * len(line) + 3
                parts.append('<rect x="{:g}" y="{:g}" width="{:g}" height="{}" fill="white"/>\n'.format(
                    middle - half, y - 5 - LINE * (len(said) - number - 1) - 12, 2 * half, LINE - 1))
            parts.append(words(said, middle, y - 5 - LINE * (len(said) - 1)))
            parts.append('<line x1="{:g}" y1="{:g}" x2="{:g}" y2="{:g}" stroke="{}" stroke-width="1.5" {}'
                         'marker-end="url(#tip)"/>\n'.format(begin, y, end, y, INK, 'marker-start="url(#tail)" '
                                                             if event.kind == "<->" else ""))
            y += 14
    lives = "".join('<line x1="{0:g}" y1="{1:g}" x2="{0:g}" y2="{2:g}" stroke="#b8c4d0"/>\n'.format(
        at[name], top, y + 4) for name in actors)
    marker = ('<marker id="{}" viewBox="0 0 10 10" refX="{}" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
              '<path d="{}" fill="' + INK + '"/></marker>')
    head = ('<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1:g}" viewBox="0 0 {0} {1:g}" {2} role="img">'
            '\n<title>{3}</title>\n<defs>{4}{5}</defs>\n<rect width="{0}" height="{1:g}" fill="white"/>\n').format(
                width, y + 12, FONT, escape(title), marker.format("tip", 9, "M0 0L10 5L0 10z"),
                marker.format("tail", 1, "M10 0L0 5L10 10z"))
    return head + words([title], width / 2, 20, weight="bold") + lives + "".join(parts) + "</svg>\n"


def drawings() -> Dict[str, str]:
    """{path of a drawing: its SVG}, as the texts say."""
    found = {}
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".txt"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                found[os.path.join(FOLDER, name[:-4] + ".svg")] = draw(file.read())
    return found


def main() -> int:
    """Writes them."""
    for path, svg in drawings().items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
