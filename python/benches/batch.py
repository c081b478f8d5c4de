"""The driver's batch of copies, for which PyTorch has no call: `cuMemcpyBatchAsync`, of drivers for CUDA 12.8 and later."""

import ctypes

import numpy as np


class Attributes(ctypes.Structure):
    """`CUmemcpyAttributes`: sources are read in the stream's order; hints mean nothing for memory that the driver knows."""

    IN_STREAM_ORDER = 1
    _fields_ = [("source_order", ctypes.c_int), ("hints", ctypes.c_int * 4), ("flags", ctypes.c_uint)]


class Batch:
    """Enqueues many copies by one call. Raises `OSError` or `AttributeError` where there is no such call."""

    def __init__(self, stream):
        driver = ctypes.CDLL("libcuda.so.1")
        self.stream = ctypes.c_void_p(stream)
        self.attributes = Attributes(source_order=Attributes.IN_STREAM_ORDER)
        self.first, self.failed = ctypes.c_size_t(0), ctypes.c_size_t(0)
        # The call of CUDA 13 does not say which copy is wrong.
        self.says_which = not hasattr(driver, "cuMemcpyBatchAsync_v2")
        self.call = driver.cuMemcpyBatchAsync if self.says_which else driver.cuMemcpyBatchAsync_v2
        self.call.restype = ctypes.c_int
        which = [ctypes.c_void_p] if self.says_which else []
        pointers = [ctypes.c_void_p] * 3
        self.call.argtypes = [*pointers, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, *which, ctypes.c_void_p]

    def copy(self, destinations, sources, sizes):
        """Arrays of NumPy's, of 64-bit integers: addresses, addresses, bytes."""
        arrays = [np.ascontiguousarray(array, np.uint64) for array in (destinations, sources, sizes)]
        which = [ctypes.addressof(self.failed)] if self.says_which else []
        code = self.call(
            *(array.ctypes.data for array in arrays),
            len(arrays[0]),
            ctypes.addressof(self.attributes),
            ctypes.addressof(self.first),
            1,
            *which,
            self.stream,
        )
        if code != 0:
            raise RuntimeError(f"cuMemcpyBatchAsync failed with error {code}")
