"""The README's example runs, its commands exist, and the performance guide has every environment variable."""
import os
import re
import subprocess

import tensorflow2_skips
from ranks import run_ranks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def sources(*folders):
    """The text of every source file in the folders."""
    for folder in folders:
        for place, inside, files in os.walk(os.path.join(ROOT, folder)):
            inside[:] = [name for name in inside if name != "__pycache__"]
            for name in files:
                if name.endswith((".py", ".sh", ".cc", ".cu", ".h", ".cuh")):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        yield file.read()


def test_the_example_trains_on_two_ranks():
    examples = re.findall(r"```python\n(.*?)```", readme(), re.DOTALL)
    assert len(examples) == 1
    assert len([line for line in examples[0].splitlines() if line.strip()]) <= 24
    if tensorflow2_skips.ON_TENSORFLOW_2:  # with the two lines that "From TensorFlow 1.15 to 2" says
        two_lines, = re.findall(r"```text\n(import tensorflow.compat.v1 as tf\n.*?)```", readme(), re.DOTALL)
        assert examples[0].count("import tensorflow as tf\n") == 1
        examples = [examples[0].replace("import tensorflow as tf\n", two_lines)]
    # TensorFlow's own notices about tf.layers are not what is looked for on stderr; and each rank's samples, which the
    # example draws, are the same in every run of this test.
    before = ("import os, numpy, tensorflow\ntensorflow.compat.v1.logging.set_verbosity('ERROR')\n"
              "numpy.random.seed(int(os.environ['OMPI_COMM_WORLD_RANK']))\n")
    # Buffered, each rank's line comes in one piece: unbuffered, print writes its arguments one by one.
    finished = run_ranks(2, before + examples[0], env={"PYTHONUNBUFFERED": ""})
    print(finished.out)
    losses = [float(line.split()[1]) for line in finished.out.splitlines() if line.startswith("loss")]
    # It begins at log(2), a half on each rank; 64 samples are few, so only the sum tells.
    assert len(losses) == 2 and sum(losses) < 0.6


def test_targets_exist():
    text = readme()
    named = set(re.findall(r"`make ([a-z-]+)`", text)) | set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    assert {"demo", "test"} <= named
    with open(os.path.join(ROOT, "Makefile")) as file:
        assert named <= set(re.findall(r"^([a-z-]+):", file.read(), re.MULTILINE))


def test_every_environment_variable_is_in_the_table():
    with open(os.path.join(ROOT, "docs", "performance.md"), encoding="utf-8") as file:
        page = file.read()
    rows = page[page.index("## Environment variables"):]
    table = set(re.findall(r"^\| `(\w+)`", rows, re.MULTILINE))
    used = set()
    for text in sources("sok1x", "graph_ops", "cuda_kernels", "launch", "tools", "tests"):
        used |= set(re.findall(r"""(?:environ(?:\.get|\.setdefault)?[(\[]|_seconds\(|\$\{)["']?(SOK1X_\w+)""", text))
    used |= {"SOK1X_NUM_THREADS"}
    assert used <= table
    everything = "\n".join(sources(".ci", "tools", "launch", "graph_ops", "cuda_kernels", "sok1x", "tests"))
    with open(os.path.join(ROOT, "setup.py")) as file:
        everything += file.read()
    assert not [name for name in table if name not in everything]


def test_no_path_of_a_machine_is_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, universal_newlines=True)
    if listed.returncode:
        return  # not a checkout
    names = [name for name in listed.stdout.split("\0") if name]
    assert not [name for name in names if name.startswith((".venv", ".data", "build/")) or name.endswith(".so")]
