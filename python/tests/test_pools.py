"""Host pools in chunks: of an engine's memory, of their own, and of several processes."""

import multiprocessing
import os
import sys

import numpy as np
import pytest

import pagelift

PAGE = os.sysconf("SC_PAGE_SIZE")
BLOCKS, BLOCK = 10, PAGE
SPEC = pagelift.HostPoolSpec(BLOCKS, BLOCK, chunk_bytes=4 * BLOCK)


def lifted(backend, memory, pool, blocks):
    """What pages hold into which blocks of a pool were lifted."""
    builder, slab = pagelift.GeometryBuilder(), np.zeros((len(blocks), BLOCK), np.uint8)
    layout = pagelift.PagedLayout(16, [("kv", BLOCK // 16)])
    host = builder.pool("host", "host", pool.blocks, pool.regions, blocks_per_extent=pool.blocks_per_extent)
    region = memory.adopt(backend, "device", slab)
    device = builder.pool("slab", "device", len(blocks), [region])
    group = builder.group(
        "kv",
        layers=1,
        landing="host",
        lift="all",
        host=pagelift.SideSpec.packed(host, pool.regions, [0], BLOCK, layout),
        device=pagelift.SideSpec.packed(device, [region], [0], BLOCK, layout),
    )
    plan = pagelift.RestorePlan(builder.build())
    pages = list(range(len(blocks)))
    plan.lift(pagelift.Import(pagelift.PromptSpan(16 * len(blocks)), [pagelift.ImportGroup(group, blocks, pages)]))
    launcher = pagelift.Launcher.bind(backend, memory, plan)
    launcher.stage(plan)
    launcher.launch()
    return slab


def fill(memory, pool, values):
    for block, row in enumerate(values):
        extent, within = divmod(block, pool.blocks_per_extent)
        memory.write(pool.regions[extent], within * BLOCK, row.tobytes())


@pytest.fixture
def memory():
    return pagelift.Registry()


def values(rng):
    return rng.integers(0, 256, (BLOCKS, BLOCK), np.uint8)


def test_a_pool_of_an_engines(cpu, memory, rng):
    # Chunks begin at pages of memory.
    room = np.zeros((BLOCKS + 1) * BLOCK, np.uint8)
    array = room[-room.ctypes.data % BLOCK :][: BLOCKS * BLOCK].reshape(BLOCKS, BLOCK)
    pool = memory.adopt_pool(cpu, array, SPEC)
    assert (pool.blocks, pool.blocks_per_extent) == (10, 4)
    assert [region.bytes for region in pool.regions] == [4 * BLOCK, 4 * BLOCK, 2 * BLOCK]
    array[:] = values(rng)
    np.testing.assert_array_equal(lifted(cpu, memory, pool, [9, 4]), array[[9, 4]])
    other = pagelift.Registry()
    with pytest.raises(pagelift.TensorError) as error:
        other.adopt_pool(cpu, array, pagelift.HostPoolSpec(11, BLOCK))
    assert error.value.kind == "TooSmall"
    with pytest.raises(pagelift.RegistryError) as error:
        other.adopt_pool(cpu, array, pagelift.HostPoolSpec(8, BLOCK + 8, chunk_bytes=BLOCK + 1000))
    assert error.value.kind == "NoSeam"
    assert len(other) == 0


def test_a_pool_of_its_own(cpu, memory, rng):
    pool = memory.allocate_pool(cpu, SPEC)
    assert (pool.blocks, pool.blocks_per_extent, len(pool.regions)) == (10, SPEC.blocks_per_extent, 3)
    assert all(region.place == "host" and region.dtype is None for region in pool.regions)
    assert all(memory.read(region, 0, region.bytes) == bytes(region.bytes) for region in pool.regions)
    rows = values(rng)
    fill(memory, pool, rows)
    np.testing.assert_array_equal(lifted(cpu, memory, pool, [7, 0, 8]), rows[[7, 0, 8]])
    for region in pool.regions:
        memory.release(region)
    with pytest.raises(pagelift.RegistryError) as error:
        memory.read(pool.regions[1], 0, 1)
    assert error.value.kind == "Released"


@pytest.mark.parametrize("blocks, block", [(0, 64), (1, 0), (2**32 - 1, 2**62), (2**20, 2**40)])
def test_pools_that_cannot_be(cpu, memory, blocks, block):
    with pytest.raises(pagelift.RegistryError):
        memory.allocate_pool(cpu, pagelift.HostPoolSpec(blocks, block))
    assert len(memory) == 0


def test_two_registries_share_memory(cpu, memory, rng, tmp_path):
    made = pagelift.SharedMemory.create("blocks", SPEC.bytes)
    assert made.bytes == SPEC.bytes >= BLOCKS * BLOCK
    theirs, rows = pagelift.Registry(), values(rng)
    fill(memory, memory.share_pool(cpu, SPEC, made), rows)
    pool = theirs.share_pool(cpu, SPEC, pagelift.SharedMemory.from_descriptor(made.fileno()))
    np.testing.assert_array_equal(lifted(cpu, theirs, pool, [3, 9]), rows[[3, 9]])
    path = tmp_path / "pool"
    file = pagelift.SharedMemory.create_file(path, SPEC.bytes)
    fill(memory, memory.share_pool(cpu, SPEC, file), rows[::-1])
    pool = theirs.share_pool(cpu, SPEC, pagelift.SharedMemory.open(str(path)))
    np.testing.assert_array_equal(lifted(cpu, theirs, pool, [3]), rows[::-1][[3]])


def test_shared_memory_that_does_not_fit(cpu, memory, tmp_path):
    with pytest.raises(pagelift.RegistryError) as error:
        memory.share_pool(cpu, SPEC, pagelift.SharedMemory.create("small", SPEC.bytes - PAGE))
    assert error.value.kind == "SharedSize"
    for call in (
        lambda: pagelift.SharedMemory.open(tmp_path / "nothing"),
        lambda: pagelift.SharedMemory.from_descriptor(10_000),
        lambda: pagelift.SharedMemory.from_descriptor(-1),
        lambda: pagelift.SharedMemory.create("huge", 2**63),
    ):
        with pytest.raises(pagelift.RegistryError) as error:
            call()
        assert error.value.kind == "System"
    assert len(memory) == 0


def fill_in_a_process(path):
    """The other process of the test below."""
    memory, backend = pagelift.Registry(), pagelift.Cpu(1)
    pool = memory.share_pool(backend, SPEC, pagelift.SharedMemory.open(path))
    fill(memory, pool, np.random.default_rng(5).integers(0, 256, (BLOCKS, BLOCK), np.uint8))


def test_two_processes_share_memory(cpu, memory, tmp_path):
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    path = str(tmp_path / "pool")
    pool = memory.share_pool(cpu, SPEC, pagelift.SharedMemory.create_file(path, SPEC.bytes))
    process = multiprocessing.get_context("spawn").Process(target=fill_in_a_process, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    rows = np.random.default_rng(5).integers(0, 256, (BLOCKS, BLOCK), np.uint8)
    np.testing.assert_array_equal(lifted(cpu, memory, pool, [1, 5, 9]), rows[[1, 5, 9]])
