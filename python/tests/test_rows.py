"""Rows are mirrored and gathered as arrays on the device say: whole pools against NumPy."""

import numpy as np
import pytest

import pagelift
from world import BLOCK_TOKENS, World


def paged(world):
    return [world.main, world.index, world.ring]


def mirror(world, group, expected, slots, mapped, accepted=None):
    """The reference: returns (rows, skipped, bad). `accepted[i]` says whether token `i` counts."""
    host, device = expected[group.name]
    page_slots = group.rows * group.tokens_per_row
    pages, rows, skipped, bad = device.shape[1], 0, 0, 0
    for token, slot in enumerate(slots):
        if accepted is not None and not accepted[token]:
            skipped += 1
        elif slot < 0:
            skipped += 1
        elif slot >= pages * page_slots:
            bad += 1
        else:
            page, within = divmod(int(slot), page_slots)
            if page not in mapped:
                skipped += 1
                continue
            if within % group.tokens_per_row != group.tokens_per_row - 1:
                # The row is not complete with this token: neither copied nor skipped.
                continue
            for layer in range(group.layers):
                group.copy_rows(device[layer, page], host[mapped[page], layer], [within // group.tokens_per_row])
            rows += 1
    return rows, skipped, bad


def map_pages(world, plan, group, count):
    pages, blocks = world.choose(group, "device", count), world.choose(group, "host", count)
    for page, block in zip(pages, blocks, strict=True):
        plan.page_map.map(group.key, page, block)
        assert plan.page_map.block_of(group.key, page) == block
    return dict(zip(pages, blocks, strict=True))


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_mirrors_what_the_slot_mapping_says(world, dtype):
    for group in paged(world):
        page_slots = group.rows * group.tokens_per_row
        total = group.device.shape[1] * page_slots
        # Padding, pages without a mirror, entries past the last page, and no row twice.
        slots = world.rng.permutation(np.arange(total + 20))[:60].astype(dtype)
        slots[world.rng.random(60) < 0.2] = -1
        array = slots.copy()
        plan = pagelift.MirrorPlan(world.geometry)
        mapped = map_pages(world, plan, group, 5)
        plan.bind(group.key, pagelift.RowBinding(world.memory.adopt(world.backend, "device", array)))
        expected = world.snapshot()
        counts = mirror(world, group, expected, slots, mapped)
        launcher, ticket = world.run(plan)
        report = launcher.report(ticket)
        assert (report.rows, report.skipped, report.bad) == counts
        world.check(expected)
        np.testing.assert_array_equal(array, slots)
        counters = launcher.counters()
        assert (counters.rows, counters.skipped, counters.bad, counters.bytes) == (*counts, None)


def test_case_20_rejected_drafts_and_padding_are_left_alone(world):
    group, rng = world.main, world.rng
    starts = np.cumsum([0, 3, 1, 4, 2]).astype(np.int32)
    accepted = np.array([2, 1, 0, 2], np.int32)
    counts = [bool(token - start < taken) for start, end, taken in zip(starts, starts[1:], accepted) for token in range(start, end)]
    slots = rng.permutation(group.device.shape[1] * BLOCK_TOKENS)[:16].astype(np.int64)
    adopt = lambda array: world.memory.adopt(world.backend, "device", array)
    plan = pagelift.MirrorPlan(world.geometry)
    mapped = map_pages(world, plan, group, 9)
    binding = pagelift.RowBinding(adopt(slots), query_starts=adopt(starts), accepted=adopt(accepted))
    plan.bind(group.key, binding)
    expected = world.snapshot()
    rows, skipped, bad = mirror(world, group, expected, slots[: starts[-1]], mapped, counts)
    launcher, ticket = world.run(plan)
    assert launcher.report(ticket).rows == rows == accepted.sum()
    world.check(expected)

    # A count on the device cuts a captured batch's padding off.
    count = np.array([3], np.int32)
    plan.clear_bindings()
    plan.bind(group.key, pagelift.RowBinding(int(adopt(slots.copy())), capacity=16, width=8, count=adopt(count)))
    group.device[:] = world.random(group.device.shape)
    expected = world.snapshot()
    assert mirror(world, group, expected, slots[:3], mapped)[0] == 3
    ticket = launcher.stage(plan)
    launcher.launch()
    assert launcher.report(ticket).rows == 3
    world.check(expected)


def test_a_staged_mirror_may_run_in_every_launch_and_pages_may_change(world):
    group = world.main
    slots = np.full(4, -1, np.int64)
    plan = pagelift.MirrorPlan(world.geometry)
    plan.bind(group.key, pagelift.RowBinding(world.memory.adopt(world.backend, "device", slots)))
    plan.page_map.map(group.key, 2, 5)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, repeat=True)
    launcher.stage(plan)
    for step in range(BLOCK_TOKENS):
        slots[1] = 2 * BLOCK_TOKENS + step
        group.device[:, 2] = world.random(group.device[:, 2].shape)
        expected = world.snapshot()
        mirror(world, group, expected, slots, {2: 5})
        launcher.launch()
        world.check(expected)
    plan.page_map.unmap(group.key, 2)
    plan.page_map.map(group.key, 2, 7)
    assert plan.page_map.pending == 1
    launcher.stage(plan)
    assert plan.page_map.pending == 0
    expected = world.snapshot()
    mirror(world, group, expected, slots, {2: 7})
    launcher.launch()
    world.check(expected)


def test_pages_and_blocks_of_unequal_rows_are_mapped_by_parts(cpu, rng):
    memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
    host, device = rng.integers(0, 256, (4, 32, 24), np.uint8), rng.integers(0, 256, (8, 16, 24), np.uint8)
    regions = memory.adopt(cpu, "host", host), memory.adopt(cpu, "device", device)
    layouts = [pagelift.PagedLayout(tokens, [("kv", 24)]) for tokens in (32, 16)]
    pools = builder.pool("host", "host", 4, [regions[0]]), builder.pool("device", "device", 8, [regions[1]])
    sides = [
        pagelift.SideSpec.packed(pool, [region], [0], layout.page_bytes, layout)
        for pool, region, layout in zip(pools, regions, layouts, strict=True)
    ]
    group = builder.group("kv", layers=1, landing="host", lift="tail", host=sides[0], device=sides[1])
    plan = pagelift.MirrorPlan(builder.build())
    with pytest.raises(pagelift.PlanError) as unequal:
        plan.page_map.map(group, 3, 1)
    assert unequal.value.kind == "UnequalRows"
    plan.page_map.map_rows(group, 3, 0, 1, 16)
    slots = np.array([3 * 16 + 5], np.int64)
    plan.bind(group, pagelift.RowBinding(memory.adopt(cpu, "device", slots)))
    expected = host.copy()
    expected[1, 16 + 5] = device[3, 5]
    launcher = pagelift.Launcher.bind(cpu, memory, plan)
    launcher.stage(plan)
    launcher.launch()
    np.testing.assert_array_equal(host, expected)


@pytest.mark.parametrize("source", ["host", "device"])
def test_gathers_rows_by_an_index_list(cpu, rng, source):
    world = World(cpu, rng, build=False)
    group, entries = world.main, 12
    buffer = world.random((group.layers, entries * group.segments[0][1]))
    region = world.memory.adopt(cpu, "device", buffer)
    layout = pagelift.PagedLayout(entries, [("latent", group.segments[0][1])])
    pool = world.builder.pool("compact", "device", 1, [region])
    compact = pagelift.SideSpec.packed(pool, [region], [layer * layout.page_bytes for layer in range(3)], layout.page_bytes, layout)
    to = world.builder.side(group.key, compact)
    route = world.builder.compact_route(world.builder.main_side(group.key, source), to)
    assert route.direction == f"{source} to device"
    geometry = world.builder.build()
    total = (group.host.shape[0] if source == "host" else group.device.shape[1]) * BLOCK_TOKENS
    rows = rng.integers(0, total, entries).astype(np.int32)
    rows[3] = -1
    plan = pagelift.RowPlan(geometry, f"{source} to device")
    plan.gather_rows(route, pagelift.RowBinding(world.memory.adopt(cpu, "device", rows)))
    expected = buffer.copy().reshape(group.layers, entries, -1)
    for entry, row in enumerate(rows):
        block, within = divmod(int(row), BLOCK_TOKENS)
        for layer in range(group.layers):
            page = group.host[block, layer] if source == "host" else group.device[layer, block]
            if row >= 0:
                expected[layer, entry] = group.row(page, within)[0]
    untouched = world.snapshot()
    launcher, ticket = world.run(plan)
    np.testing.assert_array_equal(buffer.reshape(expected.shape), expected)
    world.check(untouched)
    with pytest.raises(TypeError):
        pagelift.RowPlan(geometry, "device to host").gather_rows(route, pagelift.RowBinding(64, capacity=1, width=4))


def test_bindings_are_checked(world):
    adopt = lambda array: world.memory.adopt(world.backend, "device", array)
    slots, starts, accepted = adopt(np.zeros(8, np.int64)), adopt(np.zeros(5, np.int32)), adopt(np.zeros(4, np.int32))
    for wrong, error in [
        (dict(slots=adopt(np.zeros(8, np.float32))), pagelift.TensorError),
        (dict(slots=adopt(np.zeros(8, ">i8"))), pagelift.TensorError),
        (dict(slots=slots, width=4), pagelift.TensorError),
        (dict(slots=slots, capacity=9), pagelift.TensorError),
        (dict(slots=slots, count=adopt(np.zeros(1, np.int64))), pagelift.TensorError),
        (dict(slots=slots, query_starts=slots), pagelift.TensorError),
        (dict(slots=slots, query_starts=starts, requests=5), pagelift.TensorError),
        (dict(slots=slots, query_starts=starts, accepted=adopt(np.zeros(3, np.int32))), pagelift.TensorError),
        (dict(slots=slots, accepted=accepted), TypeError),
        (dict(slots=4096), TypeError),
        (dict(slots=4096, capacity=4), TypeError),
        (dict(slots=4096, capacity=4, width=2), ValueError),
        (dict(slots="slots"), TypeError),
    ]:
        with pytest.raises(error):
            pagelift.RowBinding(**wrong)
    plan = pagelift.MirrorPlan(world.geometry)
    for binding in (
        pagelift.RowBinding(0, capacity=4, width=8),
        pagelift.RowBinding(4097, capacity=4, width=8),
        pagelift.RowBinding(2**64 - 8, capacity=4, width=8),
        pagelift.RowBinding(slots, null_page=2**32 - 1),
    ):
        with pytest.raises(pagelift.PlanError) as error:
            plan.bind(world.main.key, binding)
        assert error.value.kind == "Binding"
    plan.bind(world.main.key, pagelift.RowBinding(slots))
    with pytest.raises(pagelift.PlanError) as twice:
        plan.bind(world.main.key, pagelift.RowBinding(slots))
    assert twice.value.kind == "BoundTwice"
    with pytest.raises(TypeError, match="state has no rows"):
        plan.bind(world.state.key, pagelift.RowBinding(slots))
    with pytest.raises(TypeError, match="state has no rows"):
        plan.page_map.map(world.state.key, 0, 0)
    # Memory that nobody registered is refused when the plan is staged, and nothing is read.
    loose = np.zeros(8, np.int64)
    plan.clear_bindings()
    plan.bind(world.main.key, pagelift.RowBinding(loose.ctypes.data, capacity=8, width=8))
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    with pytest.raises(pagelift.RegistryError) as unregistered:
        launcher.stage(plan)
    assert unregistered.value.kind == "Unregistered"


def test_the_page_map_is_injective(world):
    plan = pagelift.MirrorPlan(world.geometry, changes=3)
    pages = plan.page_map
    pages.map(world.main.key, 1, 2)
    for page, block, kind in [(1, 3, "PageMapped"), (2, 2, "BlockMapped"), (99, 3, "OutOfRange"), (2, 99, "OutOfRange")]:
        with pytest.raises(pagelift.PlanError) as error:
            pages.map(world.main.key, page, block)
        assert error.value.kind == kind
    pages.map(world.main.key, 2, 3)
    pages.map(world.ring.key, 2, 3)
    with pytest.raises(pagelift.CapacityError) as full:
        pages.map(world.main.key, 3, 4)
    assert (full.value.needed, full.value.capacity) == (4, 3)
    assert pages.pending == 3 and pages.block_of(world.main.key, 3) is None
