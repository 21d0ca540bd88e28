"""What ranks tell rank 0 and what rank 0 tells them, as bytes: fixed struct fields, then texts and arrays.

A rank's messages: Announce, Withdraw, Leave, Failed, Ended. The leader's words: Run, Refuse, Cancel, JobFailed, Warn,
Left, LeaderLeft, AllLeft, AllEnded. `encode` gives bytes, `decode` the tuple again.
"""
import struct
from typing import NamedTuple, Optional, Tuple

import numpy as np

from .errors import INTERNAL, LaunchError

OpKey = Tuple[int, int]


class Announce(NamedTuple):
    """An op is ready on this rank. `header` is the bytes of an int64 array; plan_text comes once for each plan."""
    ticket: int
    step: int
    op: OpKey
    name: str
    plan_length: int
    plan_digest: int
    plan_text: Optional[str]
    header: bytes
    error: Optional[LaunchError]


class Withdraw(NamedTuple):
    """This rank would take back the announcement with this ticket."""
    ticket: int


class Leave(NamedTuple):
    """This rank will announce nothing more."""


class Failed(NamedTuple):
    """This rank failed, and the job with it."""
    error: LaunchError


class Ended(NamedTuple):
    """After a failure of the job: this rank has told its user and may be killed."""


class Run(NamedTuple):
    """All run this op next. `headers` is the bytes of int64 [ranks, columns]."""
    op: OpKey
    ranks: int
    headers: bytes


class Refuse(NamedTuple):
    """The op fails on all ranks."""
    op: OpKey
    error: LaunchError


class Cancel(NamedTuple):
    """The announcement with this ticket fails, on this rank only."""
    ticket: int
    error: LaunchError


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
_KINDS = (Announce, Withdraw, Failed, Run, Refuse, Cancel, JobFailed, Warn) + _PLAIN
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_ANNOUNCE, _RUN = _NUMBER[Announce], _NUMBER[Run]
# Kind, then for Announce: plan text there?, error there?, lengths of header, name, plan text, error text;
# ticket, step, graph, index, plan length, plan digest, error code, error rank.
_ANNOUNCE_HEAD = struct.Struct("<B??xIIIIqqqqqQii")
_RUN_HEAD = struct.Struct("<BxxxIqq")
_ERROR = struct.Struct("<ii")
_OP = struct.Struct("<qq")
_TICKET = struct.Struct("<q")


def _pack_error(error):
    return _ERROR.pack(error.code, error.rank) + error.message.encode("utf-8")


def _unpack_error(data):
    code, rank = _ERROR.unpack_from(data)
    return LaunchError(code, bytes(data[_ERROR.size:]).decode("utf-8"), rank)


def _encode_announce(message):
    name = message.name.encode("utf-8")
    plan = b"" if message.plan_text is None else message.plan_text.encode("utf-8")
    error = message.error
    text = b"" if error is None else error.message.encode("utf-8")
    return _ANNOUNCE_HEAD.pack(
        _ANNOUNCE, message.plan_text is not None, error is not None, len(message.header), len(name), len(plan),
        len(text), message.ticket, message.step, message.op[0], message.op[1], message.plan_length,
        message.plan_digest, error.code if error else 0, error.rank if error else 0,
    ) + message.header + name + plan + text


def _decode_announce(data):
    (_, has_plan, has_error, n_header, n_name, n_plan, n_error, ticket, step, graph, index, plan_length, digest,
     code, rank) = _ANNOUNCE_HEAD.unpack_from(data)
    header = _ANNOUNCE_HEAD.size
    name = header + n_header
    plan = name + n_name
    error = plan + n_plan
    return Announce(
        ticket, step, (graph, index), data[name:plan].decode("utf-8"), plan_length, digest,
        data[plan:error].decode("utf-8") if has_plan else None, data[header:name],
        LaunchError(code, data[error:error + n_error].decode("utf-8"), rank) if has_error else None)


def encode(message):
    """The bytes of a message or word (any of this module's tuples)."""
    kind = type(message)
    if kind is Run:
        return _RUN_HEAD.pack(_RUN, message.ranks, message.op[0], message.op[1]) + message.headers
    if kind is Announce:
        return _encode_announce(message)
    head = bytes((_NUMBER[kind],))
    if kind is Withdraw:
        return head + _TICKET.pack(message.ticket)
    if kind in (Failed, JobFailed):
        return head + _pack_error(message.error)
    if kind is Refuse:
        return head + _OP.pack(*message.op) + _pack_error(message.error)
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
            _, ranks, graph, index = _RUN_HEAD.unpack_from(data)
            return Run((graph, index), ranks, data[_RUN_HEAD.size:])
        if number == _ANNOUNCE:
            return _decode_announce(data)
        kind, body = _KINDS[number], data[1:]
        if kind is Withdraw:
            return Withdraw(*_TICKET.unpack(body))
        if kind in (Failed, JobFailed):
            return kind(_unpack_error(body))
        if kind is Refuse:
            return Refuse(_OP.unpack_from(body), _unpack_error(body[_OP.size:]))
        if kind is Cancel:
            return Cancel(_TICKET.unpack_from(body)[0], _unpack_error(body[_TICKET.size:]))
        if kind is Warn:
            return Warn(body.decode("utf-8"))
        return kind()
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise LaunchError(INTERNAL, "a message between ranks is damaged ({}): {!r}".format(error, data[:40]))


def headers_array(word):
    """The headers of a Run as int64 [ranks, columns] (read-only)."""
    return np.frombuffer(word.headers, np.int64).reshape(word.ranks, -1)
