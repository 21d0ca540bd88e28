"""Lookups of many tables on several ranks, by key or by bag: one exchange of keys and one of rows for all.

Each member's keys are made distinct and grouped by owner when the ops are taken in, all members' in the same
launches; bags are found in these, too. Once the ops are decided together, what goes to a rank lies side by side,
[rank][member][rows], so that one all_to_all serves all members, whatever their dims. New keys are inserted by their
owners, unless a shard is full on any rank; such a member, and one that evaluates keys without a row, is left, on all
ranks alike, to the operation itself. Bits are those of the single lookup: rows are copied, a bag's are added up in the
order of its keys, numbers and orders are the same.

Which exchange a lookup by bag goes by is known when all ranks have seen its header: one that goes by reduce_scatter
then is lookup_ranks_sums.py's, and one of which short headers leave that open is run by itself. Of one that goes by
reduce_scatter whatever ranks have, no keys are made distinct.
"""
from typing import Any, Callable, List, NamedTuple, Tuple

import numpy as np

from sok1x import launch
from sok1x.cuda_kernels import row_numbers
from sok1x.cuda_kernels.arrays import array
from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.lookup import counts_for_this_rank, row_bytes, short_header
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups import lookup_hosts
from sok1x.graph_ops.groups.lookup_run import GONE, TOO_MANY_DIMENSIONS, LookupRun, Said, again
from sok1x.graph_ops.stores import figures
from sok1x.launch.by_hosts import ACROSS, ALL, INSIDE


class Prepared(NamedTuple):
    """A member's distinct keys, as the grouped `prepare` leaves them.

    Attributes:
      sent: a pointer to the keys of all members that were prepared together, [owner][member][keys].
      begins: int64 [N], where this member's keys for each owner begin there, in keys. counts: int64 [N], how many. By
        hosts: for each rank of this host, which is to ask their owners.
      memory: keeps what lies there. bags: how many it has, where it has any.
    """

    sent: int
    begins: np.ndarray
    counts: np.ndarray
    memory: Any
    bags: int = 0


def forward_key(taken: Any) -> Any:
    """What members of a group must have in common, here before they are announced and there when they are decided."""
    if taken.headers is None:
        return ("training", training_of(taken.request, taken.config)) + way(taken.config)
    flags = taken.headers[:, 0].tolist()
    return ("training", flags[0] != 0) + way(taken.config) if flags.count(flags[0]) == len(flags) else None


def way(config: Any) -> Tuple[str, ...]:
    """Of a member's key, how an op with this config exchanges: by hosts, or as usual."""
    return () if config.table.placement.by_hosts(launch.current()) is None else ("by hosts",)


def prepare(members: List[Any], world: Any) -> None:
    """Makes all members' keys distinct, groups them by owner, and sets the members' headers."""
    run, size, ranks = LookupRun(members), len(members), world.size
    width = ranks + (5 if run.by_bag else 2)
    headers, begins = np.empty((size, width), np.int64), np.empty((size, ranks), np.int64)
    sent, left = np.empty(1, np.int64), np.empty(size, np.uint8)
    training = training_of(members[0].request, members[0].config)
    if run.call("prepare", ranks, training, width, headers, begins, sent, left) == TOO_MANY_DIMENSIONS:
        return
    at = int(sent[0])
    run.kept = np.full(size, at), begins
    for taken, header, begin, other in zip(members, headers, begins, left.tolist()):
        if not other:  # else its own `prepare` puts it in order, or says what is wrong
            taken.header = _shortened(header, taken.config, ranks) if world.short_headers else header
            taken.prepared = Prepared(at, begin, header[-ranks:], run, int(header[2]) if run.by_bag else 0)
    run.prepared(whole=not left.any())


def _shortened(header: np.ndarray, config: Any, ranks: int) -> np.ndarray:
    """A header as it is told where headers are short; before it, as there, is the device's mark."""
    mark, training, *counted = header[:-ranks].tolist()
    return np.array([mark, *short_header(config, ranks, training != 0, counted)], np.int64)


