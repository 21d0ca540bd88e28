#!/usr/bin/env python3
"""gpu_images.py LIBRARY ARCHITECTURE FOLDER: compiles the PTX inside a shared library for one GPU.

TensorFlow's wheel has machine code for five GPUs and PTX, which the driver compiles for any newer one when it needs
it: some seconds for each kind of operation, a minute for some. Here ptxas compiles it, for `sm_90` say, and the result
takes the place of all six images: the library starts at once on that GPU, runs on no other, and packs into a third.
What only tools read (symbols, debugging sections) goes too, and so does code that would be linked at run time, for
TensorFlow's own copy of NCCL.

The library is changed in place; every byte that is loaded stays where it was. FOLDER keeps what has been compiled, so
that a second call goes on where one was ended. Needs CUDA's ptxas and fatbinary in PATH, of a release that the GPU
machine's driver knows.

JOBS           how many at a time (as many as there are CPUs)
SECONDS_LEFT   after so many seconds nothing more is compiled (unset: all is); the rest stays PTX, as does what ptxas
               refuses. Special functions, images and sounds come last.

Format of the images: of a group's header as in CUDA's fatbinary_section.h, of an image's by experiment. PTX is a raw
LZ4 block: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
"""
import concurrent.futures
import hashlib
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from collections import Counter

GROUP = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes that follow
MAGIC = 0xBA55ED50
PTX = 1
COMPRESSED = 0x2000
# Marks in kernels' names of what models with embeddings hardly use
SELDOM = re.compile(rb"gamma|bessel|betainc|Depthwise|TensorContraction|Pool|[Nn][Mm][Ss]|Bincount|scan_kernel|rnn_ops"
                    rb"|scalar_(?:zeta|polygamma|ndtri|erfinv|atan2|acosh)|linalg|Solve|FFT|fft|resize|crop|Depth")


