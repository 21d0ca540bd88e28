"""What setup.py adds to setuptools' commands: the native libraries, wheels for this platform, and our finder.

`python setup.py build_native` builds the libraries alone; `pip install --no-build-isolation .` and
`pip install --no-build-isolation -e .` build them on their way. `python setup.py source_wheel` makes a wheel that has
neither: what it installs compiles them for the TensorFlow that it finds (cuda_kernels/native.py).
"""
import glob
import os
import shutil

from native_libraries import ROOT, build_native, libraries, path
from setuptools import Command, Distribution
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from setuptools.command.editable_wheel import editable_wheel
from wheel.bdist_wheel import bdist_wheel
from wheel.wheelfile import WheelFile


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
        built = libraries() if self.distribution.with_libraries else set()
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


COMMANDS = {"build_native": BuildNative, "build_py": BuildPy, "develop": Develop, "editable_wheel": EditableWheel,
            "bdist_wheel": PlatformWheel, "source_wheel": SourceWheel}
