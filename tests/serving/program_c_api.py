"""Loads an exported model as TensorFlow Serving does: by TensorFlow's C++ loader of SavedModels, without its Python.

program_c_api.py LIBRARY FOLDER FORM...: prints what program_served.py prints of models/FORM/1. LIBRARY has TensorFlow's
C API, release 1.15.
"""
import ctypes
import os
import sys

import numpy as np

# TF_DataType
_DTYPES = {1: np.float32, 3: np.int32, 7: object, 9: np.int64}


class Output(ctypes.Structure):
    """TF_Output."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("deallocator", ctypes.c_void_p)]


def fields(message):
    """(number, value) of a protocol buffer's fields: an int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            yield number, varint()
            continue
        length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
        at += length
        yield number, message[at - length:at]


def mapped(message, number):
    """A map's field: {key: value as bytes}."""
    pairs = [dict(fields(value)) for one, value in fields(message) if one == number]
    return {pair[1].decode(): pair[2] for pair in pairs}


class Model:
    """A loaded model. signatures: {name: ({input: (tensor's name, TF_DataType)}, {output: likewise})}."""

    def __init__(self, library, path):
        self._tf = ctypes.CDLL(library)
        for name in ("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_NewBuffer", "TF_Message",
                     "TF_LoadSessionFromSavedModel", "TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData"):
            getattr(self._tf, name).restype = ctypes.c_char_p if name == "TF_Message" else ctypes.c_void_p
        self._tf.TF_TensorByteSize.restype, self._tf.TF_Dim.restype = ctypes.c_size_t, ctypes.c_int64
        self._status, self._graph = ctypes.c_void_p(self._tf.TF_NewStatus()), ctypes.c_void_p(self._tf.TF_NewGraph())
        meta = ctypes.cast(self._tf.TF_NewBuffer(), ctypes.POINTER(Buffer))
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = ctypes.c_void_p(self._tf.TF_LoadSessionFromSavedModel(
            ctypes.c_void_p(self._tf.TF_NewSessionOptions()), None, path.encode(), tags, 1, self._graph, meta,
            self._status))
        self._check()
        text = ctypes.string_at(meta.contents.data, meta.contents.length)
        self.signatures = {}
        for name, signature in mapped(text, 5).items():
            self.signatures[name] = tuple(
                {one: (dict(fields(info))[1].decode(), dict(fields(info))[2]) for one, info in
                 mapped(signature, number).items()} for number in (1, 2))

    def _check(self):
        if self._tf.TF_GetCode(self._status):
            raise RuntimeError(self._tf.TF_Message(self._status).decode())

    def _output(self, name):
        operation, index = name.split(":")
        found = self._tf.TF_GraphOperationByName(self._graph, operation.encode())
        assert found, name
        return Output(found, int(index))

    def _tensor(self, value, kind):
        value = np.asarray(value)
        if kind == 7:  # where each string begins; then each one's length, below 128, and its bytes
            texts = [text.encode() if isinstance(text, str) else text for text in value.ravel().tolist()]
            assert all(len(text) < 128 for text in texts)
            begins = np.cumsum([0] + [1 + len(text) for text in texts])[:-1].astype(np.uint64)
            data = begins.tobytes() + b"".join(bytes([len(text)]) + text for text in texts)
        else:
            data = np.ascontiguousarray(value, _DTYPES[kind]).tobytes()
        dims = (ctypes.c_int64 * value.ndim)(*value.shape)
        made = ctypes.c_void_p(self._tf.TF_AllocateTensor(kind, dims, value.ndim, ctypes.c_size_t(len(data))))
        ctypes.memmove(self._tf.TF_TensorData(made), data, len(data))
        return made

    def run(self, signature, values):
        """{output: array}."""
        given, wanted = self.signatures[signature]
        inputs = [self._output(name) for name, _ in given.values()]
        tensors = [self._tensor(values[one], kind) for one, (_, kind) in given.items()]
        outputs = [self._output(name) for name, _ in wanted.values()]
        found = (ctypes.c_void_p * len(outputs))()
        self._tf.TF_SessionRun(
            self._session, None, (Output * len(inputs))(*inputs), (ctypes.c_void_p * len(tensors))(*tensors),
            len(inputs), (Output * len(outputs))(*outputs), found, len(outputs), None, 0, None, self._status)
        self._check()
        made = {}
        for (name, (_, kind)), tensor in zip(wanted.items(), map(ctypes.c_void_p, found)):
            shape = [self._tf.TF_Dim(tensor, axis) for axis in range(self._tf.TF_NumDims(tensor))]
            text = ctypes.string_at(self._tf.TF_TensorData(tensor), self._tf.TF_TensorByteSize(tensor))
            made[name] = np.frombuffer(text, _DTYPES[kind]).reshape(shape)
        return made


def main():
    library, folder = sys.argv[1:3]
    values = dict(np.load(os.path.join(folder, "batch.npz"), allow_pickle=True))
    expected = dict(np.load(os.path.join(folder, "predicted.npz")))
    for form in sys.argv[3:]:
        model = Model(library, os.path.join(folder, "models", form, "1"))
        found = model.run("serving_default", values)
        assert set(found) == set(expected), (form, sorted(found))
        for output, value in sorted(found.items()):
            assert value.shape == expected[output].shape and value.dtype == expected[output].dtype, (form, output)
            print(form, output, float(np.abs(value - expected[output]).max()))
    assert not {"tensorflow", "tensorflow_core", "sok1x"} & set(sys.modules)


if __name__ == "__main__":
    main()
