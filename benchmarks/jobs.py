"""Starts a program of this folder, on one rank or on several, and takes back what it found."""
import json
import os
import signal
import subprocess
import sys
import tempfile

import machine

from sok1x.cuda_kernels import gpu as gpus

HERE = os.path.dirname(os.path.abspath(__file__))


def start(program, given, launcher=(), environment=None, timeout=None):
    """Runs `[launcher] python PROGRAM GIVEN.json FOUND.json` and returns what rank 0 wrote to FOUND.json.

    Args:
        program: a file of this folder. given: what JSON takes. environment: variables besides this process' own.
        timeout: seconds after which the job is ended; None: it may take as long as it likes.

    Raises:
        RuntimeError: it failed, or was not done in time.
    """
    values = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", PYTHONWARNINGS="ignore", **(environment or {}))
    if os.geteuid() == 0:  # as in a container, where Open MPI would refuse
        values.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("given.json", "found.json")]
        with open(paths[0], "w") as file:
            json.dump(given, file)
        job = subprocess.Popen(list(launcher) + [sys.executable, os.path.join(HERE, program)] + paths, env=values,
                               start_new_session=True)
        try:
            code = job.wait(timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError("not done after {} seconds".format(timeout))
        finally:
            if job.poll() is None:
                _end(job)
        if code:
            raise RuntimeError("exit code {}".format(code))
        with open(paths[1]) as file:
            return json.load(file)


def launcher(mpiexec, ranks, threads=0):
    """The command that starts `ranks` ranks, each bound to `threads` CPUs of its own; 0: all may use all."""
    if ranks == 1:
        return []
    bind = ["core", "--map-by", "slot:PE={}".format(threads)] if threads else ["none", "--oversubscribe"]
    return mpiexec.split() + ["-np", str(ranks), "--bind-to"] + bind


def visible_gpus(kind):
    """The GPUs of this machine by the names that CUDA_VISIBLE_DEVICES takes; none for kind 'cpu'."""
    if kind == "cpu":
        return []
    listed = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return listed or [str(number) for number in range(gpus.count())]


def take_gpu(devices):
    """Leaves this rank the one of `devices` that is its own; before TensorFlow or PyCUDA looks for GPUs."""
    if devices:
        local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[local % len(devices)]


def start_ranks(program, options, ranks, devices, **given):
    """`start` of a program that `add_arguments` options are for: with GPUs one a rank, else the CPUs divided.

    Args:
        options: the parsed arguments; the program is given all of them, and besides: `ranks`, `gpus` (devices),
            `threads` (of a rank on CPUs; 0 on GPUs: TensorFlow's own numbers), and what `given` names.
    """
    threads = 0 if devices else max(1, len(machine.cpus()) // ranks)
    environment = {"SOK1X_NUM_THREADS": str(threads)} if threads else {}
    if "SOK1X_ABORT_SECONDS" not in os.environ:
        environment["SOK1X_ABORT_SECONDS"] = "120"
    return start(program, dict(vars(options), ranks=ranks, gpus=devices, threads=threads, **given),
                 launcher(options.mpiexec, ranks, threads if options.bind == "core" else 0), environment,
                 options.timeout)


def add_arguments(parser):
    """Arguments of benchmarks that start ranks, on GPUs or on CPUs."""
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="leave out what has no GPUs here")
    parser.add_argument("--mpiexec", default="mpiexec", help="what starts ranks (Open MPI's)")
    parser.add_argument("--bind", choices=("core", "none"), default="core",
                        help="on CPUs; core: each rank has its own share of them; none: all ranks may use all")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a job is ended")


def complete(options, name, gpu, cpu):
    """Sizes that were not given become those of the device; the file that was not named otherwise, `name`_gpu or _cpu.

    Args:
        gpu, cpu: what an argument whose value is None becomes, by its name.
    """
    kind = "cpu" if options.device == "cpu" or not gpus.count() else "gpu"
    for argument, value in (gpu if kind == "gpu" else cpu).items():
        if getattr(options, argument) is None:
            setattr(options, argument, value)
    if options.name == name:
        options.name = "{}_{}".format(name, kind)
    return options


def possible(ranks, kind, devices):
    """Of these numbers of ranks those that there are GPUs for; on CPUs all. Exits where a GPU is asked for in vain."""
    if kind == "gpu" and not devices:
        sys.exit("PyCUDA finds no GPU; --device cpu measures on the CPU")
    for number in ranks:
        if devices and number > len(devices):
            print("left out, for there are {} GPUs: {} ranks".format(len(devices), number))
    return [number for number in ranks if not devices or number <= len(devices)]


def _end(job):
    # mpiexec, asked to, ends its ranks.
    job.terminate()
    try:
        job.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
