"""Pages are written back, gathered, zeroed and digested: whole pools against NumPy."""

import numpy as np
import pytest

import pagelift
from world import BLOCK_TOKENS, World


def test_spills_and_checkpoints(world):
    plan = pagelift.WriteBackPlan(world.geometry)
    expected = world.snapshot()
    for group in (world.main, world.index):
        pages, blocks = world.choose(group, "device", 4), world.choose(group, "host", 4)
        plan.spill(group.key, pages, np.array(blocks))
        host, device = expected[group.name]
        for page, block in zip(pages, blocks, strict=True):
            for layer in range(group.layers):
                group.copy_rows(device[layer, page], host[block, layer], range(group.rows))
    plan.checkpoint(world.state.key, 3, 7)
    host, device = expected["state"]
    for layer in range(world.state.layers):
        world.state.copy_rows(device[layer, 3], host[7, layer], [0])
    launcher, _ = world.run(plan)
    world.check(expected)
    assert launcher.counters().bytes == plan.bytes
    with pytest.raises(TypeError, match="checkpointed"):
        plan.spill(world.state.key, [0], [0])
    with pytest.raises(TypeError, match="spilled"):
        plan.checkpoint(world.main.key, 0, 0)


@pytest.mark.parametrize("direction", ["host to device", "device to host", "device to device"])
def test_gathers_blocks_along_routes(cpu, rng, direction):
    world = World(cpu, rng, build=False)
    source, destination = direction.split(" to ")
    routes = {}
    for group in world.groups:
        sides = [world.builder.main_side(group.key, place) for place in (source, destination)]
        routes[group.name] = world.builder.route(*sides)
        assert routes[group.name].direction == direction
    world.geometry = world.builder.build()
    plan = pagelift.PagePlan(world.geometry, direction)
    expected = world.snapshot()
    for group in world.groups:
        ids = world.choose(group, "device", 8)
        from_, to = ids[:4], ids[4:]
        if source == "host":
            from_ = world.choose(group, "host", 4)
        if destination == "host":
            to = world.choose(group, "host", 4)
        plan.gather(routes[group.name], from_, to)
        host, device = expected[group.name]
        for one, other in zip(from_, to, strict=True):
            for layer in range(group.layers):
                page = host[one, layer] if source == "host" else device[layer, one]
                target = host[other, layer] if destination == "host" else device[layer, other]
                group.copy_rows(page.copy(), target, range(group.rows))
    world.run(plan)
    world.check(expected)
    other = next(way for way in ("host to device", "device to host", "device to device") if way != direction)
    with pytest.raises(TypeError):
        pagelift.PagePlan(world.geometry, other).gather(routes["main"], [0], [1])


def test_zeroes_rows(world):
    plan = pagelift.RestorePlan(world.geometry)
    expected = world.snapshot()
    for group in (world.main, world.index, world.ring):
        plan.zero(world.geometry.lift_route(group.key), 4, 1, 2)
        for layer in range(group.layers):
            for row in (1, 2):
                for piece in group.row(expected[group.name][1][layer, 4], row):
                    piece[:] = 0
    world.run(plan)
    world.check(expected)
    for wrong, error in [((4, 1, 1), "WrittenTwice"), ((4, BLOCK_TOKENS, 1), "RowsOutOfRange"), ((99, 0, 1), "OutOfRange")]:
        with pytest.raises(pagelift.PlanError) as found:
            plan.zero(world.geometry.lift_route(world.main.key), *wrong)
        assert found.value.kind == error
    with pytest.raises(TypeError):
        plan.zero(world.geometry.spill_route(world.main.key), 0, 0, 1)


