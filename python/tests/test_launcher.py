"""Tickets, counters, and what a launcher refuses."""

import numpy as np
import pytest

import pagelift
from world import World


def lift_plan(world, **options):
    plan = pagelift.RestorePlan(world.geometry, **options)
    fill(world, plan)
    return plan


def fill(world, plan):
    groups = [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups]
    plan.lift(pagelift.Import(pagelift.PromptSpan(9), groups))


def test_a_plan_runs_once(world):
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    first = launcher.stage(plan)
    assert launcher.state(first) == "pending" and not launcher.is_done(first) and launcher.report(first) is None
    second = launcher.stage(plan)
    assert first != second and (first.number, second.number) == (1, 2) and first.launcher == launcher.id
    launcher.launch()
    assert launcher.state(first) == "superseded" and launcher.is_done(second)
    assert launcher.report(second) == launcher.report(second)
    world.main.device[:] = 0
    launcher.launch()
    assert not world.main.device.any()
    counters = launcher.counters()
    assert (counters.staged, counters.launches, counters.done, counters.superseded) == (2, 2, 1, 1)
    assert counters.bytes == 2 * plan.bytes and counters.jobs == 2 * plan.jobs
    assert (counters.rows, counters.skipped) == (None, None)
    assert counters.as_dict()["done"] == 1 and counters.as_dict()["rows"] is None
    other = pagelift.Launcher.bind(world.backend, world.memory, plan)
    assert other.state(second) == "unknown" and len({first, second, other.stage(plan)}) == 3


def test_a_full_ring_is_an_error_with_its_oldest_ticket(world):
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, slots=3)
    tickets = [launcher.stage(plan) for _ in range(3)]
    with pytest.raises(pagelift.RingFullError) as full:
        launcher.stage(plan)
    assert (full.value.slots, full.value.oldest, full.value.kind) == (3, tickets[0], "RingFull")
    assert isinstance(full.value, pagelift.LaunchError)
    launcher.launch()
    assert [launcher.state(ticket) for ticket in tickets] == ["superseded", "superseded", "done"]
    launcher.stage(plan)


def test_options_are_checked(world):
    plan = lift_plan(world)
    for slots in (0, 65):
        with pytest.raises(pagelift.LaunchError):
            pagelift.Launcher.bind(world.backend, world.memory, plan, slots=slots)
    with pytest.raises((ValueError, OverflowError)):
        pagelift.Launcher.bind(world.backend, world.memory, plan, workers=0)
    with pytest.raises(pagelift.BackendError):
        pagelift.Cpu(threads=5000)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, workers=1)
    with pytest.raises(pagelift.LaunchError, match="no streams") as error:
        launcher.set_stream(1)
    assert error.value.kind == "NoStreams"
    with pytest.raises(TypeError, match="a stream is"):
        launcher.set_stream("stream")
    launcher.set_stream(None)
    with pytest.raises(pagelift.CaptureError) as error:
        launcher.record()
    assert error.value.kind == "NotCapturing"


def test_a_plan_of_another_type_geometry_or_capacity_is_refused(world):
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    staged = launcher.stage(plan)
    other = World(world.backend, world.rng)
    with pytest.raises(pagelift.LaunchError) as error:
        launcher.stage(lift_plan(other))
    assert error.value.kind == "OtherGeometry"
    with pytest.raises(pagelift.LaunchError) as error:
        launcher.stage(lift_plan(world, jobs=10_000))
    assert error.value.kind == "TableTooSmall"
    with pytest.raises(TypeError, match="another type"):
        launcher.stage(pagelift.WriteBackPlan(world.geometry))
    with pytest.raises(TypeError):
        launcher.stage(None)
    # What was staged before still runs.
    launcher.launch()
    assert launcher.is_done(staged)


def test_a_mirror_plan_is_its_launchers(world):
    plan = pagelift.MirrorPlan(world.geometry)
    first = pagelift.Launcher.bind(world.backend, world.memory, plan)
    first.stage(plan)
    second = pagelift.Launcher.bind(world.backend, world.memory, plan)
    with pytest.raises(pagelift.LaunchError) as error:
        first.stage(plan)
    assert error.value.kind == "OtherLauncher"
    second.stage(plan)


def test_a_pool_that_was_released_is_refused(world):
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    ticket = launcher.stage(plan)
    world.memory.release(world.main.regions["device"])
    before = world.snapshot()
    for call in (launcher.launch, lambda: launcher.stage(plan)):
        with pytest.raises(pagelift.RegistryError) as error:
            call()
        assert error.value.kind == "Unregistered" and "main device" in str(error.value)
    with pytest.raises(pagelift.RegistryError):
        pagelift.Launcher.bind(world.backend, world.memory, plan)
    world.check(before)
    assert launcher.state(ticket) == "pending"
    # The same memory again is as good as before.
    world.memory.adopt(world.backend, "device", world.main.device)
    launcher.launch()
    assert launcher.is_done(ticket)


