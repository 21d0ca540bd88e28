"""What the figures were measured on and with, and how they are written."""
import json
import os
import platform
import re
import subprocess
import time

OTHER_TENSORFLOWS = ("tensorflow-gpu", "tensorflow-cpu", "nvidia-tensorflow")  # distributions, beside `tensorflow`
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def describe():
    """Hardware, versions, commit and date."""
    return {"date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC", "commit": _commit(),
            "hardware": _hardware(), "versions": _versions()}


def write(report, path):
    """Writes a report, which JSON can have, to a file: whole, or not at all; of where that is the file's name alone."""
    if "name" in report.get("options", {}):
        report["options"]["name"] = os.path.basename(report["options"]["name"])
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        json.dump(report, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(path + ".part", path)


def cpus():
    """The CPUs that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def _hardware():
    text = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    vectors = [name for name in ("avx2", "avx512f") if re.search(r"\b{}\b".format(name), text)]
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return {"processor": model.group(1) if model else platform.processor(), "vector instructions": vectors,
            "cores": len(cpus()), "memory GiB": round(int(memory.group(1)) / 2 ** 20, 1) if memory else None,
            "load before": [round(value, 2) for value in os.getloadavg()]}


def _versions():
    import pkg_resources
    found = {"python": platform.python_version(), "linux": platform.release()}
    for name in ("sok1x", "tensorflow", "numpy", "mpi4py", "horovod") + OTHER_TENSORFLOWS:
        try:
            found[name] = pkg_resources.get_distribution(name).version
        except pkg_resources.DistributionNotFound:
            if name not in OTHER_TENSORFLOWS:
                found[name] = None
    return found


def _commit():
    # What another benchmark has just written to results is no change of what is measured.
    measured = ["graph_ops", "cuda_kernels", "launch", "sok1x", "benchmarks", ":(exclude)benchmarks/results"]
    try:
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, universal_newlines=True).strip()
        changed = subprocess.check_output(["git", "status", "--porcelain", "-uno", "--"] + measured, cwd=ROOT,
                                          universal_newlines=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + (" with local changes" if changed.strip() else "")


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
