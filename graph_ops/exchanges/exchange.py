"""What every exchange does: the way of keys to their rows, of rows to who asked, and of gradients back."""
import abc
from typing import Any

import numpy as np

from sok1x.graph_ops.exchanges.lookup import Gradient, Lookup
from sok1x.graph_ops.exchanges.row_sums import Kept


class Exchange(abc.ABC):
    """One way. It has no state of its own: what a run needs later is in `Lookup.state` and `Gradient.state`.

    Attributes:
      number: tells it from others in what a lookup saves for its gradient.
    """

    number: int

    @abc.abstractmethod
    def prepare(self, lookup: Lookup) -> np.ndarray:
        """What a forward needs no other rank for. Returns the header."""

    @abc.abstractmethod
    def forward(self, lookup: Lookup, headers: np.ndarray) -> None:
        """Fills the embeddings and what is left for the gradient."""

    @abc.abstractmethod
    def prepare_backward(self, back: Gradient) -> None:
        """What a backward needs no other rank for."""

    @abc.abstractmethod
    def backward(self, back: Gradient, headers: np.ndarray) -> None:
        """Fills the outputs of `row_sums.sum_by_row`. headers: of each rank all that its lookup has saved of it."""

    @abc.abstractmethod
    def spread(self, back: Gradient, kept: Kept, headers: np.ndarray, out: Any) -> None:
        """The gradient of `backward`: what its values are given goes the way of the rows.

        Args:
          kept: the rows that the values belong to. out: of the embeddings' dtype and size, filled.
        """
