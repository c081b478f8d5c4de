"""Memory of a GPU's by whatever name, pools of pagelift's own, and copy engines, inside PyTorch. Skipped where there is no GPU."""

import gc

import pytest

import pagelift
from test_dlpack import Wrapped
from test_torch_misuse import Engine, refused

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs PyTorch with a GPU")


class Interface:
    """An array of a GPU's that says no more than CuPy's do."""

    def __init__(self, tensor, **other):
        self.tensor, self.__cuda_array_interface__ = tensor, {**tensor.__cuda_array_interface__, **other}


@pytest.fixture
def engine():
    return Engine()


def lift(engine, tokens, block, page):
    plan = pagelift.RestorePlan(engine.geometry)
    plan.lift(engine.import_(tokens, block, page), "exact")
    return plan


@pytest.mark.parametrize("look", [Wrapped, Interface])
def test_arrays_of_a_gpu(engine, look):
    memory, tensor = engine.memory, torch.arange(1 << 10, dtype=torch.float32, device="cuda").reshape(32, 32)
    torch.cuda.synchronize()
    before = len(memory)
    region = memory.adopt(engine.gpu, "device", look(tensor))
    assert (region.address, region.bytes, region.dtype, region.items) == (tensor.data_ptr(), 4096, "float32", 1024)
    memory.write(region, 8, b"\0\0\0\0")
    assert tensor[0, 2].item() == 0 and memory.read(region, 12, 4) == b"\0\0\x40\x40"
    # What other tests have left is not counted.
    gc.collect()
    address, held = tensor.data_ptr(), torch.cuda.memory_allocated()
    del tensor
    gc.collect()
    other = torch.empty(32, 32, device="cuda")
    assert other.data_ptr() != address and torch.cuda.memory_allocated() > held
    memory.release(region)
    refused(pagelift.TensorError, "NotContiguous", lambda: memory.adopt(engine.gpu, "device", look(other.t())))
    refused(pagelift.TensorError, "WrongDevice", lambda: memory.adopt(engine.gpu, "host", look(other)))
    refused(pagelift.TensorError, "WrongDevice", lambda: memory.adopt(pagelift.Cpu(1), "device", look(other)))
    assert len(memory) == before


def test_interfaces_that_cannot_serve(engine):
    tensor = torch.zeros(64, device="cuda")
    adopt = lambda array: lambda: engine.memory.adopt(engine.gpu, "device", array)
    refused(pagelift.TensorError, "ReadOnly", adopt(Interface(tensor, data=(tensor.data_ptr(), True))))
    refused(pagelift.TensorError, "NoMemory", adopt(Interface(tensor, mask=tensor)))
    refused(pagelift.TensorError, "NoMemory", adopt(Interface(tensor, data=(0, False))))
    refused(pagelift.TensorError, "WrongDevice", adopt(Wrapped(torch.zeros(64))))


