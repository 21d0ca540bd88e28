"""What `pip install -e` installs as _sok1x_checkout: finds sok1x in its checkout. Run at every start of Python.

A script beside the checkout's folder, or one that is started there, has on its path a folder named sok1x that is no
package. Python takes that for a namespace package before it asks any finder that comes after its own. So this one
comes first; it steps back if the path has a real package of that name, such as another checkout in PYTHONPATH.
"""
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location

INNER = ("graph_ops", "cuda_kernels", "launch")


class Finder:
    """For sys.meta_path: sok1x and its inner packages in the checkout at `root`."""

    def __init__(self, root):
        self.folders = {"sok1x": os.path.join(root, "sok1x")}
        self.folders.update({"sok1x." + name: os.path.join(root, name) for name in INNER})

    def find_spec(self, name, path=None, target=None):
        """A package's spec; None for what is left to the other finders."""
        folder = self.folders.get(name)
        # The inner packages are this checkout's only if the outer one is.
        if folder is None or (path is not None and self.folders["sok1x"] not in path):
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.has_location:
            return found
        init = os.path.join(folder, "__init__.py")
        if not os.path.exists(init):
            return found
        return spec_from_file_location(name, init, submodule_search_locations=[folder])


def install(root):
    """Puts the finder before all others."""
    sys.meta_path.insert(0, Finder(root))
