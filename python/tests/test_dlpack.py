"""Arrays that only DLPack describes: those of NumPy behind a wrapper, and structs that are made here."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import pagelift

READ_ONLY, COPIED = 1, 2


class Wrapped:
    """An array of NumPy's, of which nothing but DLPack is seen."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.asked = array, versioned, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if not self.versioned and "max_version" in asked:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**asked)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]


class Made:
    """A producer whose struct is written here, field by field; `freed` counts what is called when its capsule goes away."""

    def __init__(self, shape=(4, 6), strides=None, versioned=True, flags=0, major=1, name=None, device=(1, 0), said=None, **fields):
        self.memory = np.arange(64, dtype=np.uint64)
        self.freed = 0
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        address = lambda array: ctypes.addressof(array) if array else None
        self.device, self.said = device, said or device
        values = {
            "data": self.memory.ctypes.data,
            "device_type": device[0],
            "device_id": device[1],
            "ndim": len(shape),
            "code": 1,
            "bits": 64,
            "lanes": 1,
            "shape": address(self.shape),
            "strides": address(self.strides),
            "byte_offset": 0,
            **fields,
        }
        tensor = DLTensor(**values)
        self.managed = Versioned(major=major, flags=flags, tensor=tensor) if versioned else Managed(tensor=tensor)
        self.name = name or (b"dltensor_versioned" if versioned else b"dltensor")
        self.destructor = DESTRUCTOR(self.free)

    def free(self, _capsule):
        self.freed += 1

    def __dlpack_device__(self):
        return self.said

    def __dlpack__(self, **asked):
        return new_capsule(ctypes.addressof(self.managed), self.name, self.destructor)


@pytest.fixture
def memory():
    return pagelift.Registry()


def refused(memory, backend, tensor, place="device"):
    with pytest.raises(pagelift.TensorError) as error:
        memory.adopt(backend, place, tensor)
    assert len(memory) == 0
    return error.value.kind


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float16", "float32", "complex128", "bool"])
def test_arrays_of_numpy(cpu, memory, dtype, versioned):
    array = np.random.default_rng(1).integers(0, 2, (3, 5)).astype(dtype)
    wrapped = Wrapped(array, versioned)
    region = memory.adopt(cpu, "host", wrapped)
    assert (region.address, region.bytes, region.items) == (array.ctypes.data, array.nbytes, 15)
    assert region.dtype == dtype
    assert memory.read(region, 0, array.nbytes) == array.tobytes()
    # No stream is named for memory of the host.
    assert wrapped.asked[0] == {"max_version": (1, 0)} and len(wrapped.asked) == 2 - versioned
    assert memory.adopt(cpu, "host", Wrapped(np.zeros((4, 6), dtype)[1:3])).items == 12
    assert memory.adopt(cpu, "host", Wrapped(np.zeros((4, 1, 6), dtype).transpose(1, 0, 2))).items == 24
    assert memory.adopt(cpu, "host", Wrapped(np.zeros((), dtype))).items == 1


def test_tensors_of_pytorch(cpu, memory):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(30, dtype=torch.int32).reshape(5, 6)
    # A part that begins inside of its storage.
    region = memory.adopt(cpu, "host", Wrapped(tensor[2:4]))
    assert (region.address, region.items) == (tensor[2:].data_ptr(), 12)
    assert memory.read(region, 4, 4) == (13).to_bytes(4, "little")
    assert memory.adopt(cpu, "host", Wrapped(torch.zeros(8, dtype=torch.bfloat16))).dtype == "bfloat16"
    assert refused(pagelift.Registry(), cpu, Wrapped(tensor.t())) == "NotContiguous"


def test_arrays_that_cannot_serve(cpu, memory):
    read_only = np.zeros(8)
    read_only.flags.writeable = False
    assert refused(memory, cpu, Wrapped(read_only)) == "ReadOnly"
    assert refused(memory, cpu, Wrapped(np.zeros((4, 6))[:, :3])) == "NotContiguous"
    assert refused(memory, cpu, Wrapped(np.zeros((4, 6)).T)) == "NotContiguous"
    assert refused(memory, cpu, Wrapped(np.zeros(8)[::-1])) == "NotContiguous"
    assert refused(memory, cpu, Wrapped(np.zeros((0, 4)))) == "NoMemory"
    # What NumPy itself refuses to export is said with its reason.
    with pytest.raises(pagelift.TensorError, match="__dlpack__") as error:
        memory.adopt(cpu, "host", Wrapped(np.array([{}, []], object)))
    assert isinstance(error.value.__cause__, Exception)


