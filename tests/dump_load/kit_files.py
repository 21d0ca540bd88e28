"""SOK 2.x's files, read and written as their description has it, with nothing of sok1x's."""
import os
import string
import struct

import numpy as np

NUMBERS = {"int32": 0, "int64": 1, "uint32": 2, "uint64": 3, "float16": 4, "float32": 5, "float64": 6}
NAMES = {number: name for name, number in NUMBERS.items()}


def stem(name):
    return "".join("_" if letter in string.punctuation else letter for letter in name)


def head(table, kind, slot, dtype):
    return table.rjust(256).encode() + struct.pack(">I", kind) + slot.rjust(32).encode() + struct.pack(
        ">I", NUMBERS[dtype])


class Table:
    """keys [n], values [n, D], and slots {slot: [n, D]} of an optimizer, in one order."""

    def __init__(self, name, keys, values, optimizer="None", slots=None):
        self.name, self.keys, self.values, self.optimizer = name, keys, values, optimizer
        self.slots = slots or {}

    def by_key(self):
        """{"": values, slot: its values} in the order of keys; the keys must be all different."""
        order = np.argsort(self.keys, kind="stable")
        assert (np.diff(self.keys[order].astype(np.int64)) > 0).all()
        return {name: values[order] for name, values in dict(self.slots, **{"": self.values}).items()}


def meta(tables, key_dtypes=None):
    n = len(tables)
    kinds = key_dtypes or [table.keys.dtype.name for table in tables]
    return struct.pack(">I", n) + b"".join(
        [struct.pack(">I", NUMBERS[kind]) for kind in kinds]
        + [struct.pack(">I", NUMBERS[table.values.dtype.name]) for table in tables]
        + [struct.pack(">I", table.values.shape[1]) for table in tables]
        + [struct.pack(">Q", len(table.keys)) for table in tables]
        + [table.name.rjust(256).encode() for table in tables]
        + [table.optimizer.rjust(32).encode() for table in tables])


def files(table):
    """{name of a file: its bytes}"""
    def data(values):
        return values.astype(values.dtype.newbyteorder("<")).tobytes()

    found = {table.name + "-key": head(table.name, 0, "", table.keys.dtype.name) + data(table.keys),
             table.name + "-weight": head(table.name, 1, "", table.values.dtype.name) + data(table.values)}
    for slot, values in table.slots.items():
        found["{}-{}-{}".format(table.name, table.optimizer, slot)] = head(
            table.name, 2, slot, values.dtype.name) + data(values)
    return found


def write(folder, tables):
    os.makedirs(folder, exist_ok=True)
    everything = dict(meta_info=meta(tables))
    for table in tables:
        everything.update(files(table))
    for name, data in everything.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def read(folder):
    """{table: Table}, of a dump; whatever is not as described is an error."""
    with open(os.path.join(folder, "meta_info"), "rb") as file:
        data = file.read()
    n, = struct.unpack(">I", data[:4])
    place, columns = 4, []
    for width in (4, 4, 4, 8, 256, 32):
        columns.append([data[place + i * width:place + (i + 1) * width] for i in range(n)])
        place += n * width
    assert place == len(data)
    found, used = {}, {"meta_info"}
    for key_dtype, dtype, dim, rows, name, optimizer in zip(*columns):
        name, optimizer = name.decode().lstrip(" "), optimizer.decode().lstrip(" ")
        dim, rows = int.from_bytes(dim, "big"), int.from_bytes(rows, "big")
        kinds = [NAMES[int.from_bytes(number, "big")] for number in (key_dtype, dtype)]
        table = Table(name, _values(folder, name + "-key", name, 0, "", kinds[0], rows, None),
                      _values(folder, name + "-weight", name, 1, "", kinds[1], rows, dim), optimizer)
        used.update([name + "-key", name + "-weight"])
        start = "{}-{}-".format(name, optimizer)
        for file in os.listdir(folder):
            if file.startswith(start):
                slot = file[len(start):]
                table.slots[slot] = _values(folder, file, name, 2, slot, "float32", rows, dim)
                used.add(file)
        found[name] = table
    assert used == set(os.listdir(folder)), (used, os.listdir(folder))
    return found


def _values(folder, file, table, kind, slot, dtype, rows, dim):
    with open(os.path.join(folder, file), "rb") as opened:
        data = opened.read()
    assert data[:296] == head(table, kind, slot, dtype), (file, data[:296])
    values = np.frombuffer(data[296:], np.dtype(dtype).newbyteorder("<"))
    return values.reshape([rows] if dim is None else [rows, dim])
