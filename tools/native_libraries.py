"""The two native libraries of a source tree, built in place where they are out of date.

graph_ops/bridge/_bridge.tf<version>-abi<0 or 1>.so   the TensorFlow op, against the TensorFlow that this Python has
cuda_kernels/_host_kernels.so                         every kernel, for the host: the same for any TensorFlow

How each is compiled says a file beside its sources (graph_ops/bridge/build_op.py, cuda_kernels/build_host.py); when,
and what is kept between builds, this one. setup.py's commands call it (build_commands.py).
"""
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATE = os.path.join(ROOT, "build", "native")

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


def loaded(*parts):
    """A file of the project as a module, by its path: such a file imports nothing of the project when it is loaded."""
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


def compiler():
    """The C++ compiler's command, as a list."""
    try:
        return loaded("cuda_kernels", "native.py").compiler()
    except RuntimeError as error:
        raise BuildError(str(error)) from None


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
    os.makedirs(STATE, exist_ok=True)  # pip asks before it builds
    with open(remembered, "w") as file:
        json.dump(known, file)
    return answer


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


def libraries():
    """The libraries that belong to this source tree and the installed TensorFlow, as paths inside the tree."""
    return {output_of() for output_of, _, _, _, _ in LIBRARIES}


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
            if only in label:
                build_library(output_of, label, make, sources(), with_tensorflow, force)


def build_library(output_of, label, make, files, with_tensorflow, force):
    """Builds one of LIBRARIES, unless it is there and was made from what there is now."""
    if not files:
        print("{}: no sources yet".format(label))
        return
    name = output_of()
    output, mark = path(name), os.path.join(STATE, os.path.basename(name) + ".digest")
    objects = os.path.join(STATE, os.path.basename(name)[1:-len(".so")].replace("host_", ""))
    digest = digest_of(files, with_tensorflow)
    with contextlib.suppress(OSError):
        with open(mark) as file:
            if not force and os.path.exists(output) and file.read() == digest:
                return
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
