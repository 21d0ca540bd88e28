"""Packaging of sok1x, and the build of its two native libraries.

graph_ops/bridge/_bridge.tf<version>-abi<0 or 1>.so   the TensorFlow op, against the TensorFlow that this Python has
cuda_kernels/_host_kernels.so                         every kernel, for the host: the same for any TensorFlow

Both are built in place, beside their sources, and only when something they depend on has changed:
`python setup.py build_native` does that alone; `pip install --no-build-isolation .` and
`pip install --no-build-isolation -e .` do it on their way. `python setup.py source_wheel` makes a wheel that has
neither: what it installs compiles them for the TensorFlow that it finds (cuda_kernels/native.py).
"""
import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from setuptools import Command, Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from setuptools.command.editable_wheel import editable_wheel
from wheel.bdist_wheel import bdist_wheel
from wheel.wheelfile import WheelFile

ROOT = os.path.dirname(os.path.abspath(__file__))
STATE = os.path.join(ROOT, "build", "native")
INNER = ("graph_ops", "cuda_kernels", "launch")

# Asked of a child: importing TensorFlow takes seconds and prints, and only its flags are wanted here.
ASK_TENSORFLOW = """
import json, tensorflow as tf
print("FLAGS" + json.dumps([tf.__version__, int(tf.sysconfig.CXX11_ABI_FLAG), tf.sysconfig.get_compile_flags(),
                            tf.sysconfig.get_link_flags()]))
"""


class BuildError(SystemExit):
    """Ends the build with a message that says what is missing, without a traceback."""


def path(*parts):
    """A path inside the source tree."""
    return os.path.join(ROOT, *parts)


def packages():
    """Every package by its dotted name and the folder that holds its files."""
    found = {}
    for name in ("sok1x",) + INNER:
        for folder, inside, files in os.walk(path(name)):
            # sok1x/graph_ops and its like are links for the source checkout; their targets are walked instead.
            inside[:] = sorted(i for i in inside if not os.path.islink(os.path.join(folder, i)) and i != "__pycache__")
            relative = os.path.relpath(folder, ROOT)
            if "__init__.py" in files:
                dotted = relative.replace(os.sep, ".")
                found[dotted if name == "sok1x" else "sok1x." + dotted] = relative
    return found


def compiler():
    """The C++ compiler's command, as a list."""
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        raise BuildError("sok1x's native libraries need a C++ compiler, and '{}' was not found: install g++ "
                         "(Debian, Ubuntu: apt-get install g++) or name another in CXX.".format(command[0]))
    return command


def tensorflow_flags():
    """Version, ABI, compile flags and link flags of the installed TensorFlow, remembered until it changes."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.origin:
        raise BuildError("sok1x's op is built against the installed TensorFlow, and {} has none: install "
                         "tensorflow==1.15.5 (Python 3.7) or tensorflow==2.15.1 (Python 3.9 to 3.11) first, and pass "
                         "--no-build-isolation to pip.".format(sys.executable))
    key = [found.origin, os.stat(found.origin).st_mtime_ns]
    remembered, known = os.path.join(STATE, "tensorflows.json"), {}
    with contextlib.suppress(OSError, ValueError):
        with open(remembered) as file:
            known = json.load(file)
    if known.get(sys.executable, {}).get("key") == key:
        return known[sys.executable]["answer"]
    child = subprocess.run([sys.executable, "-c", ASK_TENSORFLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True, cwd=os.path.abspath(os.sep))
    answer = [line[5:] for line in child.stdout.splitlines() if line.startswith("FLAGS")]
    if child.returncode or not answer:
        raise BuildError("{} cannot import TensorFlow:\n{}".format(sys.executable, child.stderr))
    answer = json.loads(answer[0])
    known[sys.executable] = {"key": key, "answer": answer}
    with open(remembered, "w") as file:
        json.dump(known, file)
    return answer


def loaded(*parts):
    """A file of the project as a module, by its path: such a file imports nothing of the project."""
    name = "sok1x_" + os.path.splitext(parts[-1])[0]
    spec = importlib.util.spec_from_file_location(name, path(*parts))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recipe():
    """How the kernels are compiled for the host, and C++ into objects."""
    return loaded("cuda_kernels", "build_host.py")


def op_recipe():
    """How the op is compiled."""
    return loaded("graph_ops", "bridge", "build_op.py")


def op_library():
    """The op's library for the installed TensorFlow."""
    version, abi, _, _ = tensorflow_flags()
    return "graph_ops/bridge/" + op_recipe().library_name(version, abi)


def build_op(output, objects):
    """Compiles the op against the installed TensorFlow."""
    version, _, compile_flags, link_flags = tensorflow_flags()
    op_recipe().build(output, version, compile_flags, link_flags, recipe(), objects, compiler())


