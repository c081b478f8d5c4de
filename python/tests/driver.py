"""The driver in software, as an engine beside pagelift calls it: memory, streams, captures and graphs by ctypes, and failures to order.

Its device memory is the host's, so that NumPy sees what launches have done there.
"""

import contextlib
import ctypes
import weakref

import numpy as np

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
LATE, EARLY, RANDOM = range(3)
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700
LIVE = ("contexts", "streams", "events", "graphs", "executables", "device", "host", "registered")

_Handle, _Word, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_CALLS = {
    "cuInit": [ctypes.c_uint],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(_Handle), _Int],
    "cuDevicePrimaryCtxRelease_v2": [_Int],
    "cuCtxSetCurrent": [_Handle],
    "cuCtxSynchronize": [],
    "cuMemAlloc_v2": [ctypes.POINTER(ctypes.c_uint64), _Word],
    "cuMemFree_v2": [ctypes.c_uint64],
    "cuStreamCreate": [ctypes.POINTER(_Handle), ctypes.c_uint],
    "cuStreamDestroy_v2": [_Handle],
    "cuStreamSynchronize": [_Handle],
    "cuStreamIsCapturing": [_Handle, ctypes.POINTER(_Int)],
    "cuThreadExchangeStreamCaptureMode": [ctypes.POINTER(_Int)],
    "cuStreamBeginCapture_v2": [_Handle, _Int],
    "cuStreamEndCapture": [_Handle, ctypes.POINTER(_Handle)],
    "cuGraphInstantiateWithFlags": [ctypes.POINTER(_Handle), _Handle, ctypes.c_uint64],
    "cuGraphLaunch": [_Handle, _Handle],
    "cuGraphExecDestroy": [_Handle],
    "cuGraphDestroy": [_Handle],
}


class DriverFailed(Exception):
    """A call of the test's own has failed."""


class Memory(np.ndarray):
    """An array in the memory of a GPU."""

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__


class Stream:
    """A stream, as `cuda-python` and others have it: destroyed when nobody keeps it any more, as registries do."""

    def __init__(self, driver, handle):
        self.driver, self.handle = driver, handle
        driver.frees(self, "cuStreamDestroy_v2", handle)

    def __cuda_stream__(self):
        return 0, self.handle

    def synchronize(self):
        self.driver.call("cuStreamSynchronize", self.handle)

    @property
    def is_capturing(self):
        state = _Int()
        self.driver.call("cuStreamIsCapturing", self.handle, state)
        return state.value

    def begin(self, mode=THREAD_LOCAL):
        self.driver.call("cuStreamBeginCapture_v2", self.handle, mode)

    def end(self):
        """What was captured, ready to be replayed."""
        graph, executable = _Handle(), _Handle()
        self.driver.call("cuStreamEndCapture", self.handle, graph)
        with self.driver.relaxed():
            self.driver.call("cuGraphInstantiateWithFlags", executable, graph, 0)
        self.driver.call("cuGraphDestroy", graph)
        return Graph(self.driver, executable.value)

    @contextlib.contextmanager
    def captured(self, mode=THREAD_LOCAL):
        """A capture; the list gets its graph."""
        graphs = []
        self.begin(mode)
        try:
            yield graphs
        finally:
            graphs.append(self.end())


class Graph:
    """A graph that can be replayed."""

    def __init__(self, driver, handle):
        self.driver, self.handle = driver, handle
        driver.frees(self, "cuGraphExecDestroy", handle)

    def replay(self, stream):
        self.driver.call("cuGraphLaunch", self.handle, stream.handle)


class Driver:
    """The driver of this process, in whose primary context the calling thread is from now on."""

    @classmethod
    def found(cls):
        """The driver in software, where programs get that as `libcuda.so.1`."""
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return None
        return cls(library) if hasattr(library, "fake_driver_live") else None

    def __init__(self, library):
        self.library = library
        for name, arguments in _CALLS.items():
            getattr(self.library, name).argtypes = arguments
        self.library.fake_driver_fail.argtypes = [_Word, _Int]
        self.library.fake_driver_spare.restype = ctypes.c_bool
        self.library.fake_driver_calls.restype = _Word
        self.library.fake_driver_enqueued.restype = _Word
        self.library.fake_driver_pace.argtypes = [_Int, ctypes.c_uint64]
        self.library.fake_driver_live.argtypes = [ctypes.POINTER(_Word * len(LIVE))]
        self.call("cuInit", 0)
        self.context = _Handle()
        self.call("cuDevicePrimaryCtxRetain", self.context, 0)
        self.enter()

    def call(self, name, *arguments):
        # Failures are for pagelift's calls.
        self.spare()
        code = getattr(self.library, name)(*arguments)
        if code:
            raise DriverFailed(f"{name}: {code}")

    def enter(self):
        """Makes the context this thread's."""
        self.call("cuCtxSetCurrent", self.context)

    def stream(self, *, blocking=False):
        handle = _Handle()
        self.call("cuStreamCreate", handle, 0 if blocking else 1)
        return Stream(self, handle.value)

    def memory(self, shape, dtype=np.uint8):
        """An array of rubbish on the GPU."""
        shape = (shape,) if isinstance(shape, int) else shape
        address, bytes_ = ctypes.c_uint64(), int(np.prod(shape)) * np.dtype(dtype).itemsize
        with self.relaxed():
            self.call("cuMemAlloc_v2", address, bytes_)
        held = (ctypes.c_ubyte * bytes_).from_address(address.value)
        self.frees(held, "cuMemFree_v2", address.value)
        return np.frombuffer(held, dtype).reshape(shape).view(Memory)

    def frees(self, owner, call, what):
        """Frees something with its owner, but for what the process ends with."""
        weakref.finalize(owner, self.free, call, what).atexit = False

    def free(self, call, what):
        """Frees something, by whichever thread collects garbage, amid whichever capture."""
        self.enter()
        with self.relaxed():
            self.call(call, what)

    @contextlib.contextmanager
    def relaxed(self):
        """What captures do not forbid."""
        mode = _Int(RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", mode)
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", mode)

    def copied(self, array):
        """A copy on the GPU."""
        memory = self.memory(array.shape, array.dtype)
        memory[...] = array
        return memory

    def fail(self, after, code):
        """Lets the call after the next `after` ones fail."""
        self.library.fake_driver_fail(after, code)

    def spare(self):
        """Calls failures off; whether there were any."""
        return self.library.fake_driver_spare()

    def pace(self, pace, seed=1):
        """How fast work runs that nobody waits for."""
        self.library.fake_driver_pace(pace, seed)

    def calls(self):
        """Calls since this was last asked."""
        return self.library.fake_driver_calls()

    def enqueued(self):
        """Copies, fills, launches and replays that were enqueued or recorded so far."""
        return self.library.fake_driver_enqueued()

    def live(self):
        """What was made and not unmade."""
        counts = (_Word * len(LIVE))()
        self.library.fake_driver_live(counts)
        return dict(zip(LIVE, counts, strict=True))
