"""Every `declare` says what the C function takes and gives, on the host and on a GPU, and leaves no function out."""
import copy
import ctypes
import glob
import importlib
import os
import re

import pytest
from c_sources import FOLDER, GPU, HOST, constant, families, functions_of_all

from sok1x import cuda_kernels
from sok1x.cuda_kernels import backend, gpu_compiler, gpu_launch, group_steps, host, scan

DOUBLE, FLOAT, INT32, INT64, POINTER, UINT64 = (
    backend.DOUBLE, backend.FLOAT, backend.INT32, backend.INT64, backend.POINTER, backend.UINT64)


@pytest.fixture(scope="module")
def signatures():
    for path in sorted(glob.glob(os.path.join(FOLDER, "[a-z]*.py"))):
        importlib.import_module("sok1x.cuda_kernels." + os.path.basename(path)[:-3])
    return backend._signatures


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return functions_of_all(str(tmp_path_factory.mktemp("no_headers")))


@pytest.fixture
def undeclared(monkeypatch):
    """{name: (result, arguments)} of the functions that host.py, gpu_launch.py, group_steps.py type by themselves."""
    found = {}

    def function(name, result, arguments):
        found[name] = result, arguments
        return lambda *_: 1

    monkeypatch.setattr(host, "function", function)
    host.set_threads(1)
    host.get_threads()
    gpu_launch.functions()
    group_steps.functions()
    group_steps.device_bytes()
    return found


def shown(types):
    return "({})".format(", ".join("void" if one is None else one.__name__ for one in types))


def disagreements(signatures, sources, undeclared=()):
    """All that the Python side says otherwise than the C side, as lines of text."""
    lines = []
    for name, signature in sorted(signatures.items()):
        forms = [form for form in (HOST, GPU) if name in sources.get((signature.family, form), {})]
        if not forms:
            lines.append("{}: {}.cu has no such function".format(name, signature.family))
        if (signature.threads is None) != (GPU not in forms):
            lines.append("{}: threads={}, and {} GPU form".format(
                name, "None" if signature.threads is None else "...", "a" if GPU in forms else "no"))
        said = [signature.result] + list(signature.arguments)
        for form in forms:
            function = sources[signature.family, form][name]
            is_so = [function.result] + list(function.arguments)
            if said != is_so:
                lines.append("{}: declared {}, on the {} {}".format(name, shown(said), form, shown(is_so)))
    for (family, form), functions in sorted(sources.items()):
        if form == GPU and family not in gpu_compiler.names():
            functions = {}  # never compiled for a GPU
        for name in sorted(functions):
            if name not in undeclared and (name not in signatures or signatures[name].family != family):
                lines.append("{}: in {}.cu for the {}, not declared by {}.py".format(name, family, form, family))
    return lines


def test_every_declaration_is_that_of_its_function(signatures, sources, undeclared):
    assert disagreements(signatures, sources, undeclared) == []
    assert len(signatures) > 60 and len(sources) == 2 * len(families())


def test_functions_typed_by_hand_are_too(signatures, sources, undeclared):
    for name, (result, arguments) in undeclared.items():
        function, = (functions[name] for (_, form), functions in sources.items() if form == HOST and name in functions)
        pointers = [ctypes.c_void_p if kind is ctypes.c_char_p else kind for kind in arguments]
        assert (result, pointers) == (function.result, function.arguments), name
        assert name not in signatures


def test_a_function_is_in_one_file_only(sources):
    for form in (HOST, GPU):
        names = [name for (_, one), functions in sources.items() if one == form for name in functions]
        assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("name, changes, expected", [
    ("lazy_adam", {"arguments": lambda a: a[:-1]}, r"declared \(void, .*c_void_p, c_void_p\), on the host \(void, "),
    ("descend", {"arguments": lambda a: (a[1], a[0]) + a[2:]}, "declared .*c_long, c_void_p, c_void_p"),
    ("divide_double", {"arguments": lambda a: a[:2] + (FLOAT,)}, "c_float.* on the host .*c_double"),
    ("initial_rows", {"arguments": lambda a: (INT64,) + a[1:]}, "c_long, c_ulong.* on the host .*c_ulong, c_ulong"),
    ("find_keys", {"arguments": lambda a: (a[0], INT64) + a[2:]}, "on the GPU .*c_void_p, c_int"),
    ("unique", {"result": lambda _: None}, r"declared \(void, .* on the host \(c_long"),
    ("gather", {"result": lambda _: INT64}, r"declared \(c_long, .* on the host \(void"),
    ("partition", {"threads": lambda _: lambda a: 1}, r"threads=\.\.\., and no GPU form"),
    ("owners", {"threads": lambda _: None}, "threads=None, and a GPU form"),
    ("permute", {"family": lambda _: "sort"}, "sort.cu has no such function"),
])
def test_what_is_declared_wrongly_is_seen(signatures, sources, undeclared, name, changes, expected):
    changed = dict(signatures, **{name: copy.copy(signatures[name])})
    for what, change in changes.items():
        value = getattr(changed[name], what)
        setattr(changed[name], what, change(tuple(value) if what == "arguments" else value))
    lines = disagreements(changed, sources, undeclared)
    assert lines and all(line.startswith(name + ":") for line in lines)
    assert re.search(expected, lines[0]), lines[0]


