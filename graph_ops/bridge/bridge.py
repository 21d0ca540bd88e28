"""The Python side of the bridge: requests, and the tensors behind them as plain pointers.

The two structures below are those of `bridge_request.h`; their sizes are compared when the library is loaded
(op_functions.py).
"""
import contextlib
import ctypes

from sok1x.cuda_kernels import arrays
from sok1x.cuda_kernels.arrays import ITEM_BYTES, Array
from sok1x.graph_ops.bridge import arena, op_file, timeline
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INTERNAL, RESOURCE_EXHAUSTED, CallError

PATH = op_file.path()
MAX_RANK = 8
REQUEST, CANCELLATION, SESSION_END = 1, 2, 3  # what Library.take has taken
GROUP_HOLDS = 1000  # in place of a status code: bridge_calls.h

# TensorFlow's DataType numbers (types.proto) for what our ops take and give.
_DTYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool",
           17: "uint16", 19: "float16", 22: "uint32", 23: "uint64"}
NUMBERS = {name: number for number, name in _DTYPES.items()}


class TensorInfo(ctypes.Structure):
    """A tensor: where it is, its type and its shape."""

    _fields_ = [("data", ctypes.c_void_p), ("elements", ctypes.c_int64), ("dims", ctypes.c_int64 * MAX_RANK),
                ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32)]


_INFO_BYTES = ctypes.sizeof(TensorInfo)


class RequestInfo(ctypes.Structure):
    """A request: which op, in which step, with which inputs."""

    _fields_ = [("request", ctypes.c_void_p), ("function", ctypes.c_char_p), ("config", ctypes.c_char_p),
                ("name", ctypes.c_char_p), ("inputs", ctypes.c_void_p), ("id", ctypes.c_int64),
                ("kernel", ctypes.c_int64), ("step", ctypes.c_int64), ("session", ctypes.c_uint64),
                ("signature", ctypes.c_uint64), ("frame", ctypes.c_uint64), ("iteration", ctypes.c_int64),
                ("stream", ctypes.c_void_p), ("needs_rows", ctypes.c_int64),
                ("input_count", ctypes.c_int32), ("host_input_count", ctypes.c_int32),
                ("resource_count", ctypes.c_int32), ("device_output_count", ctypes.c_int32),
                ("grown", ctypes.c_int32)]


def array(info, gpu=None):
    """The `Array` of a `TensorInfo`."""
    rank = info.rank
    return Array(info.data or 0, _DTYPES.get(info.dtype, "other"), tuple(info.dims[:rank]), info.elements, gpu)


