"""What is committed: links stay in the tree, any folders of tests can be run together, and lines are short."""
import collections
import os
import re
import subprocess

import pytest
import tensorflow2_skips

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def committed():
    """The paths that git knows, from the tree's top."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            universal_newlines=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    return [name for name in listed.stdout.split("\0") if name and os.path.lexists(os.path.join(ROOT, name))]


def test_links_lead_to_something_in_the_tree(committed):
    """A program that reads every file by its path hangs on a link to a device, and reads what is not ours."""
    links = {name: os.readlink(os.path.join(ROOT, name)) for name in committed
             if os.path.islink(os.path.join(ROOT, name))}
    assert set(links) == {"sok1x/graph_ops", "sok1x/cuda_kernels", "sok1x/launch"}
    for name, target in links.items():
        real = os.path.realpath(os.path.join(ROOT, name))
        assert not os.path.isabs(target) and os.path.exists(real), name
        assert real.startswith(os.path.realpath(ROOT) + os.sep), name


def test_what_is_committed_is_few_and_plain_files(committed):
    assert all(os.path.isfile(os.path.join(ROOT, name)) for name in committed
               if not os.path.islink(os.path.join(ROOT, name)))
    kept = [name for name in committed if name.startswith("tests/attacks/") and not name.endswith(".py")]
    assert len(kept) <= 13, "attacks are made when the tests run"


def test_helpers_of_tests_have_names_of_their_own(committed):
    """All folders of tests are on one path: of two files with one name the first would be imported for both."""
    names = collections.Counter(os.path.basename(name) for name in committed
                                if name.startswith("tests/") and name.endswith(".py"))
    assert not [name for name, count in names.items() if count > 1 and name != "conftest.py"]


def test_lists_for_tensorflow_2_name_tests_that_there_are(committed):
    """What is skipped there, what .ci/run runs there and what the smoke test is made of."""
    named = list(tensorflow2_skips.SKIPPED)
    for name in ("ci.txt", "smoke.txt"):
        with open(os.path.join(ROOT, "tests", "on_tensorflow2", name), encoding="utf-8") as file:
            listed = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        assert len(listed) == len(set(listed)) > 0
        named += [line for line in listed if not line.startswith("--")]
    for entry in named:
        file, _, test = entry.replace("--deselect=", "").partition("::")
        assert os.path.exists(os.path.join(ROOT, file)), entry
        if test:
            with open(os.path.join(ROOT, file), encoding="utf-8") as source:
                assert "def {}(".format(test.partition("[")[0]) in source.read(), entry


def test_no_test_imports_a_conftest(committed):
    """There are several, and which of them is meant depends on the folders that pytest was given."""
    for name in committed:
        if name.startswith("tests/") and name.endswith(".py"):
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                assert not re.search(r"^\s*(?:from|import) conftest\b", file.read(), re.MULTILINE), name


def test_lines_of_cpp_and_cuda_have_at_most_120_columns(committed):
    """Of Python's files ruff says so."""
    sources = [name for name in committed if name.endswith((".cc", ".h", ".cu", ".cuh"))]
    assert len(sources) > 100
    long = []
    for name in sources:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            long += [(name, number) for number, line in enumerate(file, 1) if len(line.rstrip("\n")) > 120]
    assert not long
