"""The Python side of the bridge: requests, and the tensors behind them as plain pointers.

The two structures below are those of `bridge_request.h`; their sizes are compared when the library is loaded.
"""
import contextlib
import ctypes
import os

import numpy as np

from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, RESOURCE_EXHAUSTED, CallError

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bridge.so")
_MAX_RANK = 8
REQUEST, CANCELLATION, SESSION_END = 1, 2, 3  # what Library.pop has taken

# TensorFlow's DataType numbers (types.proto) for what our ops take and give.
_DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool",
           17: "uint16", 19: "float16", 22: "uint32", 23: "uint64"}
_NUMBERS = {name: number for number, name in _DTYPES.items()}
ITEM_BYTES = {name: np.dtype(name).itemsize for name in _NUMBERS}


class TensorInfo(ctypes.Structure):
    """A tensor: where it is, its type and its shape."""

    _fields_ = [("data", ctypes.c_void_p), ("elements", ctypes.c_int64), ("dims", ctypes.c_int64 * _MAX_RANK),
                ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32)]


class RequestInfo(ctypes.Structure):
    """A request: which op, in which step, with which inputs."""

    _fields_ = [("request", ctypes.c_void_p), ("function", ctypes.c_char_p), ("config", ctypes.c_char_p),
                ("name", ctypes.c_char_p), ("inputs", ctypes.POINTER(TensorInfo)), ("id", ctypes.c_int64),
                ("kernel", ctypes.c_int64), ("step", ctypes.c_int64), ("session", ctypes.c_uint64),
                ("signature", ctypes.c_uint64), ("frame", ctypes.c_uint64), ("iteration", ctypes.c_int64),
                ("stream", ctypes.c_void_p),
                ("input_count", ctypes.c_int32), ("host_input_count", ctypes.c_int32),
                ("resource_count", ctypes.c_int32), ("device_output_count", ctypes.c_int32)]


class Array:
    """A tensor's memory: `pointer` (an int, 0 for no elements), `dtype` (a NumPy name), `shape`, `size`, and `gpu`:
    the `Gpu` in whose memory it lies, None for the host's."""

    __slots__ = ("pointer", "dtype", "shape", "size", "gpu")

    def __init__(self, pointer, dtype, shape, size, gpu=None):
        self.pointer = pointer
        self.dtype = dtype
        self.shape = shape
        self.size = size
        self.gpu = gpu

    def numpy(self):
        """The memory itself as a NumPy array. For counts and other small things in host memory."""
        assert self.gpu is None, "the array is in a GPU's memory"
        if not self.size:
            return np.empty(self.shape, self.dtype)
        memory = (ctypes.c_char * (self.size * ITEM_BYTES[self.dtype])).from_address(self.pointer)
        return np.frombuffer(memory, self.dtype).reshape(self.shape)

    def read(self):
        """A copy as a NumPy array. From a GPU's memory it waits for the stream: for small things, and for errors."""
        if self.gpu is None:
            return self.numpy().copy()
        values = np.empty(self.shape, self.dtype)
        self.gpu.to_host(values.ctypes.data, self.pointer, values.nbytes)
        return values

    def write(self, values):
        """Overwrites the memory with a NumPy array of its dtype and size. For small things too."""
        values = np.ascontiguousarray(values, self.dtype)
        assert values.size == self.size, (values.size, self.size)
        if self.gpu is None:
            self.numpy()[...] = values.reshape(self.shape)
        elif values.size:
            self.gpu.to_device(self.pointer, values.ctypes.data, values.nbytes)


def _array(info, gpu=None):
    rank = info.rank
    return Array(info.data or 0, _DTYPES.get(info.dtype, "other"), tuple(info.dims[:rank]), info.elements, gpu)


