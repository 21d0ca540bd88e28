"""Ops that are announced together and ops that are decided together: one message each, whatever their number.

A rank tells rank 0 of the ops that its executor took in together as one Bundle; rank 0 tells all ranks of the ops that
it has decided in one turn as one Run. Both are columns: what all members have at one field stands together, is packed
and unpacked at once, and can be compared without looking at single members.
"""
import functools
import itertools
import struct
from typing import List, NamedTuple, Tuple

import numpy as np

PLACE = struct.Struct("<qQ")   # an op's index and digest
RUN = struct.Struct("<qQq")    # an instance's tie, frame and iteration
_BUNDLE_HEAD = struct.Struct("<qqqQIII")
_RUN_HEAD = struct.Struct("<qII")
_INT64 = np.dtype(np.int64)


class Bundle(NamedTuple):
    """Ops of one session.run that are ready on this rank, and that rank 0 can pair without anything more.

    Attributes:
        ticket: Of the first member; the others' follow it.
        count: Number of members T.
        context, step, signature: As in Op, Ready and Instance; of all members.
        places: `PLACE` of each member.
        runs: `RUN` of each member.
        widths: uint32 [T], numbers in each member's header.
        names: Each member's name.
        headers: int64, the members' headers one after another.
    """
    ticket: int
    count: int
    context: int
    step: int
    signature: int
    places: bytes
    runs: bytes
    widths: bytes
    names: Tuple[str, ...]
    headers: bytes

    @property
    def tickets(self):
        """The members' tickets (a range)."""
        return range(self.ticket, self.ticket + self.count)

    def keys(self):
        """What tells the members from each other, alike on all ranks: a list of bytes, place and run."""
        return [place + run for place, run in zip(_pieces(self.places, PLACE.size), _pieces(self.runs, RUN.size))]

    def op_places(self):
        """The members' places, a list of bytes."""
        return _pieces(self.places, PLACE.size)

    def numbers_in_headers(self):
        """The members' widths as a tuple of int."""
        return _numbers("I", self.count).unpack(self.widths)

    def pieces_of_headers(self):
        """Each member's header, a list of bytes."""
        widths = self.numbers_in_headers()
        return [self.headers[8 * (end - width):8 * end] for width, end in zip(widths, itertools.accumulate(widths))]


class Run(NamedTuple):
    """All run next, one after another, what each rank announced with its tickets.

    Attributes:
        number: Of the first decision; the others' follow it. The number of the batch as well.
        widths: uint32 [T], numbers in the header of each of the T ops.
        tickets: int64 [N, T].
        headers: int64 [N, sum of widths].
    """
    number: int
    widths: bytes
    tickets: bytes
    headers: bytes

    def tickets_of(self, rank):
        """The tickets of one rank, a tuple of int."""
        count = len(self.widths) // 4
        return _numbers("q", count).unpack_from(self.tickets, 8 * count * rank)

    def headers_of_ops(self):
        """The headers of all ranks for each of the T ops: a list of int64 [N, width], read-only."""
        count = len(self.widths) // 4
        ranks = len(self.tickets) // (8 * count)
        if count == 1:
            return [np.frombuffer(self.headers, _INT64).reshape(ranks, -1)]
        widths = _numbers("I", count).unpack(self.widths)
        table = np.frombuffer(self.headers, _INT64).reshape(ranks, sum(widths))
        if widths.count(widths[0]) == count:
            return list(table.reshape(ranks, count, widths[0]).transpose(1, 0, 2))
        ends = list(itertools.accumulate(widths))
        return [table[:, end - width:end] for width, end in zip(widths, ends)]


def bundle(ticket, context, step, signature, names, places, runs, headers):
    """The Bundle of ops of one session.run.

    Args:
        ticket: Of the first.
        context, step, signature: As in Bundle.
        names: List of str, T of them.
        places, runs: Lists of what `PLACE` and `RUN` take, for each op in turn.
        headers: List of bytes, T of them.
    """
    count = len(names)
    return Bundle(ticket, count, context, step, signature, _numbers("qQ", count).pack(*places),
                  _numbers("qQq", count).pack(*runs), pack_widths([len(header) >> 3 for header in headers]),
                  tuple(names), b"".join(headers))


def pack_widths(widths):
    """The bytes of the widths, a sequence of int."""
    return _numbers("I", len(widths)).pack(*widths)


def run(number, widths, tickets, headers):
    """The Run of T ops.

    Args:
        number: Of the first.
        widths: As in Run.
        tickets: For each rank a sequence of T int.
        headers: For each rank the bytes of its headers, one after another.
    """
    pack = _numbers("q", len(widths) // 4).pack
    return Run(number, widths, b"".join([pack(*of_rank) for of_rank in tickets]), b"".join(headers))


def header_bytes(header):
    """The bytes of an int64 array (any shape; None is no numbers)."""
    if header is None:
        return b""
    if type(header) is np.ndarray and header.dtype is _INT64:
        return header.tobytes()
    return np.asarray(header, _INT64).tobytes()


def pack_bundle(message):
    """The bytes of a Bundle."""
    names = "\0".join(message.names).encode("utf-8")
    return b"".join((
        _BUNDLE_HEAD.pack(message.ticket, message.context, message.step, message.signature, message.count, len(names),
                          len(message.headers)),
        message.places, message.runs, message.widths, names, message.headers))


def unpack_bundle(data):
    """The Bundle that `pack_bundle` made of it.

    Raises:
        ValueError, struct.error: Where `data` is not that.
    """
    ticket, context, step, signature, count, n_names, n_headers = _BUNDLE_HEAD.unpack_from(data)
    runs = _BUNDLE_HEAD.size + PLACE.size * count
    widths = runs + RUN.size * count
    names = widths + 4 * count
    headers = names + n_names
    message = Bundle(ticket, count, context, step, signature, data[_BUNDLE_HEAD.size:runs], data[runs:widths],
                     data[widths:names], tuple(data[names:headers].decode("utf-8").split("\0")), data[headers:])
    if (count == 0 or len(data) != headers + n_headers or len(message.names) != count
            or 8 * sum(message.numbers_in_headers()) != n_headers):
        raise ValueError("a bundle whose columns do not fit")
    return message


def pack_run(word):
    """The bytes of a Run."""
    count = len(word.widths) // 4
    return b"".join((_RUN_HEAD.pack(word.number, count, len(word.tickets) // (8 * count)), word.widths, word.tickets,
                     word.headers))


def unpack_run(data):
    """The Run that `pack_run` made of it.

    Raises:
        ValueError, struct.error: Where `data` is not that.
    """
    number, count, ranks = _RUN_HEAD.unpack_from(data)
    tickets = _RUN_HEAD.size + 4 * count
    headers = tickets + 8 * ranks * count
    word = Run(number, data[_RUN_HEAD.size:tickets], data[tickets:headers], data[headers:])
    if count == 0 or ranks == 0 or len(data) < headers or len(word.headers) != 8 * ranks * sum(
            _numbers("I", count).unpack(word.widths)):
        raise ValueError("a decision whose columns do not fit")
    return word


def rows(kind, *columns):
    """NamedTuples of type `kind`, made of a column for each field without Python's help: an iterator."""
    return map(tuple.__new__, itertools.repeat(kind), zip(*columns))


@functools.lru_cache(1000)
def _numbers(codes, count):
    """The struct.Struct of `count` times these numbers."""
    return struct.Struct("<" + codes * count)


def _pieces(column: bytes, size: int) -> List[bytes]:
    return [column[at:at + size] for at in range(0, len(column), size)]