def forward(members: List[Any], world: Any) -> LookupRun:
    """The forward of decided members. Returns its run."""
    run, size, ranks = again(members), len(members), world.size
    given, taken_in = _keys_between(members, world)
    numbers = np.array([taken.request.exchange for taken in members])
    sent, begins = run.kept if run.kept is not None else _kept(members)
    said, communicator = run.team.said(ranks), members[0].request.communicator
    training, whole, owners = int(members[0].headers[0, 0]), run.kept is not None, ALL
    asked = given, taken_in
    if run.team.by_hosts:
        near = lookup_hosts.ask_near(run, members, world, asked, sent, begins, whole)
        if near is None:
            return run.leave([1] * size)
        (*asked, sent, begins), whole, owners = near, True, ACROSS
    if run.call("forward_ask", world.rank, ranks, *asked, numbers, sent, begins, whole,
                *said.exchange_at) == TOO_MANY_DIMENSIONS:
        return run.leave([1] * size)  # on all ranks: keys' dimensions are part of the plan
    for taken, sends, receives in zip(members, given, taken_in):
        config = taken.config
        figures.batch(config.table.name, taken.request.length(1 if run.by_bag else 0), int(sends.sum()))
        figures.asked(config.table.name, world.rank, sends, receives, row_bytes(config.table, config.dtype), keys=True)
    run.exchange(communicator, said, owners)
    come(members, timeline.KEYS)
    run.call("forward_answer", training, *said.found_at, *said.exchange_at)
    left = bytes([count > 0 for count in said.missing.tolist()])
    if not training and run.team.begins:  # keys without a row read what they would begin with: nobody leaves anything
        if any(left):
            raise CallError(INTERNAL, GONE)
        _take_rows(run, members, said, owners)
        run.call("forward_take", left)
        return run
    everywhere = insert_new(run, world, said, left)
    _take_rows(run, members, said, owners)
    left = everywhere()
    run.call("forward_take", left)
    return run.leave(left)


def insert_new(run: LookupRun, world: Any, said: Said, left: bytes) -> Callable[[], bytes]:
    """Has new keys inserted, but for members that are left on any rank.

    No rank waits for others here but one that inserts keys: before that, none may have a full shard.

    Args:
      left: [T], not 0 for members that this rank leaves.

    Returns:
      What waits for the others where this has not, and gives the same of all ranks.
    """
    if not run.team.hashed:
        return lambda: left
    everywhere: Callable[[], bytes] = world.communicator.any_rank(left)
    new = said.fresh.tolist()
    if not any(new):
        return everywhere
    of_all = everywhere()
    run.insert(new, of_all)
    return lambda: of_all


def _take_rows(run: LookupRun, members: List[Any], said: Said, owners: int) -> None:
    communicator = members[0].request.communicator
    run.exchange(communicator, said, owners)
    if run.team.by_hosts:
        run.call("near_answer", *said.exchange_at)
        run.exchange(communicator, said, INSIDE)
    come(members, timeline.ROWS)


def come(members: List[Any], stamp: int) -> None:
    """Has members' requests come to a stamp of the timeline's."""
    for taken in members if timeline.on else ():
        taken.request.come(stamp)


def _keys_between(members: List[Any], world: Any) -> Tuple[np.ndarray, np.ndarray]:
    """Keys of decided members, int64 [T, N]: how many this rank has for each, and each for this one."""
    if world.short_headers:
        given = np.stack([_prepared_of(taken).counts for taken in members])
        return given, counts_for_this_rank(world, given, INSIDE if way(members[0].config) else ALL)
    headers = np.stack([taken.headers for taken in members])  # [T, N, h]
    ranks = world.size
    return (np.ascontiguousarray(headers[:, world.rank, -ranks:]),
            np.ascontiguousarray(headers[:, :, headers.shape[2] - ranks + world.rank]))


def _kept(members: List[Any]) -> Any:
    """(sent, begins) as `LookupRun.kept`, of members that have been prepared in some other way."""
    prepared = [_prepared_of(taken) for taken in members]
    return np.array([one.sent for one in prepared]), np.stack([one.begins for one in prepared])


def _prepared_of(taken: Any) -> Prepared:
    """The `Prepared` of a member, also of one that was prepared by itself: that may be so on any rank."""
    if taken.prepared is not None:
        return taken.prepared
    asked = taken.request.state.state
    counts = asked.send_counts
    return Prepared(asked.keys.pointer, np.cumsum(counts) - counts, counts, taken.request)


def asked_of_owners(taken: Any, inverse: Any) -> AskedOfOwners:
    """A prepared member's keys as its operation's own `prepare` leaves them: owner after owner, nothing between."""
    request, prepared = taken.request, taken.prepared
    counts = np.ascontiguousarray(prepared.counts)
    keys = request.temporary("int64", int(counts.sum()))
    done = 0
    for begin, count in zip(prepared.begins.tolist(), counts.tolist()):
        sent = array(prepared.sent + 8 * begin, "int64", (count,), request.gpu)
        row_numbers.look_up_int64(sent, None, keys.some(done, count))  # a copy
        done += count
    return AskedOfOwners(keys, keys.size, inverse, counts)