def test_digests_tell_equal_rows_from_others(cpu, rng):
    world = World(cpu, rng, build=False)
    keys = {
        (group.name, place): world.builder.digest(world.builder.main_side(group.key, place))
        for group in world.groups
        for place in ("host", "device")
    }
    world.geometry = world.builder.build()
    plan = pagelift.DigestPlan(world.geometry)
    numbers, rows = {}, {"main": 20, "index": 6, "ring": 8, "state": 1}
    for group in world.groups:
        count = -(-rows[group.name] // group.rows)
        blocks, pages = world.choose(group, "host", count), world.choose(group, "device", count)
        for row in range(rows[group.name]):
            at, within = divmod(row, group.rows)
            for layer in range(group.layers):
                group.copy_rows(group.host[blocks[at], layer], group.device[layer, pages[at]], [within])
        numbers[group.name] = (
            plan.host(keys[group.name, "host"], blocks, rows[group.name]),
            plan.device(keys[group.name, "device"], pages, rows[group.name]),
            (blocks, pages),
        )
    untouched = world.snapshot()
    launcher, ticket = world.run(plan)
    world.check(untouched)
    values = set()
    for group in world.groups:
        one, other, _ = numbers[group.name]
        value = launcher.digest(ticket, one)
        assert value == launcher.digest(ticket, other) and 0 <= value < 2**64
        values.add(value)
    assert len(values) == len(world.groups)
    # One byte of one row of one layer makes the difference; a hole does not.
    for group in world.groups:
        _, _, (_, pages) = numbers[group.name]
        group.row(group.device[group.layers - 1, pages[0]], 0)[0][0] ^= 1
        if rows[group.name] % group.rows:
            group.row(group.device[0, pages[-1]], group.rows - 1)[0][:] ^= 255
    again = launcher.stage(plan)
    with pytest.raises(pagelift.LaunchError) as pending:
        launcher.digest(again, one)
    assert pending.value.kind == "DigestsPending"
    launcher.launch()
    for group in world.groups:
        one, other, _ = numbers[group.name]
        assert launcher.digest(again, one) != launcher.digest(again, other)
    with pytest.raises(pagelift.LaunchError) as gone:
        launcher.digest(ticket, one)
    assert gone.value.kind == "DigestsGone"
    plan.clear()
    with pytest.raises(pagelift.PlanError):
        plan.host(keys["main", "device"], [0], 1)
    with pytest.raises(pagelift.LaunchError) as repeated:
        pagelift.Launcher.bind(cpu, world.memory, plan, repeat=True)
    assert repeated.value.kind == "Repeated"
    with pytest.raises(TypeError):
        world.run(pagelift.RestorePlan(world.geometry))[0].digest(ticket, one)


def test_layouts_of_known_models():
    known = {
        1152 * 64: pagelift.PagedLayout.mla_bf16(64),
        656 * 64: pagelift.PagedLayout.fp8_ds_mla(64),
        132 * 64: pagelift.PagedLayout.indexer_fp8(64),
        68 * 64: pagelift.PagedLayout.indexer_mxfp4(64),
        65 * 576: pagelift.PagedLayout.deepseek_v4(64, 576),
        528 * 64 + 512 - 528 * 64 % 512 if 528 * 64 % 512 else 528 * 64: pagelift.PagedLayout.deepseek_v4_1(64),
        16 * 2 * 1024: pagelift.PagedLayout.qsa_main_bf16(16, 2),
        16 * 2 * 512: pagelift.PagedLayout.qsa_main_fp8(16, 2),
        16 * 64: pagelift.PagedLayout.qsa_compressed_bf16(16),
        16 * 32: pagelift.PagedLayout.qsa_compressed_fp8(16, 128),
    }
    for page, layout in known.items():
        assert layout.page_bytes == page and f"{page} B" in repr(layout)
    dense = pagelift.PagedLayout.dense(16, heads=8, dim=128, value_bytes=2, order="hnd", regions="separate")
    assert dense.region_bytes == [16 * 8 * 256] * 2 and len(dense.segments) == 16
    assert dense.segments[1].offset == 16 * 256 and dense.padded_to(40_000).region_bytes == [40_000] * 2
    assert pagelift.RingLayout.qsa(1600, 2, 256).slots == 8
    gdn = pagelift.StateLayout.gdn(conv_dim=10_240, v_heads=48, v_dim=128, k_dim=128, spec=2)
    assert (gdn.state_bytes, gdn.conv_order) == (3_248_128, "sd")
    ple = pagelift.StateLayout.ple(kernel=4, ngram=2, hidden=64, hc=1)
    assert ple.state_bytes == 6 * 64 * 2
    ssm = pagelift.StateLayout.ssm(kernel=4, inner=128, groups=1, state=16, heads=4, head_dim=32)
    assert ssm.state_bytes == 3 * 160 * 2 + 4 * 32 * 16 * 4
    placed = pagelift.StateLayout([("a", 64, 8), ("b", 0, 64)], page_bytes=128, conv_order="ds")
    assert (placed.state_bytes, placed.page_bytes, placed.conv_order) == (72, 128, "ds")
    segment = pagelift.Segment("v", 16, 8, 24, region=1)
    assert (segment.name, segment.offset, segment.row_bytes, segment.row_stride, segment.region) == ("v", 16, 8, 24, 1)
    interleaved = pagelift.PagedLayout(4, [pagelift.Segment("k", 0, 8, 16), pagelift.Segment("v", 8, 8, 16)])
    assert interleaved.page_bytes == 64 and interleaved.complete_rows(3) == 3
    for wrong in (
        lambda: pagelift.PagedLayout(16, []),
        lambda: pagelift.PagedLayout(16, [("a", 0)]),
        lambda: pagelift.PagedLayout(16, [("a", 4), ("a", 4)]),
        lambda: pagelift.PagedLayout(10, [("a", 4)], tokens_per_row=4),
        lambda: pagelift.PagedLayout(4, [pagelift.Segment("k", 0, 8, 16), pagelift.Segment("v", 4, 8, 16)]),
        lambda: pagelift.Segment("k", 0, 8, 4),
        lambda: pagelift.RingLayout(0, 4),
        lambda: pagelift.StateLayout([("a", 4)], page_bytes=3),
        lambda: pagelift.StateLayout.gdn(conv_dim=10, v_heads=3, v_dim=1, k_dim=1, tp=2),
    ):
        with pytest.raises(pagelift.LayoutError):
            wrong()
    with pytest.raises(TypeError, match="pairs or triples"):
        pagelift.StateLayout([("a", 4), ("b", 8, 4)])
    with pytest.raises(ValueError, match="expected one of nhd, hnd"):
        pagelift.PagedLayout.dense(16, heads=8, dim=128, value_bytes=2, order="ndh", regions="packed")
