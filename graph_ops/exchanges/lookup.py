"""A run of a lookup, and one of its gradient, as exchanges see them."""
import abc
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple, Type

import numpy as np

from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.exchanges import sizes, ties
from sok1x.graph_ops.exchanges.layouts import Layout, Positions
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.table import Table
from sok1x.launch.by_hosts import ALL

NOTHING = np.empty(0, np.int64)  # the header of an op that has nothing to say

# What a forward op may leave for its gradient in the device's memory, by name; each lookup says which of them, in which
# order, in its `Saved`, a NamedTuple whose last field is in host memory: what was counted, and what ties.py adds.
SAVED_DTYPES: Dict[str, str] = {
    "inverse": "int32",     # [K], which of the sent keys each position asked for; where nothing is sent, its row
    "offsets": "int64",     # [bags + 1], where each bag begins
    "rows": "int32",        # [u], rows of the distinct keys that this rank was asked for, -1 for none; or nothing
    "requested": "int32",   # [R], which of `rows` each received key is; where `rows` is nothing, its row
    "all_offsets": "int64",  # where each bag of all ranks begins among the received pairs (reduce_scatter.py)
    "relayed": "int32",     # which of the keys that it has asked for itself each key of its host has (by_hosts.py)
    # Of bags with weights, K keys in the order of their bags:
    "scales": "float32",    # [K], what each key's row has been multiplied with: its weight, divided as the bags are
    "order": "int32",       # [K], which of the given weights each key has; nothing where they are in order
}


class Header(NamedTuple):
    """What a rank tells all others before they exchange; of all ranks, each field has one dimension more.

    Attributes:
      training: 1 where the run trains. send_counts: [N], keys for each rank; nothing where headers are short.
      bags, keys, distinct: how many this rank has; distinct 0 where nobody counts, -1 where it has no choice
        (choice.py). None where a lookup goes by the same exchange whatever they are, and where headers are short: there
        is `sizes.wish` in their place.
    """

    training: Any
    send_counts: Any
    bags: Any = None
    keys: Any = None
    distinct: Any = None


def headers_of(headers: np.ndarray, tells_sizes: bool) -> Header:
    """From headers int64 [N, h] of all ranks, as `Lookup.header` packs them.

    Args:
      tells_sizes: whether bags, keys and distinct are in them.
    """
    if not tells_sizes:
        return Header(headers[:, 0], headers[:, 1:])
    return Header(headers[:, 0], headers[:, 4:], *headers.T[1:4])


def short_header(config: Any, ranks: int, training: bool, counted: Sequence[int]) -> List[int]:
    """What a rank tells where headers are short: training, then the wish in place of sizes.

    Args:
      config: of the lookup. counted: bags, keys and distinct; nothing where the lookup does not tell them.
    """
    if not counted:
        return [int(training)]
    wish = sizes.wish(config.exchange, training, row_bytes(config.table, config.dtype), ranks, *counted)
    return [int(training), wish]