def test_what_is_not_declared_is_seen(signatures, sources, undeclared):
    fewer = {name: signature for name, signature in signatures.items() if name not in ("remap", "insert")}
    assert disagreements(fewer, sources, undeclared) == [
        "insert: in hash_index.cu for the host, not declared by hash_index.py",
        "remap: in partition.cu for the GPU, not declared by partition.py",
        "remap: in partition.cu for the host, not declared by partition.py"]


def test_functions_that_macros_and_templates_make_are_found(tmp_path):
    (tmp_path / "stubs").mkdir()
    (tmp_path / "twice.cuh").write_text(
        '#include <vector>\n#include "common.cuh"\n#define BOTH(name, T) \\\n'
        "  SOK_KERNEL sok1x_##name##_of_##T(const T* SOK_RESTRICT in, i64, T by, u64*state) { body<T>(in, by); }\n")
    (tmp_path / "twice.cu").write_text(
        '#include "twice.cuh"\n#include <sys/mman.h>\n'
        "template <class T> SOK_DEVICE void body(const T*, T) { if (1) { } }\n"
        "BOTH(scale, float)\nBOTH(scale, double)\n"
        "#ifndef __CUDACC__\n// SOK_EXPORT void sok1x_in_a_comment(i64 n) {}\n"
        "SOK_EXPORT const char* sok1x_words(volatile i32 n,\n   unsigned long long at, i32 counts[4]*) { }\n#endif\n")
    found = functions_of_all(str(tmp_path / "stubs"), str(tmp_path))
    assert sorted(found["twice", GPU]) == ["scale_of_double", "scale_of_float"]
    assert sorted(found["twice", HOST]) == ["scale_of_double", "scale_of_float", "words"]
    for form in (HOST, GPU):
        scale = found["twice", form]["scale_of_double"]
        assert (scale.result, scale.arguments) == (None, [POINTER, INT64, DOUBLE, POINTER])
        assert scale.body == "{ body<double>(in, by); }"
    words = found["twice", HOST]["words"]
    assert (words.result, words.arguments) == (POINTER, [INT32, UINT64, POINTER])


@pytest.mark.parametrize("line", ["SOK_EXPORT void sok1x_one(bool yes) { }", "SOK_EXPORT void one(i64 n) { }",
                                  'extern "C" void sok1x_one(i64 n) { }', "SOK_EXPORT void sok1x_one(u32 n) { }"])
def test_what_is_not_understood_is_not_passed_over(tmp_path, line):
    (tmp_path / "odd.cu").write_text('#include "common.cuh"\n{}\n'.format(line))
    (tmp_path / "stubs").mkdir()
    with pytest.raises(ValueError, match="not understood|no ctypes type"):
        functions_of_all(str(tmp_path / "stubs"), str(tmp_path))


def test_the_map_names_every_file_and_no_other():
    text = cuda_kernels.__doc__
    named = set(re.findall(r"^    (\w+) ", text, re.MULTILINE))
    files = sorted(os.listdir(FOLDER))
    assert named == {file.split(".")[0] for file in files if file.endswith((".py", ".cu"))} - {"__init__"}
    assert set(re.findall(r"\w+\.(?:cuh|h)\b", text)) == {file for file in files if file.endswith((".cuh", ".h"))}


def test_threads_are_counted_from_numbers(signatures):
    for name, signature in signatures.items():
        if signature.threads is not None:
            # What is no whole number cannot be counted with.
            arguments = tuple(1000 if kind in (INT32, INT64) else object() for kind in signature.arguments)
            assert int(signature.threads(arguments)) > 0, name
            assert signature.block % 32 == 0, name


def test_scans_have_whole_tiles(signatures, sources):
    scans = [name for (_, form), functions in sources.items() if form == GPU
             for name, function in functions.items() if "scan_items(" in function.body]
    assert len(scans) > 4
    for name in scans:
        signature = signatures[name]
        assert signature.exact and signature.block == constant("scan.cuh", "SCAN_BLOCK"), name
        for n in (1, 2047, 2049):
            arguments = tuple(n if kind in (INT32, INT64) else object() for kind in signature.arguments)
            assert signature.threads(arguments) % signature.block == 0, (name, n)
    block, tile = constant("scan.cuh", "SCAN_BLOCK"), constant("scan.cuh", "SCAN_TILE")
    assert [scan.threads(n) for n in (0, 1, tile, tile + 1)] == [0, block, block, 2 * block]


def test_sorts_have_whole_tiles(signatures):
    for name in ("sort_count", "sort_place"):
        assert signatures[name].exact and signatures[name].block == constant("sort.cu", "SORT_BLOCK"), name
