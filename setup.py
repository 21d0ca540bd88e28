"""Packaging of sok1x: what it is called, what belongs to it, and what it needs.

Building has two files of its own, which a source distribution has too: tools/native_libraries.py (the TensorFlow op and
the host kernels) and tools/build_commands.py (the commands of this file, and pip's).
"""
import contextlib
import os
import re
import sys

from setuptools import setup

# pip runs this file without its folder in the path.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))

from build_commands import COMMANDS, PlatformDistribution
from native_libraries import ROOT, path

INNER = ("graph_ops", "cuda_kernels", "launch")


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
        package_data={"": ["*.cu", "*.cuh", "*.cc", "*.h", "*.so"]},
        exclude_package_data={"": ["*.partial.so"]},
        distclass=PlatformDistribution,
        cmdclass=COMMANDS,
        zip_safe=False,
    )