def test_memory_of_another_registry_or_place_is_refused(world):
    plan = lift_plan(world)
    with pytest.raises(pagelift.RegistryError) as error:
        pagelift.Launcher.bind(world.backend, pagelift.Registry(), plan)
    assert error.value.kind == "Unregistered"
    slots = world.memory.adopt(world.backend, "host", np.zeros(4, np.int64))
    mirror = pagelift.MirrorPlan(world.geometry)
    mirror.bind(world.main.key, pagelift.RowBinding(slots))
    launcher = pagelift.Launcher.bind(world.backend, world.memory, mirror)
    with pytest.raises(pagelift.RegistryError, match="needs device memory"):
        launcher.stage(mirror)


def test_a_closed_launcher_refuses_everything(world):
    plan = lift_plan(world)
    with pagelift.Launcher.bind(world.backend, world.memory, plan) as launcher:
        ticket = launcher.stage(plan)
    launcher.close()
    for call in (
        lambda: launcher.stage(plan),
        launcher.launch,
        launcher.wait,
        launcher.record,
        launcher.counters,
        lambda: launcher.set_stream(None),
        lambda: launcher.state(ticket),
        lambda: launcher.is_done(ticket),
    ):
        with pytest.raises(pagelift.LaunchError) as error:
            call()
        assert error.value.kind == "Closed"
    assert "closed" in repr(launcher)


def test_everything_outlives_what_it_came_from(cpu, rng):
    """Python drops objects in any order."""
    world = World(cpu, rng)
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(cpu, world.memory, plan)
    pages = pagelift.MirrorPlan(world.geometry).page_map
    key = world.main.key
    del world
    ticket = launcher.stage(plan)
    launcher.launch()
    assert launcher.is_done(ticket)
    pages.map(key, 0, 0)
    assert pages.block_of(key, 0) == 0


def test_wrong_geometries_are_refused(cpu, rng):
    memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
    region = memory.adopt(cpu, "host", rng.integers(0, 256, 1000, np.uint8))
    slab = memory.adopt(cpu, "device", rng.integers(0, 256, 1000, np.uint8))
    host, device = builder.pool("host", "host", 4, [region]), builder.pool("slab", "device", 4, [slab])
    layout = pagelift.PagedLayout(8, [("kv", 16)])
    side = lambda pool, at, layout=layout, stride=128: pagelift.SideSpec.packed(pool, [at], [0], stride, layout)
    ring = pagelift.RingLayout(8, 16)

    def kind(call):
        with pytest.raises(pagelift.GeometryError) as error:
            call()
        return error.value.kind

    group = lambda **changes: builder.group(
        **{"name": "kv", "layers": 1, "landing": "host", "lift": "tail", "host": side(host, region), "device": side(device, slab)}
        | changes
    )
    assert kind(lambda: builder.pool("host", "host", 1, [region])) == "NameTwice"
    assert kind(lambda: builder.pool("empty", "host", 0, [region])) == "Zero"
    assert kind(lambda: group(host=side(host, region, stride=300))) == "OutsideRegions"
    assert kind(lambda: group(host=side(host, region, stride=64))) == "BlocksOverlap"
    assert kind(lambda: group(host=side(device, slab))) == "WrongMemory"
    assert kind(lambda: group(host=None)) == "MissingSide"
    assert kind(lambda: group(host=None, device=None)) == "MissingSide"
    assert kind(lambda: group(layers=2)) == "Bases"
    assert kind(lambda: group(device=side(device, slab, pagelift.PagedLayout(8, [("kv", 8)])))) == "SidesDiffer"
    with pytest.raises(TypeError, match="different kinds"):
        group(device=side(device, slab, ring))
    with pytest.raises(ValueError, match="lift of a ring or state"):
        group(host=side(host, region, ring), device=side(device, slab, ring))
    with pytest.raises(ValueError, match="lift of a paged"):
        group(lift="state")
    key = group()
    sides = [builder.main_side(key, place) for place in ("host", "device")]
    assert kind(lambda: builder.route(sides[0], sides[0])) == "NoSuchRoute"
    assert kind(lambda: builder.compact_route(*sides)) == "SidesDiffer"
    with pytest.raises(TypeError, match="the group is paged"):
        builder.side(key, side(host, region, ring))
    foreign = pagelift.GeometryBuilder()
    assert kind(lambda: foreign.digest(sides[0])) == "ForeignKey"
    geometry = builder.build()
    assert (geometry.groups, geometry.pools) == (["kv"], ["host", "slab"])
    assert geometry.block_slots(key, "host") == 8
    assert kind(builder.build) == "Built" and kind(lambda: builder.digest(sides[0])) == "Built"


def test_reprs_tell_what_they_are(world):
    plan = lift_plan(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    told = {
        repr(world.backend): "Cpu(2 threads)",
        repr(world.memory): "Registry(8 regions)",
        repr(world.main.key): "GroupKey(\"main\", paged)",
        repr(world.geometry): "group `index`: Paged, 2 layers",
        repr(plan): "host to device: 4 jobs",
        repr(launcher): f"Launcher({launcher.id}, cpu)",
        repr(launcher.stage(plan)): f"Ticket(1 of launcher {launcher.id})",
        repr(pagelift.PromptSpan(5)): "5 tokens",
        repr(world.main.regions["host"]): "host, uint8",
        repr(launcher.counters()): "staged=1",
    }
    for text, expected in told.items():
        assert expected in text, text