def test_a_pool_of_pagelifts_own(engine):
    blocks, block = 12, 1 << 16
    memory = engine.memory
    pool = memory.allocate_pool(engine.gpu, pagelift.HostPoolSpec(blocks, block, chunk_bytes=4 * block))
    assert len(pool.regions) == 3
    slab = torch.full((2, block), 255, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    region, builder = memory.adopt(engine.gpu, "device", slab), pagelift.GeometryBuilder()
    layout = pagelift.PagedLayout(64, [("kv", block // 64)])
    host = builder.pool("own", "host", blocks, pool.regions, blocks_per_extent=pool.blocks_per_extent)
    device = builder.pool("slab", "device", 2, [region])
    group = builder.group(
        "kv",
        layers=1,
        landing="host",
        lift="all",
        host=pagelift.SideSpec.packed(host, pool.regions, [0], block, layout),
        device=pagelift.SideSpec.packed(device, [region], [0], block, layout),
    )
    rows = torch.randint(0, 256, (2, block), dtype=torch.uint8)
    ids = [3, 9]
    for block_id, row in zip(ids, rows, strict=True):
        extent, within = divmod(block_id, pool.blocks_per_extent)
        memory.write(pool.regions[extent], within * block, row.numpy().tobytes())
    plan = pagelift.RestorePlan(builder.build())
    plan.lift(pagelift.Import(pagelift.PromptSpan(128), [pagelift.ImportGroup(group, ids, [1, 0])]))
    launcher = engine.bind(plan)
    launcher.stage(plan)
    launcher.launch()
    launcher.wait()
    assert torch.equal(slab.cpu(), rows.flip(0))
    launcher.close()


def test_copy_engines_carry_out_the_same_plans(engine):
    slab, host = engine.slab.cpu(), engine.host.clone()
    copies = pagelift.CopyEngine(engine.gpu, engine.memory, stream=engine.stream)
    words = ["each", "batch"] if engine.gpu.batches_copies else ["each"]
    for number, calls in enumerate(words):
        plan = lift(engine, 9 + number, 7 + number, 3 + number)
        # Pieces of a few rows are a kernel's.
        assert copies.chosen(plan) == "kernel"
        done = copies.copy(plan, calls)
        done.wait()
        assert done.is_passed() and repr(done) == "CudaEvent(passed)"
        slab[:, 3 + number, : 9 + number] = engine.host[7 + number, :, : 9 + number]
        assert torch.equal(engine.slab.cpu(), slab)
    back = pagelift.WriteBackPlan(engine.geometry)
    back.spill(engine.group, [5], [40])
    copies.copy(back).wait()
    host[40] = slab[:, 5]
    assert torch.equal(engine.host, host)
    # On another stream it comes after what was on the one before.
    copies.set_stream(torch.cuda.Stream())
    copies.copy(lift(engine, 3, 1, 0), words[-1]).wait()
    slab[:, 0, :3] = engine.host[1, :, :3]
    assert torch.equal(engine.slab.cpu(), slab)
    with pytest.raises(TypeError, match="page plans"):
        copies.copy(pagelift.MirrorPlan(engine.geometry))
    copies.close()
    refused(pagelift.LaunchError, "Closed", lambda: copies.copy(back))


def test_copies_in_a_graph(engine):
    slab = engine.slab.cpu()
    copies = pagelift.CopyEngine(engine.gpu, engine.memory, stream=engine.stream)
    plan = lift(engine, 9, 7, 3)
    refused(pagelift.CaptureError, "NotCapturing", lambda: copies.record(plan))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        copies.record(plan)
        with pytest.raises(pagelift.CaptureError):
            copies.copy(plan)
        with pytest.raises(pagelift.CaptureError):
            copies.set_stream(None)
        assert copies.chosen(plan) == "kernel"
    for value in (1, 2):
        engine.host[7] = value
        with torch.cuda.stream(engine.stream):
            graph.replay()
        engine.stream.synchronize()
        slab[:, 3, :9] = value
        assert torch.equal(engine.slab.cpu(), slab)
    refused(pagelift.RegistryError, "Recorded", lambda: engine.memory.release(engine.slab_region))
    copies.close()
    engine.memory.release(engine.slab_region)
    other = pagelift.CopyEngine(engine.gpu, engine.memory)
    refused(pagelift.RegistryError, "Unregistered", lambda: other.copy(plan))


def test_a_gpu_knows_what_was_measured(engine):
    assert engine.gpu.calibration is None
    paces = pagelift.Paces(pagelift.Pace(2, 10**10), pagelift.Pace(3, 10**10))
    calibration = pagelift.Calibration(host_to_device=paces, device_to_host=paces, device_to_device=paces)
    gpu = pagelift.Cuda(torch.cuda.current_device(), calibration=calibration)
    assert gpu.calibration.pace("host", "device", "rows").workers == 3
    plan = lift(engine, 9, 7, 3)
    slab = engine.slab.cpu()
    launcher = pagelift.Launcher.bind(gpu, engine.memory, plan, stream=engine.stream)
    launcher.stage(plan)
    launcher.launch()
    launcher.wait()
    slab[:, 3, :9] = engine.host[7, :, :9]
    assert torch.equal(engine.slab.cpu(), slab)
    launcher.close()