@pytest.mark.parametrize("versioned", [True, False])
def test_structs(cpu, memory, versioned):
    made = Made(versioned=versioned, byte_offset=16)
    region = memory.adopt(cpu, "host", made)
    assert (region.address, region.bytes, region.dtype) == (made.memory.ctypes.data + 16, 192, "uint64")
    memory.release(region)
    region = memory.adopt(cpu, "host", Made(versioned=versioned, shape=(4, 6), strides=(6, 1), code=2, bits=16, lanes=4))
    assert (region.bytes, region.dtype) == (192, "float16_x4")
    for code, bits, dtype in [(4, 16, "bfloat16"), (6, 8, "bool"), (10, 8, "float8_e4m3fn"), (12, 8, "float8_e5m2")]:
        assert memory.adopt(cpu, "host", Made(versioned=versioned, code=code, bits=bits)).dtype == dtype
    # Pinned memory of a runtime's is the host's.
    assert memory.adopt(cpu, "host", Made(versioned=versioned, device=(3, 0))).place == "host"


@pytest.mark.parametrize("versioned", [True, False])
def test_structs_that_cannot_serve(cpu, memory, versioned):
    for fields, kind in [
        ({"strides": (7, 1)}, "NotContiguous"),
        ({"strides": (1, 4)}, "NotContiguous"),
        ({"shape": (4, -6)}, "NoMemory"),
        ({"shape": (2**40, 2**40)}, "NoMemory"),
        ({"ndim": -1}, "NoMemory"),
        ({"ndim": 2**31 - 1}, "NoMemory"),
        ({"data": None}, "NoMemory"),
        ({"data": None, "byte_offset": 4096}, "NoMemory"),
        ({"shape": (1,), "byte_offset": 2**64 - 1}, "NoMemory"),
        ({"code": 3}, "WrongDtype"),
        ({"code": 200}, "WrongDtype"),
        ({"bits": 4}, "WrongDtype"),
        ({"bits": 0}, "WrongDtype"),
        ({"device": (10, 0)}, "WrongDevice"),
        ({"device": (2, 0)}, "WrongDevice"),
        ({"said": (3, 0)}, "WrongDevice"),
        ({"name": b"used_dltensor"}, "NoMemory"),
        ({"name": b"something else"}, "NoMemory"),
    ]:
        made = Made(versioned=versioned, **fields)
        assert refused(memory, cpu, made) == kind, fields
        gc.collect()
        # What was exported is freed. Of a device that cannot serve nothing is.
        assert made.freed == (0 if made.device == (10, 0) else 1), fields
    if versioned:
        assert refused(memory, cpu, Made(flags=READ_ONLY)) == "ReadOnly"
        assert refused(memory, cpu, Made(flags=COPIED)) == "NoMemory"
        assert refused(memory, cpu, Made(major=2)) == "NoMemory"


def test_producers_that_do_not_answer(cpu, memory):
    class Broken:
        def __dlpack_device__(self):
            return "cpu"

        def __dlpack__(self, **asked):
            raise BufferError("exported already")

    class Late(Broken):
        def __dlpack_device__(self):
            return (1, 0)

    class Bytes(Late):
        def __dlpack__(self, **asked):
            return b"dltensor"

    for producer in (Broken(), Late(), Bytes()):
        assert refused(memory, cpu, producer) == "NoMemory"
    with pytest.raises(pagelift.TensorError, match="exported already"):
        memory.adopt(cpu, "host", Late())


@pytest.mark.parametrize("versioned", [True, False])
def test_memory_is_freed_once_when_it_is_released(cpu, memory, versioned):
    made = Made(versioned=versioned)
    region = memory.adopt(cpu, "host", made)
    gc.collect()
    assert made.freed == 0
    memory.write(region, 0, b"abc")
    memory.release(region)
    gc.collect()
    assert made.freed == 1
    # One that was refused is freed at once.
    with pytest.raises(pagelift.TensorError):
        memory.adopt(cpu, "host", refused_one := Made(versioned=versioned, strides=(1, 4)))
    gc.collect()
    assert refused_one.freed == 1
    # A registry that goes away frees what it has.
    other = pagelift.Registry()
    other.adopt(cpu, "host", made)
    del other
    gc.collect()
    assert made.freed == 2


def test_an_array_of_numpy_is_kept_by_its_capsule_alone(cpu, memory):
    class Array(np.ndarray):
        pass

    array = np.zeros(64, np.uint8).view(Array)
    watch, wrapped = weakref.ref(array), Wrapped(array)
    region = memory.adopt(cpu, "host", wrapped)
    # Not even the wrapper has it now.
    wrapped.array = None
    del array
    gc.collect()
    assert watch() is not None
    memory.write(region, 5, b"x")
    memory.release(region)
    gc.collect()
    assert watch() is None
