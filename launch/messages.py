"""What ranks tell rank 0 and what rank 0 tells them, as bytes: fixed struct fields, then texts and arrays.

A rank's messages: Announce, Withdraw, Undone, Gone, Answer, Leave, Failed, Ended. The leader's words: Run, Refuse,
Cancel, Ask, JobFailed, Warn, Left, LeaderLeft, AllLeft, AllEnded. `encode` gives bytes, `decode` the tuple again.
"""
import json
import struct
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from .errors import INTERNAL, LaunchError


class Op(NamedTuple):
    """An op that communicates, as one rank knows it.

    Attributes:
        context: This rank's number of the session that the op runs in. Ranks number their sessions independently.
        index: Its place in its graph's plan.
        digest: 64 bit hash of the plan up to and including it: equal on two ranks if all that is the same.
    """
    context: int
    index: int
    digest: int


class Instance(NamedTuple):
    """Which of an op's runs within a session is meant, as far as all ranks know it alike.

    Attributes:
        tie: 0, or the number of the decision (Run.number) whose results the op continues: a lookup's, for its gradient.
        frame: TensorFlow's frame of a loop in a loop; 0 elsewhere.
        iteration: Of that loop.
        signature: A hash of the ops that communicate in the same session.run: training and evaluation may share ops.
    """
    tie: int = 0
    frame: int = 0
    iteration: int = 0
    signature: int = 0


class Announce(NamedTuple):
    """An op is ready on this rank. `header` is the bytes of an int64 array.

    `introduction`, a dict of JSON values, comes as long as rank 0 may not know the op's session or plan (plans.py).
    """
    ticket: int
    step: int
    op: Op
    instance: Instance
    name: str
    introduction: Optional[Dict[str, Any]]
    header: bytes
    error: Optional[LaunchError]


class Withdraw(NamedTuple):
    """This rank would take back the announcement with this ticket."""
    ticket: int


class Undone(NamedTuple):
    """What decision `number` had all ranks run has failed on all of them alike."""
    number: int


class Gone(NamedTuple):
    """The session that this rank numbers `context` is gone."""
    context: int


class Answer(NamedTuple):
    """The answer to Ask: whether nothing moves on this rank."""
    serial: int
    still: bool


class Leave(NamedTuple):
    """This rank will announce nothing more."""


class Failed(NamedTuple):
    """This rank failed, and the job with it."""
    error: LaunchError


class Ended(NamedTuple):
    """After a failure of the job: this rank has told its user and may be killed."""


class Run(NamedTuple):
    """All run next what each rank announced with its ticket. `headers` is the bytes of int64 [ranks, columns]."""
    number: int
    tickets: Tuple[int, ...]
    headers: bytes


class Refuse(NamedTuple):
    """What each rank announced with its ticket fails on all ranks."""
    tickets: Tuple[int, ...]
    error: LaunchError


class Cancel(NamedTuple):
    """The announcement with this ticket fails, on this rank only."""
    ticket: int
    error: LaunchError


class Ask(NamedTuple):
    """Every rank waits: does anything still move on yours?"""
    serial: int


class JobFailed(NamedTuple):
    """The job has failed: everything undecided fails, and nothing will be decided any more."""
    error: LaunchError


class Warn(NamedTuple):
    """A warning to show on this rank."""
    text: str


class Left(NamedTuple):
    """The answer to Leave: nothing that this rank announced is pending any more."""


class LeaderLeft(NamedTuple):
    """Rank 0 has left: no op can be decided any more."""


class AllLeft(NamedTuple):
    """Every rank has left."""


class AllEnded(NamedTuple):
    """After a failure of the job: every rank has told its user."""


_PLAIN = (Leave, Ended, Left, LeaderLeft, AllLeft, AllEnded)
_NUMBERS = {Withdraw: struct.Struct("<q"), Undone: struct.Struct("<q"), Gone: struct.Struct("<q"),
            Ask: struct.Struct("<q"), Answer: struct.Struct("<q?")}
_KINDS = (Announce, Failed, Run, Refuse, Cancel, JobFailed, Warn) + tuple(_NUMBERS) + _PLAIN
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_ANNOUNCE, _RUN = _NUMBER[Announce], _NUMBER[Run]
# Kind, then for Announce: error there?, lengths of header, name, introduction, error text; ticket, step, the op's
# context, index, digest, the instance's tie, frame, iteration, signature, error code, error rank.
_ANNOUNCE_HEAD = struct.Struct("<B?xxIIIIqqqqQqQqQii")
# Kind, number of ranks, number; the ranks' tickets follow, then headers.
_RUN_HEAD = struct.Struct("<BxxxIq")
_ERROR = struct.Struct("<ii")
_COUNT = struct.Struct("<I")
_TICKET = struct.Struct("<q")