class Lookup(abc.ABC):
    """One run of a forward op.

    Attributes:
      request, config, world: as the operation runs with. table: the config's. training: whether it trains.
      writes: whether it may write to the table's variables. by_hosts: as `Placement.by_hosts` says.
      Saved: names of what it leaves for its gradient, `SAVED_DTYPES` and one more.
      tells_sizes: whether the exchange depends on how much each would move.
      keys: `Array` of any key type, K of them. layout: of its embeddings. Both are there after `start`.
      state: what an exchange's `prepare` leaves for its `forward`, or `backward`.
    """

    Saved: Type[Any]
    tells_sizes = True
    keys: Any
    layout: Layout

    def __init__(self, request: Any, config: Any, world: Any) -> None:
        self.request, self.config, self.world, self.table = request, config, world, config.table
        self.training = training_of(request, config)
        self.writes = self.training and self.table.hashed
        self.by_hosts = self.table.placement.by_hosts(world)
        self.state: Any = None
        self._left: List[str] = []
        self._counted = False

    @abc.abstractmethod
    def start(self) -> None:
        """Takes the batch in, without waiting for a GPU."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises where the batch is not as it must be."""

    def place_of(self, position: int) -> str:
        """Where a position is, for messages."""
        return "position {} of the batch".format(position)

    @abc.abstractmethod
    def embeddings(self) -> Any:
        """Output 0, float32 or float16, `layout.count` times D."""

    @abc.abstractmethod
    def look_up(self, store: Store, at: Any, out: Any) -> bool:
        """The usual batch's way where no key leaves this rank: every position looked up by itself, after `start`.

        Args:
          at: int32 [K], filled: each position's row. out: `embeddings`, filled.

        Returns:
          Whether that was all; False where keys have no row, or are to be made distinct before. The batch is checked.
        """

    def header(self, distinct: int, send_counts: np.ndarray) -> np.ndarray:
        """This rank's `Header`, int64: training, then bags, keys and distinct, then send_counts; or a short one."""
        counted: Sequence[int] = ()
        if self.tells_sizes:
            counted = self.layout.count, self.keys.size, -1 if self.config.exchange == "settled" else distinct
        if self.world.short_headers:
            return np.array(short_header(self.config, self.world.size, self.training, counted), np.int64)
        return np.concatenate([[self.training, *counted], send_counts]).astype(np.int64)

    def recv_counts(self, every: Header, send_counts: np.ndarray) -> np.ndarray:
        """int64 [N], the keys that each rank has for this one. All ranks call it alike, with what they have for others.

        Args:
          every: of all ranks.
        """
        if not self.world.short_headers:
            return np.ascontiguousarray(every.send_counts[:, self.world.rank])
        return counts_for_this_rank(self.world, send_counts[np.newaxis])[0]

    def headers(self, headers: np.ndarray) -> Header:
        """The `Header` of all ranks."""
        return headers_of(headers, self.tells_sizes and not self.world.short_headers)

    def leave(self, name: str, length: int) -> Any:
        """The output `name` of `Saved`, [length]: an `Array` to be filled."""
        self._left.append(name)
        return self.request.output(1 + self.Saved._fields.index(name), SAVED_DTYPES[name], (length,))

    def leave_counts(self, exchange: int, counts: Sequence[Any]) -> None:
        """The counts (arrays) that the gradient exchanges by; exchange: number of the exchange that has counted."""
        self._counted = True
        ties.save(self.request, 0, list(counts))

    def keep(self, fill: Callable[[Positions, Any], None]) -> None:
        """Leaves each key's row, too, where a gradient to weights asks for them.

        Args:
          fill: is given the layout that does so, and the `Array` [K, D] to be filled.
        """

    def leave_rest(self) -> None:
        """Leaves nothing under the names that nothing has been left under."""
        for name in self.Saved._fields[:-1]:
            if name in SAVED_DTYPES and name not in self._left:
                self.leave(name, 0)
        if not self._counted:
            self.request.host_output(0, "int64", (0,))


def counts_for_this_rank(world: Any, counts: np.ndarray, among: int = ALL) -> np.ndarray:
    """Of several lookups, from each rank's int64 [T, N], which all ranks call with: this rank's, [T, N].

    C++ does the same (groups/lane_ranks_run.cc).

    Args:
      among: see `Communicator.all_to_all`; counts of other ranks are 0.
    """
    lookups, ranks = counts.shape
    met = list(range(ranks) if among == ALL else world.by_hosts.ranks(among))
    given, taken = np.ascontiguousarray(counts.T[met]), np.empty((len(met), lookups), np.int64)
    each = np.zeros(ranks, np.int64)
    each[met] = lookups
    world.communicator.all_to_all(given.ctypes.data, each, taken.ctypes.data, each, 8, among)
    of_all = np.zeros((lookups, ranks), np.int64)
    of_all[:, met] = taken.T
    return of_all


class Gradient:
    """One run of what is taken from a lookup: its gradient, or the gradient of that.

    Attributes:
      request, config, world, table, by_hosts: as of `Lookup`.
      given: the embeddings' gradient, float32 or float16; or, float32 [u, D], what the gradient's values are given.
      saved: the lookup's `Saved`. layout: of its embeddings.
      counts: int64, as `Lookup.leave_counts` was given them, one after the other; nothing where nothing was exchanged.
      state: as of `Lookup`.
    """

    def __init__(self, request: Any, config: Any, world: Any, saved: Any, layout: Layout, counts: np.ndarray) -> None:
        self.request, self.config, self.world, self.table = request, config, world, config.table
        self.given, self.saved, self.layout, self.counts = request.inputs[0], saved, layout, counts
        self.by_hosts = self.table.placement.by_hosts(world)
        self.state: Any = None

    def sent_and_received(self, exchange: int = 0) -> Tuple[np.ndarray, np.ndarray]:
        """Of an all2all lookup: (keys that it has sent to each rank, that each has sent to it), int64 [N] each.

        Args:
          exchange: by hosts, 0: inside its own; 1: across hosts.
        """
        ranks = self.world.size
        begin = 2 * ranks * exchange
        return self.counts[begin:begin + ranks].copy(), self.counts[begin + ranks:begin + 2 * ranks].copy()


def row_bytes(table: Table, dtype: str) -> int:
    """Bytes of a row as it travels."""
    return table.dim * ITEM_BYTES[dtype]
