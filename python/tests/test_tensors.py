"""What may be a pool: NumPy arrays, and what looks like a tensor of PyTorch's or an array of a GPU."""

import numpy as np
import pytest

import pagelift


class Device:
    def __init__(self, type_, index=None):
        self.type, self.index = type_, index


class Tensor:
    """Looks like a tensor of PyTorch's, over an array of NumPy's."""

    def __init__(self, array, device="cpu", index=None):
        self.array, self.device, self.dtype = array, Device(device, index), f"torch.{array.dtype}"
        self.shape = array.shape

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def detach(self):
        return Tensor(self.array)


class GpuArray:
    """Looks like an array of CuPy's."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"shape": (4, 8), "typestr": "<f4", "data": (4096, False), "version": 3, **interface}


@pytest.fixture
def memory():
    return pagelift.Registry()


def refused(memory, backend, tensor, place="device"):
    with pytest.raises(pagelift.TensorError) as error:
        memory.adopt(backend, place, tensor)
    assert len(memory) == 0
    return error.value.kind


@pytest.mark.parametrize("dtype", ["u1", "i8", "f2", "f4", "c16", "?", "S3", [("a", "i4"), ("b", "f8")]])
@pytest.mark.parametrize("place", ["host", "device"])
def test_arrays_of_numpy(cpu, memory, dtype, place):
    array = np.zeros((3, 5), dtype)
    region = memory.adopt(cpu, place, array)
    assert (region.address, region.bytes, region.place) == (array.ctypes.data, array.nbytes, place)
    assert region.items == array.size and int(region) == region.address
    assert len(memory) == 1 and memory.read(region, 0, array.nbytes) == array.tobytes()
    # A part that lies together, and an array with axes of length 1, are as good.
    assert memory.adopt(cpu, place, np.zeros((4, 6), dtype)[1:3]).items == 12
    assert memory.adopt(cpu, place, np.zeros((4, 1, 6), dtype).transpose(1, 0, 2)).items == 24


def test_arrays_that_cannot_serve(cpu, memory):
    read_only = np.zeros(8)
    read_only.flags.writeable = False
    objects = np.array([{}, []], object)
    for array, kind in [
        (np.zeros((4, 6))[:, :3], "NotContiguous"),
        (np.zeros((4, 6)).T, "NotContiguous"),
        (np.zeros(8)[::2], "NotContiguous"),
        (np.zeros(8)[::-1], "NotContiguous"),
        (np.broadcast_to(np.zeros(1), (4,)), "ReadOnly"),
        (read_only, "ReadOnly"),
        (objects, "WrongDtype"),
        (np.zeros(2, [("a", object), ("b", "i4")]), "WrongDtype"),
        (np.zeros((0, 4)), "NoMemory"),
        (np.float64(1), "ReadOnly"),
        (b"bytes", "NotATensor"),
        ([1, 2], "NotATensor"),
        (None, "NotATensor"),
        (4096, "NotATensor"),
    ]:
        found = refused(memory, cpu, array)
        assert found == kind or (isinstance(array, np.generic) and found in ("ReadOnly", "NoMemory")), array


def test_tensors(cpu, memory):
    array = np.zeros((3, 5), np.float32)
    region = memory.adopt(cpu, "device", Tensor(array))
    assert (region.address, region.bytes, region.dtype, region.items) == (array.ctypes.data, 60, "float32", 15)
    assert memory.adopt(cpu, "host", Tensor(np.zeros((), np.int32))).items == 1


def test_tensors_that_cannot_serve(cpu, memory):
    array = np.zeros((4, 6), np.float32)
    assert refused(memory, cpu, Tensor(array[:, :3])) == "NotContiguous"
    assert refused(memory, cpu, Tensor(array, "cuda", 0)) == "WrongDevice"
    assert refused(memory, cpu, Tensor(array, "xpu", 0)) == "WrongDevice"
    assert refused(memory, cpu, Tensor(array, "meta")) == "NoMemory"
    fake = Tensor(array)
    fake.fake_mode = object()
    assert refused(memory, cpu, fake) == "NoMemory"
    empty = Tensor(array)
    empty.data_ptr = lambda: 0
    assert refused(memory, cpu, empty) == "NoMemory"
    functional = Tensor(array)

    def no_storage():
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    functional.data_ptr = no_storage
    with pytest.raises(pagelift.TensorError, match="Cannot access data pointer") as error:
        memory.adopt(cpu, "device", functional)
    assert isinstance(error.value.__cause__, RuntimeError)


class Interface:
    """Says of an array's memory what it likes."""

    def __init__(self, array=None, **fields):
        self.array = np.zeros(8, np.float32) if array is None else array
        self.__array_interface__ = {**self.array.__array_interface__, **fields}


class Raises:
    def __init__(self, name, error):
        self.name, self.error = name, error

    def __getattr__(self, name):
        raise self.error if name == self.name else AttributeError(name)


