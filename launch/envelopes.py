"""What travels in a tree of ranks (tree.py) around messages and words; C++ has the same in graph_ops' relay.h.

    UP       messages of several ranks, on their way to rank 0: of each the rank (int32), its length (int32), its bytes.
             What C++ has made of several ranks' messages has rank -1, and is C++'s alone to read
    TO_ONE   a word of rank 0 for one rank (int32). All others are for every rank
    PARTED   to the parent: this rank will send nothing more
    ALARM    a failure, told without the tree: of its ranks one may be stuck, or busy where it cannot hear
"""
import struct

from .errors import INTERNAL, LaunchError

UP, TO_ONE, PARTED, ALARM = range(0xf3, 0xf7)
_ENTRY, _TARGET = struct.Struct("<ii"), struct.Struct("<i")


def up(entries):
    """The bytes of messages of ranks, [(rank, bytes)]."""
    return bytes((UP,)) + b"".join([_ENTRY.pack(rank, len(data)) + bytes(data) for rank, data in entries])


def read_up(data):
    """[(rank, bytes)] of what `up` has made.

    Raises:
        LaunchError: INTERNAL where it is not that.
    """
    entries, at = [], 1
    while at < len(data):
        if len(data) - at < _ENTRY.size:
            raise _damaged(data)
        rank, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if not 0 <= length <= len(data) - at:
            raise _damaged(data)
        entries.append((rank, data[at:at + length]))
        at += length
    return entries


def to_one(rank, word):
    """The bytes of a word (bytes) for one rank."""
    return bytes((TO_ONE,)) + _TARGET.pack(rank) + word


def read_to_one(data):
    """(rank, word) of what `to_one` has made.

    Raises:
        LaunchError: INTERNAL where it is not that.
    """
    if len(data) < 1 + _TARGET.size:
        raise _damaged(data)
    return _TARGET.unpack_from(data, 1)[0], data[1 + _TARGET.size:]


def alarm(message):
    """The bytes of a message or word of a failure, told without the tree."""
    return bytes((ALARM,)) + message


def opened(data):
    """The messages in it (a list of bytes), as far as they can be read without C++."""
    if data[:1] == bytes((UP,)):
        return [message for _, message in read_up(data)]
    if data[:1] == bytes((TO_ONE,)):
        return [read_to_one(data)[1]]
    return [data[1:] if data[:1] == bytes((ALARM,)) else data]


def _damaged(data):
    return LaunchError(INTERNAL, "a message between ranks is damaged: {!r}".format(bytes(data[:40])))