def build_host_kernels(output, objects):
    """Compiles cuda_kernels/*.cu for the host."""
    compiler()
    recipe().build(output, objects=objects)


def kernels_library():
    """The kernels' library."""
    return "cuda_kernels/_host_kernels.so"


# the output, its name in --only, what makes it, what it is made from, whether TensorFlow is one of those: then there is
# a library for each TensorFlow, and environments in one checkout do not replace each other's
LIBRARIES = (
    (op_library, "bridge", build_op, lambda: op_recipe().sources(), True),
    (kernels_library, "host_kernels", build_host_kernels, lambda: recipe().sources(), False),
)


def digest_of(files, with_tensorflow):
    """What a library was made from: the contents of its sources, this file, the compiler, TensorFlow's flags."""
    digest = hashlib.sha256()
    for name in files + [os.path.abspath(__file__)]:
        with open(name, "rb") as file:
            content = file.read()
        digest.update("{} {}\n".format(os.path.relpath(name, ROOT), len(content)).encode() + content)
    variables = {name: os.environ.get(name) for name in ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")}
    digest.update(json.dumps([variables, tensorflow_flags() if with_tensorflow else None], sort_keys=True).encode())
    return digest.hexdigest()


def build_native(force=False, only=""):
    """Builds what is out of date, or of that what has `only` in its name; one process at a time, each library replaced
    in one step."""
    os.makedirs(STATE, exist_ok=True)
    with open(os.path.join(STATE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for output_of, label, make, sources, with_tensorflow in LIBRARIES:
            if only not in label:
                continue
            files = sources()
            if not files:
                print("{}: no sources yet".format(label))
                continue
            name = output_of()
            output, mark = path(name), os.path.join(STATE, os.path.basename(name) + ".digest")
            objects = os.path.join(STATE, os.path.basename(name)[1:-len(".so")].replace("host_", ""))
            digest = digest_of(files, with_tensorflow)
            with contextlib.suppress(OSError):
                with open(mark) as file:
                    if not force and os.path.exists(output) and file.read() == digest:
                        continue
            print("building {} ...".format(name), flush=True)
            started, partial = time.time(), output[:-len(".so")] + ".partial.so"
            try:
                if force:
                    shutil.rmtree(objects, ignore_errors=True)
                try:
                    make(partial, objects)
                except RuntimeError as error:
                    raise BuildError("{} did not compile: {}".format(name, error)) from None
                # A program that has the old library loaded keeps it: the file is replaced, never written over.
                os.replace(partial, output)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(partial)
            with open(mark, "w") as file:
                file.write(digest)
            print("built {} in {:.1f} s".format(name, time.time() - started), flush=True)


class BuildNative(Command):
    """`python setup.py build_native`."""

    description = "build the TensorFlow op and the host kernels in place, where out of date"
    user_options = [("force", "f", "build even what is up to date"), ("only=", None, "build what has this in its name")]
    boolean_options = ["force"]

    def initialize_options(self):
        """Sets the defaults."""
        self.force, self.only = False, ""

    def finalize_options(self):
        """Has nothing to derive."""

    def run(self):
        """Builds."""
        build_native(bool(self.force), self.only)


class BuildPy(build_py):
    """Builds the native libraries before the packages' files are gathered."""

    def finalize_options(self):
        """Leaves the list of data files to `run`: the libraries may not exist yet."""
        super().finalize_options()
        self.__dict__.pop("data_files", None)

    def run(self):
        """Builds, then gathers into a folder that holds nothing of an earlier build."""
        if self.distribution.with_libraries:
            build_native()
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(os.path.join(self.build_lib, "sok1x"), ignore_errors=True)
        super().run()

    def find_data_files(self, package, src_dir):
        """Without libraries that were built for another TensorFlow, or long ago."""
        built = {op_library(), kernels_library()} if self.distribution.with_libraries else set()
        return [name for name in super().find_data_files(package, src_dir)
                if not name.endswith(".so") or os.path.relpath(os.path.abspath(name), ROOT) in built]


class Develop(develop):
    """`pip install -e` through setuptools' develop command."""

    def run(self):
        """Builds, then links the source tree into site-packages."""
        build_native()
        super().run()


class EditableWheel(editable_wheel):
    """`pip install -e`: setuptools' wheel, with tools/checkout_finder.py in place of its finder."""

    def run(self):
        """Makes the wheel, then puts our finder into it."""
        super().run()
        for name in glob.glob(os.path.join(str(self.dist_dir), "*.whl")):
            self.replace_finder(name)

    def replace_finder(self, name):
        """Writes the wheel `name` anew: its dist-info, the finder, and the .pth that installs it."""
        with WheelFile(name) as wheel:
            kept = {info.filename: wheel.read(info.filename) for info in wheel.infolist()
                    if ".dist-info/" in info.filename and not info.filename.endswith("/RECORD")}
        with open(path("tools", "checkout_finder.py"), "rb") as file:
            kept["_sok1x_checkout.py"] = file.read()
        kept["_sok1x_checkout.pth"] = "import _sok1x_checkout; _sok1x_checkout.install({})\n".format(
            ascii(ROOT)).encode()
        os.remove(name)
        with WheelFile(name, "w") as wheel:
            for filename, content in kept.items():
                wheel.writestr(filename, content)


class PlatformWheel(bdist_wheel):
    """A wheel for this platform and this Python: it carries machine code built against one TensorFlow."""

    def finalize_options(self):
        """Marks the wheel as not pure."""
        super().finalize_options()
        self.root_is_pure = False


class SourceWheel(PlatformWheel):
    """`python setup.py source_wheel`: a wheel for any Python and any TensorFlow, without machine code.

    A wheel can run nothing when it is installed: what is compiled, is when it is first used, or by
    `python -m sok1x.build`.
    """

    description = "make a wheel that compiles the op and the host kernels where it is installed"

    def run(self):
        """Makes it, without a compiler and without TensorFlow."""
        self.distribution.with_libraries = False
        super().run()

    def get_tag(self):
        """Any Python 3 on Linux: python_requires says which."""
        return "py3", "none", "linux_x86_64"


class PlatformDistribution(Distribution):
    """Goes to platlib, like any package with machine code in it."""

    with_libraries = True

    def has_ext_modules(self):
        """There is machine code."""
        return True


def version():
    """The version that the public package states."""
    with contextlib.suppress(OSError):
        with open(path("sok1x", "__init__.py"), encoding="utf-8") as file:
            found = re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE)
            if found:
                return found.group(1)
    return "0.0.0"


def long_description():
    """The README, where there is one."""
    with contextlib.suppress(OSError):
        with open(path("README.md"), encoding="utf-8") as file:
            return file.read()
    return ""


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(
        name="sok1x",
        version=version(),
        description="Model-parallel embedding tables for TensorFlow 1.15 and 2.15, with SparseOperationKit's API",
        long_description=long_description(),
        long_description_content_type="text/markdown",
        license="Apache-2.0",
        classifiers=[
            "Intended Audience :: Developers",
            "License :: OSI Approved :: Apache Software License",
            "Operating System :: POSIX :: Linux",
            "Environment :: GPU :: NVIDIA CUDA",
            "Programming Language :: C++",
            # TensorFlow 1.15 has wheels for 3.7, NVIDIA's for 3.8; 2.15 for 3.9 to 3.11, 2.21 for the later ones.
            "Programming Language :: Python :: 3",
        ] + ["Programming Language :: Python :: 3.{}".format(minor) for minor in range(7, 14)] + [
            "Topic :: Scientific/Engineering :: Artificial Intelligence",
        ],
        python_requires=">=3.7, <3.14",
        # TensorFlow is left to the user: tensorflow, tensorflow-cpu, tensorflow-gpu and nvidia-tensorflow all serve.
        # TensorFlow 1.15 and 2.15 want an older NumPy, which pip would replace by its newest without a word.
        install_requires=["crc32c>=2.3", "numpy<1.19; python_version < '3.8'",
                          "numpy<2; python_version >= '3.8' and python_version < '3.12'",
                          "numpy; python_version >= '3.12'"],
        extras_require={
            "mpi": ["mpi4py>=3.1"],
            "horovod": ["horovod==0.28.1"],
            "gpu": ["pycuda==2022.1; python_version < '3.8'", "pycuda>=2024.1; python_version >= '3.8'"],
            "tensorflow1": ["tensorflow==1.15.5; python_version < '3.8'", "protobuf<3.21; python_version < '3.8'",
                            "h5py<3; python_version < '3.8'"],
            "tensorflow2": ["tensorflow==2.15.1; python_version >= '3.9' and python_version < '3.12'",
                            "tensorflow==2.21.*; python_version >= '3.12'",
                            "tf_keras==2.21.*; python_version >= '3.12'"],
        },
        packages=sorted(packages()),
        package_dir=packages(),
        package_data={"": ["*.cu", "*.cuh", "*.cc", "*.h", "*.so", "py.typed"]},
        exclude_package_data={"": ["*.partial.so"]},
        distclass=PlatformDistribution,
        cmdclass={"build_native": BuildNative, "build_py": BuildPy, "develop": Develop,
                  "editable_wheel": EditableWheel, "bdist_wheel": PlatformWheel, "source_wheel": SourceWheel},
        zip_safe=False,
    )
