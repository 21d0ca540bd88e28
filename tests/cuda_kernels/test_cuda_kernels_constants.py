"""Constants that stand in Python and in C: equal, and each told of the other by a comment `as in FILE`."""
import glob
import importlib
import os
import re

import pytest
from c_sources import FOLDER, constant, enumeration, read, twins, twins_in_other_words

from sok1x.cuda_kernels import backend, group_steps

# (module, Python's name, C's file, C's name)
CONSTANTS = [
    ("adam", "_TEAM_ROWS", "adam_rows.cuh", "kAdamRows"),
    ("backend", "HostCounts._PLACES", "counts.cu", "COUNT_PLACES"),
    ("admission", "ROWS", "admission.cu", "SKETCH_ROWS"),
    ("admission", "RUN", "admission.cu", "RUN"),
    ("bags", "BITS", "group_members.h", "BAG_BITS"),
    ("counts", "GpuCounts._PLACES", "counts.cu", "COUNT_PLACES"),
    ("finite", "_ACCESS_BYTES", "finite.cu", "ACCESS_BYTES"),
    ("gather", "_TEAM_ROWS", "gather.cu", "ROWS"),
    ("host", "MOST_THREADS", "host_threads.h", "kMostThreads"),
    ("cache_rows", "_TEAM_ROWS", "cache_rows.cu", "ROWS"),
    ("cache_rows", "_TEAM_ROWS", "host_group_inserts.cu", "kMovedRows"),
    ("scan", "BLOCK", "scan.cuh", "SCAN_BLOCK"),
    ("scan", "TILE", "scan.cuh", "SCAN_TILE"),
    ("groups", "TILE", "groups.cuh", "GROUP_TILE"),
    ("lowest_scores", "BITS", "lowest_scores.cu", "SCORE_BITS"),
    ("segment_sum", "CHUNK", "segment_sum_terms.cuh", "SEGMENT_CHUNK"),
    ("segment_sum", "SOURCE_BYTES", "segment_sum_gpu.cuh", "SOURCE_BYTES"),
    ("sort", "BITS", "sort.cu", "SORT_BITS"),
    ("sort", "BLOCK", "sort.cu", "SORT_BLOCK"),
    ("sort", "TILE", "sort.cu", "SORT_TILE"),
    ("groups", "TILE", "host_group_device.h", "kTile"),
    ("scan", "TILE", "host_group_device.h", "kScanTile"),
    ("scan", "BLOCK", "host_group_device.h", "kScanBlock"),
    ("sort", "TILE", "host_group_sums.cu", "kSortTile"),
    ("sort", "BLOCK", "host_group_sums.cu", "kSortBlock"),
    ("sort", "BITS", "host_group_sums.cu", "kSortBits"),
    ("segment_sum", "CHUNK", "host_group_device.h", "kChunk"),
]

# (module, Python's dict, C's file, C's enum, what the enum's names have before Python's)
ENUMERATIONS = [
    ("backend", "KEY_TYPES", "common.cuh", "KeyType", "KEY_"),
    ("cache_rows", "HOMES", "cache_rows.cu", "Home", "HOME_"),
    ("row_init", "KINDS", "row_init.cuh", "Distribution", ""),
]

# (module, what stands on both sides and is no constant, C's file): it has a test of its own below.
RULES = [("backend", "row_lanes", "rows.cuh"), ("backend", "row_lanes", "groups.cuh")]


def in_python(module, name):
    value = importlib.import_module("sok1x.cuda_kernels." + module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("module, name, file, c_name", CONSTANTS)
def test_a_constant_is_the_same_in_c(module, name, file, c_name):
    assert in_python(module, name) == constant(file, c_name)


@pytest.mark.parametrize("module, name, file, c_name, prefix", ENUMERATIONS)
def test_names_are_numbered_as_in_c(module, name, file, c_name, prefix):
    assert {prefix + key.upper(): number for key, number in in_python(module, name).items()} == enumeration(
        file, c_name)


def test_kernels_of_steps_are_in_one_order():
    in_c = re.search(r"\benum Kernel {([^}]*)}", read("host_group_device.h")).group(1).replace("\n", "").split(",")
    names = [name.strip().lower() for name in in_c]
    assert names == [name.replace("group_", "") for name in group_steps.KERNELS] + ["kernels"]


@pytest.mark.parametrize("file", ["rows.cuh", "groups.cuh"])
def test_rows_have_as_many_threads_as_in_c(file):
    while_ = re.findall(r"int lanes = 1;\s*while \((.+)\) lanes \*= 2;|i32 lanes = 1;\s*while \((.+)\) lanes \*= 2;",
                        read(file))
    while_ = ["".join(one) for one in while_]
    assert len(while_) == 1
    for dim in list(range(1, 140)) + [300, 1024]:
        lanes = 1
        while eval(while_[0].replace("&&", " and "), {"lanes": lanes, "dim": dim}):
            lanes *= 2
        assert backend.row_lanes(dim) == lanes, dim


def files():
    return sorted(os.path.basename(path) for suffix in ("py", "cu", "cuh", "h")
                  for path in glob.glob(os.path.join(FOLDER, "*." + suffix)))


def test_each_side_says_where_the_other_is():
    said = {(file, other) for file in files() for other in twins(file, read(file))}
    tested = {(entry[0] + ".py", entry[2]) for entry in CONSTANTS + ENUMERATIONS + RULES}
    tested |= {(file, python) for python, file in tested}
    assert sorted(said - tested) == [], "a comment says 'as in FILE', and the tables above have no such pair"
    assert sorted(tested - said) == [], "a comment 'as in FILE' is missing"


def test_there_is_one_form_of_words():
    found = {file: twins_in_other_words(file, read(file)) for file in files()}
    assert {file: words for file, words in found.items() if words} == {}


def test_comments_are_understood():
    text = "x = 1  # as in a.cu\n# Numbers\n# as in\n# b.cuh: these\n// As in\n  // c.py.\nas in d.cc; as indeed.py"
    assert twins("x.py", text) == {"a.cu", "b.cuh"}
    assert twins("x.cu", text) == twins("x.h", text) == {"c.py"}
    for file, text in (("a.cu", "2  // a.py has the same number"), ("adam.cu", "adam.py counts\n// on it"),
                       ("gpu.py", "# as many as counts.cu has"), ("scan.py", "# equal to\n# scan.cuh's"),
                       ("rows.cuh", "// backend.py's row_lanes has the\n// same rule")):
        assert twins_in_other_words(file, text), text
    assert not twins_in_other_words("adam.cu", "// the same as scan.cuh")


def test_constants_of_c_are_understood(monkeypatch):
    monkeypatch.setattr("c_sources.read", lambda name: """
        // #define A 1
        #define A (B * 0x10u)  // comment
        #define B 2ULL
        static const i64 C = (A << 1) - 1;
        const unsigned int D = 5;
        /* const int D = 4; */
        const int TWICE = 1; const int TWICE = 2;""")
    assert [constant("any.cu", name) for name in "ABCD"] == [32, 2, 63, 5]
    for name in ("TWICE", "NONE"):
        with pytest.raises(ValueError, match="any.cu has . definitions of " + name):
            constant("any.cu", name)