def sections(library):
    """{name: (offset, bytes)} of a 64-bit ELF file."""
    start, = struct.unpack_from("<Q", library, 0x28)
    size, count, names = struct.unpack_from("<HHH", library, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", library, start + i * size) for i in range(count)]
    found = {}
    for name, _, _, _, offset, length in headers:
        begin = headers[names][4] + name
        found[library[begin:library.find(b"\0", begin)].decode()] = offset, length
    return found


def groups(library, begin, end):
    """(offset, bytes) of each group of images for one module, its header included."""
    while True:
        begin = library.find(struct.pack("<I", MAGIC), begin, end)
        if begin < 0:
            return
        _, version, header, length = GROUP.unpack_from(library, begin)
        if version == 1 and header == GROUP.size and begin + header + length <= end:
            yield begin, header + length
            begin += header + length
        else:
            begin += 4


def images(library, begin, length):
    """(kind, flags, stored bytes, bytes when expanded) of each image of a group."""
    at, end = begin + GROUP.size, begin + length
    while at < end:
        kind, _, header, padded = struct.unpack_from("<HHIQ", library, at)
        packed, = struct.unpack_from("<I", library, at + 16)
        flags, = struct.unpack_from("<Q", library, at + 40)
        expanded, = struct.unpack_from("<Q", library, at + 56)
        data = at + header
        yield kind, flags, library[data:data + (packed if flags & COMPRESSED else padded)], expanded
        at = data + padded


def expand(block, length):
    """The bytes of a raw LZ4 block, `length` of them."""
    out = bytearray()
    at = 0

    def count(nibble):
        nonlocal at
        if nibble < 15:
            return nibble
        while True:
            more = block[at]
            at += 1
            nibble += more
            if more < 255:
                return nibble

    while at < len(block):
        token = block[at]
        at += 1
        literals = count(token >> 4)
        out += block[at:at + literals]
        at += literals
        if at >= len(block):
            break
        distance = block[at] | block[at + 1] << 8
        at += 2
        copied = count(token & 15) + 4
        start = len(out) - distance
        if distance >= copied:
            out += out[start:start + copied]
        else:
            out += (bytes(out[start:]) * (copied // distance + 1))[:copied]
    if len(out) != length:
        raise ValueError("got {} bytes of PTX, expected {}".format(len(out), length))
    return bytes(out)


class Compiler:
    """Compiles PTX for one architecture into files of a folder."""

    def __init__(self, architecture, folder, deadline):
        self.architecture, self.folder, self.deadline = architecture, folder, deadline

    def path(self, text):
        """Where the group of images that is made from some PTX is kept."""
        name = hashlib.sha1(self.architecture.encode() + text).hexdigest()
        return os.path.join(self.folder, name)

    def prepare(self, text):
        """Writes PTX to be compiled; returns its path, and whether it is among what is seldom used."""
        path = self.path(text)
        if not os.path.exists(path + ".fatbin"):
            with open(path + ".ptx", "wb") as out:
                out.write(text)
        return path, any(SELDOM.search(name) for name in re.findall(rb"\.entry (\w+)", text))

    def __call__(self, path):
        """Makes PATH.fatbin of PATH.ptx, if there is time, and if ptxas does not refuse."""
        if os.path.exists(path + ".fatbin") or time.time() > self.deadline:
            return
        done = subprocess.run(["ptxas", "-arch=" + self.architecture, path + ".ptx", "-o", path + ".cubin"],
                              stderr=subprocess.PIPE)
        if done.returncode:
            print("ptxas:", done.stderr.decode()[:300], file=sys.stderr)
            return
        image = "--image3=kind=elf,sm={},file={}.cubin".format(self.architecture[3:], path)
        subprocess.run(["fatbinary", "-64", "--compress-all", "--create", path + ".made", image], check=True)
        os.rename(path + ".made", path + ".fatbin")
        os.remove(path + ".cubin")
        os.remove(path + ".ptx")


def replace(library, compiler, jobs):
    """Compiles every group's PTX and writes it in the group's place. Returns counts of what was done."""
    found = sections(library)
    wanted = []
    done = Counter()
    for name in (".nv_fatbin", ".rodata"):
        begin, length = found[name]
        for at, size in groups(library, begin, begin + length):
            ptx = [image for image in images(library, at, size) if image[0] == PTX]
            if not ptx:
                done["groups without PTX left out"] += 1
                blank(library, at, size)
                continue
            _, flags, stored, expanded = ptx[0]
            text = expand(stored, expanded) if flags & COMPRESSED else stored
            path, seldom = compiler.prepare(text.rstrip(b"\0"))
            wanted.append((seldom, -expanded, path, at, size))
    wanted.sort()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compiler, [path for _, _, path, _, _ in wanted]))
    for _, expanded, path, at, size in wanted:
        made = b""
        if os.path.exists(path + ".fatbin"):
            with open(path + ".fatbin", "rb") as file:
                made = file.read()
        if made and len(made) <= size:
            library[at:at + size] = made + bytes(size - len(made))
            done["compiled"] += 1
            done["bytes of compiled code"] += len(made)
        else:
            only_ptx(library, at, size)
            done["left as PTX"] += 1
            done["bytes of expanded PTX"] -= expanded
    begin, length = found.get("__nv_relfatbin", (0, 0))
    for at, size in groups(library, begin, begin + length):
        blank(library, at, size)
        done["groups to be linked at run time left out"] += 1
    return done


def only_ptx(library, begin, length):
    """Zeros in place of a group's machine code."""
    at, end = begin + GROUP.size, begin + length
    while at < end:
        kind, _, header, padded = struct.unpack_from("<HHIQ", library, at)
        if kind != PTX:
            library[at + header:at + header + padded] = bytes(padded)
        at += header + padded


def blank(library, at, size):
    """Leaves of a group the header of one without images."""
    library[at:at + size] = GROUP.pack(MAGIC, 1, GROUP.size, 0) + bytes(size - GROUP.size)


def cut(path):
    """Drops what no segment loads, which stands last, and the table of sections."""
    with open(path, "r+b") as file:
        head = bytearray(file.read(64))
        segments, = struct.unpack_from("<Q", head, 0x20)
        size, count = struct.unpack_from("<HH", head, 0x36)
        file.seek(segments)
        table = file.read(size * count)
        ends = []
        for number in range(count):
            _, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", table, number * size)
            ends.append(offset + length)
        struct.pack_into("<Q", head, 0x28, 0)
        struct.pack_into("<HH", head, 0x3C, 0, 0)
        file.seek(0)
        file.write(head)
        file.truncate(max(ends))


def main():
    """Changes the library, prints what was done."""
    path, architecture, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    deadline = time.time() + float(os.environ.get("SECONDS_LEFT") or "inf")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as library:
        done = replace(library, Compiler(architecture, os.path.abspath(folder), deadline), jobs)
    cut(path)
    print(", ".join("{} {}".format(number, what) for what, number in sorted(done.items())))


if __name__ == "__main__":
    main()
