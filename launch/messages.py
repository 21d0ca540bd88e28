"""What ranks tell rank 0 and what rank 0 tells them, as bytes: fixed struct fields, then texts and arrays.

A rank's messages: Bundle (bundles.py), Announce, Withdraw, Undone, Gone, Answer, Noticed, Reached, Leave, Failed,
Ended. The leader's words: Run (bundles.py), Refuse, Cancel, Ask, AskPlace, EndAt, JobFailed, Warn, Left, LeaderLeft,
AllLeft, AllEnded.

`encode` gives the bytes of one or several, to be sent as one, and `decode` the tuples again.
"""
import json
import struct
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .bundles import Bundle, Run, pack_bundle, pack_run, unpack_bundle, unpack_run
from .errors import INTERNAL, LaunchError

_GRADIENTS_BIT, _LOOKED_AT, _STEPPED_BY = 61, 1, 2  # as graph_ops/bridge/bridge_signature.cc makes signatures


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
        tie: 0, or the number of the decision (Decision.number) whose results the op continues: a lookup's, for its
            gradient.
        frame: TensorFlow's frame of a loop in a loop; 0 elsewhere.
        iteration: Of that loop.
        signature: A hash of the ops that communicate in the same session.run, two bits of which say what becomes of
            gradients there, of a gradient what becomes of itself: training and evaluation may share ops.
    """
    tie: int = 0
    frame: int = 0
    iteration: int = 0
    signature: int = 0

    def may_meet(self, other: "Instance") -> bool:
        """Whether kinds of session.run that differ may be one: not where gradients are only looked at in one, by which
        an optimizer steps in the other."""
        return {self.gradients, other.gradients} != {_LOOKED_AT, _STEPPED_BY}

    @property
    def gradients(self) -> int:
        """What becomes of gradients in its session.run, or, of a gradient, of itself."""
        return self.signature >> _GRADIENTS_BIT & 3


class Announce(NamedTuple):
    """An op is ready on this rank that goes into no bundle. `header` is the bytes of an int64 array.

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
    """The answer to Ask: whether nothing moves on this rank; and whether all that may is one eager call of ours."""
    serial: int
    still: bool
    eager: bool = False


class Noticed(NamedTuple):
    """This rank has been told to end: see ending.py."""


class Reached(NamedTuple):
    """The answer to AskPlace: the furthest that this rank may come by the end of what it is doing."""
    place: int


class Leave(NamedTuple):
    """This rank will announce nothing more."""


class Failed(NamedTuple):
    """This rank failed, and the job with it."""
    error: LaunchError


class Ended(NamedTuple):
    """After a failure of the job: this rank has told its user and may be killed; and whether it finalises MPI."""
    finalises: bool


class Refuse(NamedTuple):
    """What each rank announced with its ticket fails on all ranks."""
    tickets: Tuple[int, ...]
    error: LaunchError


class Cancel(NamedTuple):
    """The announcements with these tickets fail, on this rank only."""
    tickets: Tuple[int, ...]
    error: LaunchError


class Ask(NamedTuple):
    """Every rank waits: does anything still move on yours?"""
    serial: int


class AskPlace(NamedTuple):
    """The job is to end: how far has your rank come?"""


class EndAt(NamedTuple):
    """All ranks stop at this place."""
    place: int


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
    """After a failure of the job: every rank has told its user; and whether all finalise MPI."""
    finalise: bool


_PLAIN = (Leave, Left, LeaderLeft, AllLeft, Noticed, AskPlace)
_NUMBERS = {Withdraw: struct.Struct("<q"), Undone: struct.Struct("<q"), Gone: struct.Struct("<q"),
            Ask: struct.Struct("<q"), Answer: struct.Struct("<q??"), Reached: struct.Struct("<q"),
            EndAt: struct.Struct("<q"), Ended: struct.Struct("<?"), AllEnded: struct.Struct("<?")}
