"""How the op library is compiled, and where it lies: one file for each TensorFlow, named after it.

setup.py loads this file by its path: it imports nothing of the project.
"""
import glob
import os

HERE = os.path.dirname(os.path.abspath(__file__))
# What the library depends on besides the installed TensorFlow, seen from this folder.
PATTERNS = ("*.cc", "*.h", "build_op.py", "../groups/*.cc", "../groups/*.h", "../../cuda_kernels/group_*.h",
            "../../cuda_kernels/host_pages.h")


def library_name(version, abi):
    """The library's file for a TensorFlow: its version, and which of g++'s ABIs it was built with (0: the old one)."""
    # With dots before the suffix Python takes it for no module of its own.
    return "_bridge.tf{}-abi{}.so".format(version, int(abi))


def sources():
    """Every file that the library is made from."""
    return sorted({os.path.normpath(name) for pattern in PATTERNS for name in glob.glob(os.path.join(HERE, pattern))})


def build(output, version, compile_flags, link_flags, recipe, objects, compiler):
    """Compiles the .cc files of this folder, and what groups do in C++, into one op library.

    Args:
      output: the library to write.
      version, compile_flags, link_flags: TensorFlow's `__version__`, `sysconfig.get_compile_flags()` and
        `get_link_flags()`.
      recipe: cuda_kernels/build_host.py as a module.
      objects: a folder in which objects stay for the next build.
      compiler: the C++ compiler's command, a list.

    Raises:
      RuntimeError: the compiler fails; the message has its output.
    """
    # TensorFlow 1.x headers compile as C++17 too, but the library then does not load.
    standard = "c++11" if version.startswith("1.") else "c++17"
    # NDEBUG as in TensorFlow's own build: with it, what counts references to a resource says nothing when it has let
    # the last one go, and without it that is checked when the resource is deleted.
    command = compiler + ["-std=" + standard, "-O2", "-DNDEBUG", "-fPIC", "-pthread"] + compile_flags
    made = recipe.compile_objects(command, [name for name in sources() if name.endswith(".cc")], objects, version)
    recipe.run_all([compiler + ["-shared", "-pthread"] + made + ["-o", output] + link_flags])