def _pack_error(error):
    return _ERROR.pack(error.code, error.rank) + error.message.encode("utf-8")


def _unpack_error(data):
    code, rank = _ERROR.unpack_from(data)
    return LaunchError(code, bytes(data[_ERROR.size:]).decode("utf-8"), rank)


def _pack_tickets(tickets):
    return struct.pack("<{}q".format(len(tickets)), *tickets)


def _unpack_tickets(data, at, count):
    return struct.unpack_from("<{}q".format(count), data, at), at + 8 * count


def _encode_announce(message):
    name = message.name.encode("utf-8")
    introduction = b"" if message.introduction is None else json.dumps(message.introduction).encode("utf-8")
    error = message.error
    text = b"" if error is None else error.message.encode("utf-8")
    return _ANNOUNCE_HEAD.pack(
        _ANNOUNCE, error is not None, len(message.header), len(name), len(introduction), len(text), message.ticket,
        message.step, *message.op, *message.instance, error.code if error else 0, error.rank if error else 0,
    ) + message.header + name + introduction + text


def _decode_announce(data):
    (_, has_error, n_header, n_name, n_introduction, n_error, ticket, step, context, index, digest, tie, frame,
     iteration, signature, code, rank) = _ANNOUNCE_HEAD.unpack_from(data)
    header = _ANNOUNCE_HEAD.size
    name = header + n_header
    introduction = name + n_name
    error = introduction + n_introduction
    return Announce(
        ticket, step, Op(context, index, digest), Instance(tie, frame, iteration, signature),
        data[name:introduction].decode("utf-8"),
        json.loads(data[introduction:error].decode("utf-8")) if n_introduction else None, data[header:name],
        LaunchError(code, data[error:error + n_error].decode("utf-8"), rank) if has_error else None)


def encode(message):
    """The bytes of a message or word (any of this module's tuples)."""
    kind = type(message)
    if kind is Run:
        return _RUN_HEAD.pack(_RUN, len(message.tickets), message.number) + _pack_tickets(
            message.tickets) + message.headers
    if kind is Announce:
        return _encode_announce(message)
    head = bytes((_NUMBER[kind],))
    if kind in _NUMBERS:
        return head + _NUMBERS[kind].pack(*message)
    if kind in (Failed, JobFailed):
        return head + _pack_error(message.error)
    if kind is Refuse:
        return head + _COUNT.pack(len(message.tickets)) + _pack_tickets(message.tickets) + _pack_error(message.error)
    if kind is Cancel:
        return head + _TICKET.pack(message.ticket) + _pack_error(message.error)
    if kind is Warn:
        return head + message.text.encode("utf-8")
    return head


def decode(data):
    """The message or word that `data` (bytes) holds.

    Raises:
        LaunchError: INTERNAL where `data` is not what `encode` gives.
    """
    try:
        number = data[0]
        if number == _RUN:
            _, ranks, decision = _RUN_HEAD.unpack_from(data)
            tickets, end = _unpack_tickets(data, _RUN_HEAD.size, ranks)
            return Run(decision, tickets, data[end:])
        if number == _ANNOUNCE:
            return _decode_announce(data)
        kind, body = _KINDS[number], data[1:]
        if kind in _NUMBERS:
            return kind(*_NUMBERS[kind].unpack(body))
        if kind in (Failed, JobFailed):
            return kind(_unpack_error(body))
        if kind is Refuse:
            tickets, end = _unpack_tickets(body, _COUNT.size, *_COUNT.unpack_from(body))
            return Refuse(tickets, _unpack_error(body[end:]))
        if kind is Cancel:
            return Cancel(_TICKET.unpack_from(body)[0], _unpack_error(body[_TICKET.size:]))
        if kind is Warn:
            return Warn(body.decode("utf-8"))
        return kind()
    except (IndexError, struct.error, ValueError) as error:  # of bytes that are no text or no JSON too
        raise LaunchError(INTERNAL, "a message between ranks is damaged ({}): {!r}".format(error, data[:40]))


def headers_array(word):
    """The headers of a Run as int64 [ranks, columns] (read-only)."""
    return np.frombuffer(word.headers, np.int64).reshape(len(word.tickets), -1)