_KINDS = (Bundle, Announce, Failed, Run, Refuse, Cancel, JobFailed, Warn) + tuple(_NUMBERS) + _PLAIN
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
# Several messages in one: this, their number and lengths, then they themselves.
_SEVERAL = len(_KINDS)
# Error there?, lengths of header, name, introduction, error text; ticket, step, the op's context, index, digest, the
# instance's tie, frame, iteration, signature, error code, error rank.
_ANNOUNCE_HEAD = struct.Struct("<?xxxIIIIqqqqQqQqQii")
_ERROR = struct.Struct("<ii")
_COUNT = struct.Struct("<I")


def _pack_error(error):
    return _ERROR.pack(error.code, error.rank) + error.message.encode("utf-8")


def _unpack_error(data):
    code, rank = _ERROR.unpack_from(data)
    return LaunchError(code, bytes(data[_ERROR.size:]).decode("utf-8"), rank)


def _pack_verdict(word):
    return _COUNT.pack(len(word.tickets)) + struct.pack("<{}q".format(len(word.tickets)), *word.tickets) + _pack_error(
        word.error)


def _unpack_verdict(data):
    (count,) = _COUNT.unpack_from(data)
    tickets = struct.unpack_from("<{}q".format(count), data, _COUNT.size)
    return tickets, _unpack_error(data[_COUNT.size + 8 * count:])


def _pack_announce(message):
    name = message.name.encode("utf-8")
    introduction = b"" if message.introduction is None else json.dumps(message.introduction).encode("utf-8")
    error = message.error
    text = b"" if error is None else error.message.encode("utf-8")
    return _ANNOUNCE_HEAD.pack(
        error is not None, len(message.header), len(name), len(introduction), len(text), message.ticket,
        message.step, *message.op, *message.instance, error.code if error else 0, error.rank if error else 0,
    ) + message.header + name + introduction + text


def _unpack_announce(data):
    (has_error, n_header, n_name, n_introduction, n_error, ticket, step, context, index, digest, tie, frame,
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


_PACK = {Bundle: pack_bundle, Announce: _pack_announce, Run: pack_run, Refuse: _pack_verdict, Cancel: _pack_verdict,
         Failed: lambda message: _pack_error(message.error), JobFailed: lambda word: _pack_error(word.error),
         Warn: lambda word: word.text.encode("utf-8")}
_UNPACK = {Bundle: unpack_bundle, Announce: _unpack_announce, Run: unpack_run,
           Refuse: lambda body: Refuse(*_unpack_verdict(body)), Cancel: lambda body: Cancel(*_unpack_verdict(body)),
           Failed: lambda body: Failed(_unpack_error(body)), JobFailed: lambda body: JobFailed(_unpack_error(body)),
           Warn: lambda body: Warn(body.decode("utf-8"))}


def _pack(message):
    kind = type(message)
    if kind in _PACK:
        body = _PACK[kind](message)
    else:
        body = _NUMBERS[kind].pack(*message) if kind in _NUMBERS else b""
    return bytes((_NUMBER[kind],)) + body


def _unpack(data):
    kind, body = _KINDS[data[0]], data[1:]
    if kind in _UNPACK:
        return _UNPACK[kind](body)
    return kind(*_NUMBERS[kind].unpack(body)) if kind in _NUMBERS else kind()


def encode(*messages):
    """The bytes of one or more messages or words (any of this module's tuples)."""
    if len(messages) == 1:
        return _pack(messages[0])
    bodies = [_pack(message) for message in messages]
    lengths = struct.pack("<I{}I".format(len(bodies)), len(bodies), *map(len, bodies))
    return b"".join([bytes((_SEVERAL,)), lengths] + bodies)


def decode(data):
    """The messages or words that `data` (bytes) holds: a list, in the order in which they were said.

    Raises:
        LaunchError: INTERNAL where `data` is not what `encode` gives.
    """
    try:
        if data[0] != _SEVERAL:
            return [_unpack(data)]
        (count,) = _COUNT.unpack_from(data, 1)
        at, messages = 5 + 4 * count, []
        for length in struct.unpack_from("<{}I".format(count), data, 5):
            messages.append(_unpack(data[at:at + length]))
            at += length
        return messages
    except (IndexError, struct.error, ValueError) as error:  # of bytes that are no text or no JSON too
        raise LaunchError(INTERNAL, "a message between ranks is damaged ({}): {!r}".format(error, data[:40]))
