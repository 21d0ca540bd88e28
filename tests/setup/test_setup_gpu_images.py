"""tools/gpu_images.py: what is read out of a library's GPU images, and that a library that was cut still loads."""
import ctypes
import importlib.util
import os
import random
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("gpu_images", os.path.join(ROOT, "tools", "gpu_images.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lengths(count):
    """A count's nibble, and the bytes that follow where it does not fit."""
    if count < 15:
        return count, b""
    whole, rest = divmod(count - 15, 255)
    return 15, b"\xff" * whole + bytes([rest])


def sequences(draw):
    """A raw LZ4 block and what it expands to, one byte after the other."""
    block, out = bytearray(), bytearray()
    for _ in range(draw.randrange(1, 30)):
        literals = bytes(draw.randrange(256) for _ in range(draw.choice((1, 2, 14, 15, 16, 269, 270, 271, 600))))
        out += literals
        distance = draw.randrange(1, len(out) + 1)
        copied = draw.choice((4, 5, 18, 19, 20, 273, 274, 275, 900))
        many, more = lengths(len(literals))
        times, further = lengths(copied - 4)
        block += bytes([many << 4 | times]) + more + literals + struct.pack("<H", distance) + further
        for _ in range(copied):
            out.append(out[-distance])
    literals = bytes(draw.randrange(256) for _ in range(draw.choice((0, 5, 15, 300))))
    many, more = lengths(len(literals))
    return bytes(block + bytes([many << 4]) + more + literals), bytes(out + literals)


def test_expands_lz4(tool, seed):
    draw = random.Random(seed)
    for _ in range(20):
        block, expected = sequences(draw)
        assert tool.expand(block, len(expected)) == expected
        with pytest.raises(ValueError, match="expected {}".format(len(expected) + 1)):
            tool.expand(block, len(expected) + 1)


def image(kind, flags, stored, expanded):
    """An image as a library has it: a header of 64 bytes, and data padded to 8."""
    padded = stored + bytes(-len(stored) % 8)
    return struct.pack("<HHIQIIIIQQQQ", kind, 0x101, 64, len(padded), len(stored), 0, 0, 80, 0, flags, 0,
                       expanded) + padded


def test_finds_the_images_of_each_group(tool, seed):
    draw = random.Random(seed)
    block, text = sequences(draw)
    plain = bytes(draw.randrange(256) for _ in range(48))
    first = image(2, 0x11, plain, 0) + image(tool.PTX, tool.COMPRESSED | 0x11, block, len(text))
    second = image(tool.PTX, 0x11, plain, 0)
    library = bytearray(b"\0" * 24)
    for body in (first, second):
        library += tool.GROUP.pack(tool.MAGIC, 1, tool.GROUP.size, len(body)) + body + bytes(8)
    found = list(tool.groups(library, 0, len(library)))
    assert found == [(24, 16 + len(first)), (24 + 16 + len(first) + 8, 16 + len(second))]
    assert list(tool.images(library, *found[0])) == [
        (2, 0x11, plain, 0), (tool.PTX, tool.COMPRESSED | 0x11, block, len(text))]
    assert list(tool.images(library, *found[1])) == [(tool.PTX, 0x11, plain, 0)]
    tool.only_ptx(library, *found[0])
    assert list(tool.images(library, *found[0])) == [
        (2, 0x11, bytes(48), 0), (tool.PTX, tool.COMPRESSED | 0x11, block, len(text))]
    tool.blank(library, *found[1])
    assert list(tool.groups(library, 0, len(library))) == [found[0], (found[1][0], 16)]


def test_a_library_that_was_cut_is_shorter_and_loads(tool, tmp_path):
    source, library = str(tmp_path / "answer.c"), str(tmp_path / "answer.so")
    with open(source, "w") as file:
        file.write("static int counted = 40;\nint answer(int more) { return counted + more; }\n")
    subprocess.run([os.environ.get("CC", "gcc"), "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    before = os.path.getsize(library)
    with open(library, "rb") as file:
        assert ".debug_info" in tool.sections(file.read())
    tool.cut(library)
    assert os.path.getsize(library) < before
    assert ctypes.CDLL(library).answer(2) == 42