class Request:
    """One run of one op. Valid until `finish`, which must be called exactly once.

    Args:
      row: the fields of its `RequestInfo`, in order (bulk.py: `Intake.rows`).

    Attributes:
      input_count: those in the host's memory included. host_input_count, device_output_count, resource_count.
      needs_rows: where its group in C++ has left it because its table has no rows for new keys, how many it would have
        with them; else 0. No other group need try.
      grown: whether it has come once before, and its table has got rows for it (`come_again`).
      gpu: the `Gpu` the op is placed on, None for the CPU. communicator: for exchanges of that device's memory.
      exchange: the number of the decision that has all ranks run it; 0 on one rank.
      plan: the number of its graph's plan (plan.py), None where another process has built the graph.
    """

    # What a request begins with; here, because there are many of them.
    gpu = communicator = plan = None
    exchange = 0
    state = None  # what an operation's `prepare` leaves for its `run`
    finished = _begun = False
    again = False  # whether a group has begun with it, and left it to its operation
    _arena = _inputs = _host_inputs = None

    def __init__(self, library, row):
        self.library, self._row = library, row
        (self.handle, self._function_at, self._config_at, self._name_at, self._inputs_at, self.id, self.kernel,
         self.step, self.session, self.signature, self.frame, self.iteration, self.stream, self.needs_rows,
         self.input_count, self.host_input_count, self.resource_count, self.device_output_count, self.grown) = row

    def come(self, stamp, last=-1):
        """Notes on the timeline, while it is on, that it has come to `stamp`: timeline.py."""
        if timeline.on:
            self.library.timeline_stamp(self.handle, stamp, last)

    @property
    def name(self):
        """The op's."""
        return ctypes.string_at(self._name_at).decode()

    @property
    def function(self):
        """Its operation's name."""
        return ctypes.string_at(self._function_at).decode()

    @property
    def config(self):
        """Its operation's config, as configs.py writes it."""
        return ctypes.string_at(self._config_at).decode()

    @property
    def inputs(self):
        """The `Array`s in the memory of the op's device."""
        if self._inputs is None:
            on_device = self.input_count - self.host_input_count
            self._inputs = [array(info, self.gpu) for info in self._infos()[:on_device]]
        return self._inputs

    @property
    def host_inputs(self):
        """The `Array`s in the host's memory."""
        if self._host_inputs is None:
            on_device = self.input_count - self.host_input_count
            self._host_inputs = [array(info) for info in self._infos()[on_device:]]
        return self._host_inputs

    def length(self, index):
        """How many elements input `index` has; those in host memory come last."""
        return TensorInfo.from_address(self._inputs_at + index * _INFO_BYTES).elements

    def last_number(self, index):
        """The last of the int64 numbers of host input `index`, 0 of none."""
        info = TensorInfo.from_address(
            self._inputs_at + (self.input_count - self.host_input_count + index) * _INFO_BYTES)
        return ctypes.c_int64.from_address(info.data + 8 * info.elements - 8).value if info.elements else 0

    def _infos(self):
        return (TensorInfo * self.input_count).from_address(self._inputs_at) if self.input_count else []

    def begin(self):
        """Before the first work on a GPU: its stream goes on after what TensorFlow has enqueued until now."""
        if self.gpu is not None and not self._begun:
            self.begun()
            self.library.begin(self.handle, self.gpu.stream, self.gpu.event)

    def begun(self):
        """Notes that the streams have been ordered, by `begin` or by its group."""
        self._begun = True

    def output(self, index, dtype, shape):
        """Output `index`, allocated by TensorFlow on the op's device: an `Array` of `shape`.

        Where its group has asked for it before, it is the same one.
        """
        return self._output(index, dtype, shape, self.gpu)

    def host_output(self, index, dtype, shape):
        """As `output`, for output `index` of those in host memory."""
        return self._output(self.device_output_count + index, dtype, shape, None)

    def _output(self, index, dtype, shape, gpu):
        data = ctypes.c_void_p()
        dims = (ctypes.c_int64 * len(shape))(*shape)
        self._check(self.library.output(self.handle, index, len(shape), dims, ctypes.byref(data)), dtype, shape)
        return self._made(data.value, dtype, shape, gpu)

    def made(self, code, pointer, dtype, shape):
        """The `Array` of an output that a function of C++ has made, or the error for its code."""
        self._check(code, dtype, shape)
        return self._made(pointer, dtype, shape, self.gpu)

    def outputs(self, wanted, wanted_in_host=()):
        """The op's outputs from the first on, in one call: a list of `Array`s.

        Args:
          wanted: (dtype, shape) of each of those on the op's device, of up to 8 dimensions.
          wanted_in_host: likewise, of those in host memory, which come after all others of the op.
        """
        every = list(wanted) + list(wanted_in_host)
        assert not wanted_in_host or len(wanted) == self.device_output_count, "the op has more outputs on its device"
        ranks = (ctypes.c_int32 * len(every))(*[len(shape) for _, shape in every])
        dims, data = (ctypes.c_int64 * (MAX_RANK * len(every)))(), (ctypes.c_void_p * len(every))()
        for number, (_, shape) in enumerate(every):
            dims[MAX_RANK * number:MAX_RANK * number + len(shape)] = shape
        code = self.library.outputs(self.handle, len(every), ranks, dims, data)
        if code:
            raise self._refused(code, "outputs {}".format(
                ", ".join("{} {}".format(list(shape), dtype) for dtype, shape in every)))
        return [self._made(at, dtype, shape, self.gpu if number < len(wanted) else None)
                for number, ((dtype, shape), at) in enumerate(zip(every, data))]

    def temporary(self, dtype, *shape):
        """Scratch memory from TensorFlow's allocator, for others again when the request finishes: an `Array`."""
        size = 1
        for length in shape:
            size *= length
        return Array(self.memory(size * ITEM_BYTES[dtype]), dtype, shape, size, self.gpu)

    def memory(self, nbytes):
        """As `temporary`: a pointer to nbytes bytes."""
        if self.gpu is None:
            return self._block(nbytes)
        if self._arena is None:
            self._arena = arena.Arena(self._block, self.kernel)
        return self._arena.take(nbytes)

    def reserve(self, nbytes):
        """Has a GPU's memory of the next calls of `memory`, nbytes in all, be there: they will not fail."""
        if self.gpu is not None:
            if self._arena is None:
                self._arena = arena.Arena(self._block, self.kernel)
            self._arena.reserve(nbytes)

    def _block(self, nbytes):
        data = ctypes.c_void_p()
        code = self.library.temporary(self.handle, nbytes, ctypes.byref(data))
        if code:
            raise self._refused(code, "{} bytes".format(nbytes))
        return data.value or 0

    def forward(self, index, input_index):
        """Makes output `index` the very tensor of input `input_index`, without a copy."""
        self.library.forward(self.handle, index, input_index)

    @contextlib.contextmanager
    def variables(self, table, exclusive):
        """The resource inputs' tensors (`Array`s), locked: shared for reading, `exclusive` for writing in place.

        Raises:
          CallError: FAILED_PRECONDITION where a variable has not been initialized; INTERNAL where the request is one
            of a group that holds locks: it must unlock first, or a wait could be for ever.
        """
        infos = (TensorInfo * max(1, self.resource_count))()
        code = self.library.lock(self.handle, int(exclusive), infos)
        if code < 0:
            raise self._uninitialized(table)
        if code == GROUP_HOLDS:
            raise self._group_holds()
        if code:
            raise CallError(code, "could not get write access to the variables of embedding table '{}'".format(table))
        try:
            yield [array(infos[i], self.gpu) for i in range(self.resource_count)]
        finally:
            self.library.unlock(self.handle)

    def check_initialized(self, table, where=""):
        """Raises as `variables` does where a variable has not been initialized, and locks nothing.

        Args:
          table: a name. where: more words for the message.
        """
        code = self.library.initialized(self.handle) if self.resource_count else 0
        if code == GROUP_HOLDS:
            raise self._group_holds()
        if code:
            raise self._uninitialized(table, where)

    def _group_holds(self):
        return CallError(INTERNAL, "the group of requests that '{}' is in holds locks".format(self.name))

    @staticmethod
    def _uninitialized(table, where=""):
        return CallError(FAILED_PRECONDITION, (
            "the variables of embedding table '{}' have not been initialized{}: run tf.global_variables_initializer() "
            "in this session, after the op made by sok1x.Init").format(table, where))

    def finish(self, code=0, message=""):
        """Ends the op: successfully, or with a status `code` and `message`."""
        assert not self.finished, "request finished twice"
        self.ended()
        self.library.finish(self.handle, code, message.encode("utf-8", "replace"))

    def come_again(self):
        """Puts the op's run into the queue once more, as another request: its table has got the rows that it lacked."""
        self.ended()
        self.library.push_again(ctypes.byref(RequestInfo(*self._row)))

    def ended(self):
        """Notes that the op has ended, by `finish` or with its group, or is no more this request's."""
        self.finished = True
        if self._arena is not None:
            self._arena.end()
            self._arena = None  # it knows this request: each would keep the other until Python collects garbage
        self._inputs_at = self._inputs = self._host_inputs = self.state = None

    @staticmethod
    def _made(pointer, dtype, shape, gpu):
        return arrays.array(pointer or 0, dtype, tuple(shape), gpu)

    @classmethod
    def _check(cls, code, dtype, shape):
        if code:
            raise cls._refused(code, "{} {} values".format(list(shape), dtype))

    @staticmethod
    def _refused(code, what):
        if code == INTERNAL:  # bridge_calls.h: kOtherShape
            return CallError(code, "an op's output has another shape already than {}".format(what))
        return CallError(code if code > 0 else RESOURCE_EXHAUSTED, (
            "TensorFlow's allocator could not give {}; use a smaller batch, or leave it more memory").format(what))
