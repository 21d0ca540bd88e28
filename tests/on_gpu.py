"""Runs a program as one rank of a job on GPUs: `on_gpu.py PROGRAM ARGUMENTS...` or `on_gpu.py -c TEXT ARGUMENTS...`.

Each rank sees one GPU, chosen by its place on the host; where there are more ranks than GPUs, some share one. To be
decided before TensorFlow is imported.
"""
import ctypes
import os
import runpy
import sys


def gpus():
    """The number of GPUs of this host, as the driver tells it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def gpus_of_child():
    """As `gpus`, asked of a child: a process that has initialized CUDA can choose its GPUs no more."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"%d" % gpus())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(read, 16))


def main():
    found = gpus_of_child()
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    if found:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[local % found] if visible != [""] else str(local % found)
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-c":
        text = sys.argv[1]
        sys.argv = ["-c"] + sys.argv[2:]
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
