"""The files that start jobs on several machines: their syntax, and what the Slurm script runs."""
import os
import re
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MACHINES = os.path.join(ROOT, "legacy_examples", "machines")


def read(name):
    with open(os.path.join(MACHINES, name)) as file:
        return file.read()


def test_hostfile():
    lines = [line for line in read("hostfile").splitlines() if not line.startswith("#")]
    assert lines and all(re.match(r"^[\w.-]+ slots=\d+$", line) for line in lines)


def test_the_operators_job():
    job = yaml.safe_load(read("mpijob.yaml"))
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    launcher, worker = (spec["mpiReplicaSpecs"][name]["template"]["spec"] for name in ("Launcher", "Worker"))
    command = launcher["containers"][0]["command"]
    ranks = int(command[command.index("-np") + 1])
    assert ranks == spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == spec["slotsPerWorker"]
    given = {one["name"] for one in launcher["containers"][0]["env"]}
    assert {name for flag, name in zip(command, command[1:]) if flag == "-x"} == given
    assert all(isinstance(one["value"], str) for one in launcher["containers"][0]["env"])
    assert os.path.exists(os.path.join(ROOT, command[command.index(".venv/bin/python") + 1]))
    for pod in (launcher, worker):
        mounted = pod["containers"][0]["volumeMounts"]
        assert {one["name"] for one in mounted} == {one["name"] for one in pod["volumes"]}


@pytest.mark.parametrize("plugins, starts", [("pmix_v4 pmi2", "srun"), ("none pmi2", "mpiexec")])
def test_the_slurm_script(tmp_path, plugins, starts):
    """Run to its last line, with programs in the place of Slurm's and Open MPI's that show what they were asked for."""
    path = os.path.join(MACHINES, "train.sbatch")
    subprocess.run(["bash", "-n", path], check=True)
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", read("train.sbatch"), re.MULTILINE))
    assert int(options["nodes"]) > 1 and options["ntasks-per-node"] == options["gpus-per-node"]
    for name, special in (("srun", 'if [ "$*" = --mpi=list ]; then echo "{}" >&2; exit; fi\n'.format(plugins)),
                          ("mpiexec", "")):
        stub = tmp_path / name
        stub.write_text("#!/bin/sh\n{}echo {} \"$@\"\n".format(special, name))
        stub.chmod(0o755)
    environ = {"PATH": "{}:{}".format(tmp_path, os.environ["PATH"]), "SLURM_SUBMIT_DIR": ROOT, "SLURM_NTASKS": "16",
               "SLURM_CPUS_PER_TASK": "8"}
    out = subprocess.run(["bash", path, "--epochs", "2"], env=environ, stdout=subprocess.PIPE, check=True,
                         universal_newlines=True).stdout
    assert out.startswith(starts + " ")
    assert out.endswith(".venv/bin/python legacy_examples/demo.py --checkpoint_dir {}/saved --epochs 2\n".format(ROOT))
    assert ("-np 16 --map-by slot:PE=8 --bind-to core" if starts == "mpiexec" else "--mpi=pmix") in out
    script, = re.findall(r"legacy_examples/\w+\.py", out)
    with open(os.path.join(ROOT, script)) as file:
        assert '"--checkpoint_dir"' in file.read()
