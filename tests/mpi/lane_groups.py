"""What runs without Python, seen from Python: graph_ops/groups/lane.h."""
import ctypes

from sok1x.graph_ops.bridge import bridge, library, op_functions, registry

_WATCHER = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_watchers = []  # which C++ calls as long as the process lives


def watch(saw, answered=lambda: None):
    """Has functions called on the executor's thread, for each group.

    Args:
      saw: (name of the operation, members, how many it has left), when it has run. answered: when it has been answered.
    """
    library.load()

    def watcher(alike, members, left):
        if members:
            saw({1 + number: name for name, number in registry._numbers.items()}[alike], members, left)
        else:
            answered()
    _watchers.append(_WATCHER(watcher))
    op_functions.Library(bridge.PATH).lane_watch(_watchers[-1])


def loaded():
    """The bridge's C functions, as ctypes has them."""
    return op_functions.Library(bridge.PATH).loaded