def test_items_of_all_sizes(cpu, memory):
    for dtype in ("M8[ns]", "m8[s]", "U3", "S3", ">i8", "V5", [("a", "U2"), ("b", "M8[D]")]):
        array = np.zeros(7, dtype)
        region = memory.adopt(cpu, "host", array)
        assert (region.bytes, region.items) == (array.nbytes, 7), dtype
    assert refused(memory := pagelift.Registry(), cpu, Interface(typestr="|t3")) == "WrongDtype"
    if hasattr(np.dtypes, "StringDType"):
        assert refused(memory, cpu, np.zeros(3, np.dtypes.StringDType())) == "WrongDtype"


def test_objects_that_do_not_keep_to_their_protocol(cpu, memory):
    address = np.zeros(8, np.float32).ctypes.data
    for fields in (
        {"shape": (-1,)},
        {"shape": 8},
        {"shape": "8"},
        {"shape": (2**64,)},
        {"shape": range(2**60)},
        {"typestr": b"<f4"},
        {"data": address},
        {"data": b"bytes"},
        {"data": (-1, False)},
        {"data": (address, None)},
        {"strides": "4"},
    ):
        assert refused(memory, cpu, Interface(**fields)) == "NotATensor", fields
    assert refused(memory, cpu, Interface(strides=())) == refused(memory, cpu, Interface(strides=(4, 4))) == "NoMemory"
    assert refused(memory, cpu, Interface(data=(2**64 - 4, False))) == "NoMemory"
    for typestr in ("", "<", "<f", "<f-4", "<f99999999999999999999999", "é€f"):
        assert refused(memory, cpu, Interface(typestr=typestr)) == "WrongDtype"
    for name, value in [("data_ptr", -1), ("data_ptr", 2**64), ("data_ptr", None), ("numel", -1), ("element_size", "4")]:
        tensor = Tensor(np.zeros(8))
        setattr(tensor, name, lambda value=value: value)
        assert refused(memory, cpu, tensor) == "NotATensor"
    for name in ("data_ptr", "__array_interface__", "__cuda_array_interface__", "__dlpack__"):
        assert refused(memory, cpu, Raises(name, RuntimeError("no"))) == "NotATensor"
        # An interrupt is none of the tensor's.
        with pytest.raises(KeyboardInterrupt):
            memory.adopt(cpu, "host", Raises(name, KeyboardInterrupt()))


def test_arrays_of_a_gpu_are_not_the_cpus(cpu, memory):
    assert refused(memory, cpu, GpuArray()) == "WrongDevice"
    assert refused(memory, cpu, GpuArray(data=(4096, True))) == "ReadOnly"
    assert refused(memory, cpu, GpuArray(strides=(4, 16))) == "NotContiguous"
    assert refused(memory, cpu, GpuArray(data=None)) == "NoMemory"
    assert refused(memory, cpu, GpuArray(data=(0, False))) == "NoMemory"
    assert refused(memory, cpu, GpuArray(shape=(2**40, 2**40))) == "NoMemory"


def test_a_tensor_is_kept_until_its_region_is_released(cpu, memory):
    import gc
    import weakref

    class Array(np.ndarray):
        pass

    array = np.zeros(64, np.uint8).view(Array)
    watch, region = weakref.ref(array), memory.adopt(cpu, "host", array)
    del array
    gc.collect()
    assert watch() is not None
    memory.write(region, 3, b"abc")
    assert memory.read(region, 2, 5) == b"\0abc\0" and watch()[3] == ord("a")
    memory.release(region)
    gc.collect()
    assert watch() is None
    for call in (
        lambda: memory.release(region),
        lambda: memory.read(region, 0, 1),
        lambda: memory.write(region, 0, b"a"),
    ):
        with pytest.raises(pagelift.RegistryError) as error:
            call()
        assert error.value.kind == "Released"


def test_memory_is_registered_once(cpu, memory):
    array = np.zeros(64, np.uint8)
    region = memory.adopt(cpu, "host", array)
    for again in (array, array[8:16]):
        with pytest.raises(pagelift.RegistryError) as error:
            memory.adopt(cpu, "device", again)
        assert error.value.kind == "Overlaps"
    for at, length in [(0, 65), (64, 1), (2**64 - 1, 2)]:
        with pytest.raises(pagelift.RegistryError) as error:
            memory.read(region, at, length)
        assert error.value.kind == "Outside"
    with pytest.raises(pagelift.RegistryError):
        memory.write(region, 60, b"abcde")
    assert len(memory) == 1
    with pytest.raises(ValueError, match="expected one of host, device"):
        memory.adopt(cpu, "gpu", np.zeros(4))


def test_memory_of_the_registrys_own(cpu, memory):
    region = memory.allocate(cpu, "device", 100)
    assert region.address % 16 == 0 and region.dtype is None and memory.read(region, 0, 100) == bytes(100)
    with pytest.raises(pagelift.RegistryError) as error:
        memory.allocate(cpu, "host", 2**62)
    assert error.value.kind == "OutOfMemory"
