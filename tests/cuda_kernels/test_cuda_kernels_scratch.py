"""What a step of a GPU's takes as scratch is as much as its kernels use: by a stand-in whose kernels do nothing."""
import ctypes

import numpy as np
import pytest

from sok1x.cuda_kernels import group_steps

_P, _I64 = ctypes.c_void_p, ctypes.c_int64
# InsertMember of group_members.h: words of 8 bytes.
_MEMBER = ("index capacity keys n rows used fresh count table dim seed identity kind a b ahead at_least clock stamps "
           "use_used use_frequency use_tick use_known use_unknown use_clock free n_free free_count admitted resets "
           "n_resets").split()
_ROWS_OF_GIVE_ROWS = 7  # its parameter new_rows, int32 [fresh]: the last that lies in the scratch


class _Kernel(ctypes.Structure):  # as in gpu_kernel.h
    _fields_ = [("launch", _P), ("function", _P), ("stream", _P), ("block", _I64), ("most_blocks", _I64),
                ("nbytes", _I64)]


class StandIn:
    """A GPU that notes what is asked for.

    Attributes:
        blocks: (address, bytes) of scratch. rows: where `give_rows` is to leave the new rows' numbers.
    """

    def __init__(self):
        self.blocks, self.rows, self._next = [], None, 1 << 40
        self._launch = ctypes.CFUNCTYPE(ctypes.c_int, _P, *[ctypes.c_uint] * 7, _P, ctypes.POINTER(_P), _P)(self._note)
        self._done = [ctypes.CFUNCTYPE(ctypes.c_int, *types)(lambda *_: 0) for types in (
            [ctypes.c_uint64, _P, ctypes.c_size_t, _P], [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, _P],
            [ctypes.c_uint64, _P, ctypes.c_size_t, _P], [_P], [_P, _P], [_P])]
        self._allocate = group_steps._ALLOCATE(self._take)
        self._ring = np.zeros(1 << 20, np.uint8)
        self._device = group_steps.GroupDevice()
        self._kernels = [_Kernel(ctypes.cast(self._launch, _P), number + 1, None, 256, 4096, 0)
                         for number in range(len(group_steps.KERNELS))]
        for number, kernel in enumerate(self._kernels):
            self._device.kernels[number] = ctypes.addressof(kernel)
        for number, function in enumerate(self._done):
            self._device.driver[number] = ctypes.cast(function, _P).value
        self._device.ring, self._device.half_bytes = self._ring.ctypes.data, self._ring.size // 2
        self._device.landing, self._device.landing_bytes = self._ring.ctypes.data, 1 << 10
        self._device.copied[0] = self._device.copied[1] = 1
        self._work = group_steps.GroupWork(ctypes.addressof(self._device), self._allocate, None)

    def _note(self, function, *arguments):
        if group_steps.KERNELS[function - 1] == "give_rows":
            self.rows = ctypes.cast(arguments[-2][_ROWS_OF_GIVE_ROWS], ctypes.POINTER(ctypes.c_uint64))[0]
        return 0

    def _take(self, _, nbytes):
        self.blocks.append((self._next, nbytes))
        self._next += -(-nbytes // 256) * 256
        return self.blocks[-1][0]

    def insert(self, **values):
        member = np.zeros(len(_MEMBER), np.int64)
        for name, value in values.items():
            member[_MEMBER.index(name)] = value
        return group_steps.steps().insert(ctypes.addressof(self._work), member.ctypes.data, 1)


@pytest.mark.parametrize("dim", [1, 3, 4, 7, 300])
def test_new_rows_of_a_table_that_forgets(dim):
    for fresh in list(range(1, 300)) + [1001, 2047]:
        gpu = StandIn()
        assert gpu.insert(index=4096, capacity=1 << 20, keys=8192, n=2048, rows=8192, fresh=fresh, table=1 << 30,
                          dim=dim, use_used=4096, use_tick=4096, kind=1) == 0
        (address, nbytes), = gpu.blocks
        assert address <= gpu.rows and gpu.rows + 4 * fresh <= address + nbytes, (fresh, dim)
