"""The functions of the op library, typed."""
import ctypes

from sok1x.graph_ops.bridge.bridge import RequestInfo, TensorInfo


def declare(loaded, *functions):
    """Functions of the op library, typed: {name: function}.

    Args:
      loaded: the library as ctypes has it. functions: of each its name, after 'sok1x_', its result and its arguments.
    """
    found = {}
    for name, result, arguments in functions:
        found[name] = function = getattr(loaded, "sok1x_" + name)
        function.restype, function.argtypes = result, arguments
    return found


class Library:
    """The functions of the op library.

    Attributes:
      loaded: the library as ctypes has it. Others: its functions, named as there, without 'sok1x_'.
    """

    def __init__(self, path):
        library = self.loaded = ctypes.CDLL(path)
        pointer, i64, i32, u64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64
        numbers, dims = ctypes.POINTER(i32), ctypes.POINTER(i64)
        out = ctypes.POINTER(pointer)
        infos = ctypes.POINTER(TensorInfo)
        for structure, name in ((TensorInfo, "tensor"), (RequestInfo, "request")):
            bytes_there = getattr(library, "sok1x_{}_info_bytes".format(name))()
            if bytes_there != ctypes.sizeof(structure):
                raise ImportError("sok1x: {} is of another version than bridge.py ({} is {} bytes there, {} here): "
                                  "build it again".format(path, name, bytes_there, ctypes.sizeof(structure)))
        functions = declare(
            library, ("open", None, []), ("close", None, [i32, ctypes.c_char_p]), ("wake", None, []),
            ("forked", None, [ctypes.c_char_p]),
            ("refused", i64, []), ("alone", None, [i32]),
            ("begin", None, [pointer] * 3), ("push_again", None, [ctypes.POINTER(RequestInfo)]),
            ("inbox_bytes", i32, []),
            ("take", i32, [i64, i64, pointer, i64, i64, ctypes.POINTER(RequestInfo), i32, numbers]),
            ("lane_learn", None, [pointer] + [i64] * 3 + [u64] * 3 + [i64]), ("lane_forget", None, [i64]),
            ("lane_watch", None, [pointer]),
            ("lane_allow", None, [i32]), ("note_distinct", None, [i64] * 4), ("noted_distinct", i32, [i64] * 4),
            ("kept_sums_settle", i32, [pointer]),
            ("lock", i32, [pointer, i32, infos]), ("unlock", None, [pointer]),
            ("has_gpu", i32, [pointer]), ("own_process", None, [ctypes.c_char_p]),
            ("hear_steps", None, [ctypes.c_char_p]), ("steps_of", pointer, [ctypes.c_char_p, u64]),
            ("forget_steps", None, [ctypes.c_char_p]), ("end_steps", None, [u64]),
            ("told_step", None, [pointer, dims]), ("tell_step", None, [pointer, i64, i64]),
            ("initialized", i32, [pointer]), ("all_initialized", i32, [pointer, i32]),
            ("output", i32, [pointer, i32, i32, dims, out]), ("forward", i32, [pointer, i32, i32]),
            ("outputs", i32, [pointer, i32, numbers, dims, out]),
            ("temporary", i32, [pointer, i64, out]),
            ("finish", None, [pointer, i32, ctypes.c_char_p]),
            ("pin", i32, [pointer, i32]), ("pinned_since", i64, [pointer, i32, dims]),
            ("pin_changing", i32, [pointer]), ("changing", None, [dims]), ("quiet_after", i64, [i64]),
            ("moment_of", i64, [i64]),
            # Of groups, called by bulk.py, which passes NumPy arrays by their addresses.
            ("group_open", pointer, [pointer, i32]), ("group_close", None, [pointer]),
            ("group_begin", None, [pointer] * 3), ("group_inputs", None, [pointer, pointer, i32]),
            ("group_lock", i32, [pointer, i32, pointer, i32, pointer]), ("group_unlock", None, [pointer]),
            ("group_outputs", None, [pointer, i32] + [pointer] * 6), ("group_temporary", i32, [pointer, i64, out]),
            ("group_finish", None, [pointer]),
            # Of the timeline: timeline.py.
            ("timeline_record_bytes", i32, []), ("timeline_begin", None, [i64]),
            ("timeline_take", i64, [pointer, i64, dims]), ("timeline_noted", i64, []),
            ("timeline_stamp", None, [pointer, i32, i32]), ("timeline_ready", i64, [pointer]))
        self.__dict__.update(functions)