class Library:
    """The functions of `_bridge.so`, typed."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        dims = ctypes.POINTER(i64)
        out = ctypes.POINTER(pointer)
        for structure, name in ((TensorInfo, "tensor"), (RequestInfo, "request")):
            bytes_there = getattr(library, "sok1x_{}_info_bytes".format(name))()
            if bytes_there != ctypes.sizeof(structure):
                raise ImportError("sok1x: {} is of another version than bridge.py ({} is {} bytes there, {} here): "
                                  "build it again".format(path, name, bytes_there, ctypes.sizeof(structure)))
        for name, result, arguments in (
                ("open", None, []), ("close", None, [i32, ctypes.c_char_p]), ("wake", None, []),
                ("pop", i32, [i64, i64, ctypes.POINTER(RequestInfo)]), ("begin", None, [pointer] * 3),
                ("lock", i32, [pointer, i32, ctypes.POINTER(TensorInfo)]), ("unlock", None, [pointer]),
                ("initialized", i32, [pointer]),
                ("output", i32, [pointer, i32, i32, dims, out]), ("forward", i32, [pointer, i32, i32]),
                ("temporary", i32, [pointer, i64, out]),
                ("finish", None, [pointer, i32, ctypes.c_char_p])):
            function = getattr(library, "sok1x_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


class Request:
    """One run of one op. Valid until `finish`, which must be called exactly once.

    Attributes:
      inputs, host_inputs: `Array`s in the memory of the op's device, and in the host's.
      gpu: the `Gpu` the op is placed on, None for the CPU. communicator: for exchanges of that device's memory.
      exchange: the number of the decision that has all ranks run it; 0 on one rank.
      plan: the number of its graph's plan (plan.py), None where another process has built the graph.
    """

    def __init__(self, library, info):
        self._library = library
        self._handle = info.request
        self._resources = info.resource_count
        self.id = info.id
        self.kernel = info.kernel
        self.step = info.step
        self.session, self.signature = info.session, info.signature
        self.frame, self.iteration = info.frame, info.iteration
        self.name = info.name.decode()
        self.gpu = None
        self.communicator = None
        self.exchange = 0
        self.plan = None
        on_device = info.input_count - info.host_input_count
        self.inputs = [_array(info.inputs[i]) for i in range(on_device)]
        self.host_inputs = [_array(info.inputs[i]) for i in range(on_device, info.input_count)]
        self._device_outputs = info.device_output_count
        self.state = None  # what an operation's `prepare` leaves for its `run`
        self.finished = False

    def place(self, gpu):
        """Says that the request runs on `gpu`: its stream goes on after what TensorFlow has enqueued until now."""
        self.gpu = gpu
        for array in self.inputs:
            array.gpu = gpu
        self._library.begin(self._handle, gpu.stream, gpu.event)

    def output(self, index, dtype, shape):
        """Output `index`, allocated by TensorFlow on the op's device: an `Array` of `shape`."""
        return self._output(index, dtype, shape, self.gpu)

    def host_output(self, index, dtype, shape):
        """As `output`, for output `index` of those in host memory."""
        return self._output(self._device_outputs + index, dtype, shape, None)

    def _output(self, index, dtype, shape, gpu):
        data = ctypes.c_void_p()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        self._check(self._library.output(self._handle, index, len(shape), dims, ctypes.byref(data)), dtype, shape)
        return self._made(data, dtype, shape, gpu)

    def temporary(self, dtype, *shape):
        """Scratch memory from TensorFlow's allocator, for others again when the request finishes: an `Array`."""
        data = ctypes.c_void_p()
        array = self._made(data, dtype, shape, self.gpu)
        self._check(self._library.temporary(self._handle, array.size * ITEM_BYTES[dtype], ctypes.byref(data)),
                    dtype, shape)
        array.pointer = data.value or 0
        return array

    def forward(self, index, input_index):
        """Makes output `index` the very tensor of input `input_index`, without a copy."""
        self._library.forward(self._handle, index, input_index)

    @contextlib.contextmanager
    def variables(self, table, exclusive):
        """The resource inputs' tensors (`Array`s), locked: shared for reading, `exclusive` for writing in place.

        Raises:
          CallError: FAILED_PRECONDITION where a variable has not been initialized.
        """
        infos = (TensorInfo * max(1, self._resources))()
        code = self._library.lock(self._handle, int(exclusive), infos)
        if code < 0:
            raise self._uninitialized(table)
        if code:
            raise CallError(code, "could not get write access to the variables of embedding table '{}'".format(table))
        try:
            yield [_array(infos[i], self.gpu) for i in range(self._resources)]
        finally:
            self._library.unlock(self._handle)

    def check_initialized(self, table, where=""):
        """Raises as `variables` does where a variable has not been initialized, and locks nothing.

        Args:
          table: a name. where: more words for the message.
        """
        if self._resources and self._library.initialized(self._handle) < 0:
            raise self._uninitialized(table, where)

    @staticmethod
    def _uninitialized(table, where=""):
        return CallError(FAILED_PRECONDITION, (
            "the variables of embedding table '{}' have not been initialized{}: run tf.global_variables_initializer() "
            "in this session, after the op made by sok1x.Init").format(table, where))

    def finish(self, code=0, message=""):
        """Ends the op: successfully, or with a status `code` and `message`."""
        assert not self.finished, "request finished twice"
        self.finished = True
        self.inputs = self.host_inputs = self.state = None
        self._library.finish(self._handle, code, message.encode("utf-8", "replace"))

    @staticmethod
    def _made(data, dtype, shape, gpu):
        size = 1
        for length in shape:
            size *= length
        return Array(data.value or 0, dtype, tuple(shape), size, gpu)

    @staticmethod
    def _check(code, dtype, shape):
        if code:
            raise CallError(code if code > 0 else RESOURCE_EXHAUSTED, (
                "TensorFlow's allocator could not give {} {} values; use a smaller batch, or leave it more memory"
            ).format(list(shape), dtype))
