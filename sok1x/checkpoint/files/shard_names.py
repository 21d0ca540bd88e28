"""Names: of a table's parts, and of the files that hold them."""
import hashlib
import re
from urllib.parse import quote

KEYS = "keys"
ROWS = "rows"
STAMPS = "stamps"
SCORES = ("used", "frequency")  # of a table that forgets, as far as it has them
UNUSED = "unused"  # the rows that no key has yet, where they are not a function of their key
ADMISSION = "admission"  # of a table that does not give every key a row: a tick, and its sketch
SLOT = "slot:"     # and the name of an optimizer's variable

_LONGEST = 180
_SLOT_SUFFIX = re.compile(r"slot-(0|[1-9][0-9]{0,5})\Z")
_PARTS = (KEYS, ROWS, STAMPS, UNUSED, ADMISSION) + SCORES  # parts whose files end as they are called

# How a shard's files are called: a pattern.
FILE = r".+\.[0-9]+-of-[0-9]+\.(?:{}|slot-[0-9]+)".format("|".join(_PARTS))


def encoded(table: str) -> str:
    """A table's name as part of a file's name: '/' and the like by percent, a long name cut, with a digest."""
    name = quote(table, safe="")
    if len(name) > _LONGEST:
        name = name[:_LONGEST - 33] + "~" + hashlib.sha256(table.encode()).hexdigest()[:32]
    return name


def file_name(table: str, rank: int, ranks: int, suffix: str) -> str:
    """The name of a shard file."""
    return "{}.{}-of-{}.{}".format(encoded(table), rank, ranks, suffix)


def is_file_name(name: str) -> bool:
    """Whether a file may be a shard's, by its name."""
    return bool(re.match(FILE + r"\Z", name))


def fits(part: str, suffix: str) -> bool:
    """Whether a part can have files that end so."""
    if part.startswith(SLOT):
        return bool(_SLOT_SUFFIX.match(suffix))
    return part in _PARTS and suffix == part
