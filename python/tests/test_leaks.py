"""Memory stays flat, however many steps an engine makes."""

import gc
import os

import numpy as np
import pytest

import pagelift
from world import World


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flat(step, steps, room=4 << 20):
    """Whether memory grows with steps: what the first ones take is not counted. What a step would leak is written to, or is in no page."""
    for _ in range(max(steps // 10, 100)):
        step()
    gc.collect()
    before = resident()
    for _ in range(steps):
        step()
    gc.collect()
    grown = resident() - before
    assert grown < room, f"{grown} bytes after {steps} steps"


def test_steps_of_an_engine(cpu, request):
    world = World(cpu, np.random.default_rng(1))
    steps = request.config.getoption("--leak-steps")
    plan, reservations = pagelift.RestorePlan(world.geometry), pagelift.Reservations(world.geometry, 4)
    mirror = pagelift.MirrorPlan(world.geometry)
    mirror.bind(world.main.key, pagelift.RowBinding(world.memory.adopt(cpu, "device", np.zeros(4, np.int64))))
    lifts = pagelift.Launcher.bind(cpu, world.memory, plan)
    mirrors = pagelift.Launcher.bind(cpu, world.memory, mirror)
    groups = [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups]
    import_id = reservations.reserve(pagelift.Import(pagelift.PromptSpan(9), groups))

    def step():
        plan.clear()
        plan.lift_reserved(reservations, import_id)
        mirror.page_map.unmap(world.main.key, 1)
        mirror.page_map.map(world.main.key, 1, 3)
        for launcher, filled in ((lifts, plan), (mirrors, mirror)):
            ticket = launcher.stage(filled)
            launcher.launch()
            assert launcher.is_done(ticket)

    flat(step, steps)


def test_requests_errors_and_objects(cpu, request):
    world = World(cpu, np.random.default_rng(1))
    steps = request.config.getoption("--leak-steps") // 20
    reservations = pagelift.Reservations(world.geometry, 4)

    def step():
        groups = [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups]
        import_ = pagelift.Import(pagelift.PromptSpan(9), groups)
        import_id = reservations.reserve(import_)
        try:
            reservations.reserve(import_)
        except pagelift.PlanError as error:
            assert error.kind == "Reserved"
        reservations.release(import_id)
        region = world.memory.adopt(cpu, "device", np.ones(1 << 16, np.uint8))
        world.memory.release(region)
        plan = pagelift.RestorePlan(world.geometry, jobs=8, list_entries=8)
        plan.lift(import_)
        with pagelift.Launcher.bind(cpu, world.memory, plan) as launcher:
            launcher.stage(plan)
            launcher.launch()

    flat(step, steps)
    assert len(reservations) == 0 and len(world.memory) == 8


LEFT = bytes(range(256)) * (1 << 11)


def left(cpu):
    """A registry and a launcher that nobody closes, each with half a megabyte."""
    memory = pagelift.Registry()
    world = World(cpu, np.random.default_rng(1), blocks=3, pages=3)
    plan = pagelift.RestorePlan(world.geometry, jobs=8, list_entries=8)
    launcher = pagelift.Launcher.bind(cpu, world.memory, plan)
    launcher.stage(plan)
    for registry in (memory, world.memory):
        registry.write(registry.allocate(cpu, "host", len(LEFT)), 0, LEFT)
    return memory, launcher


def test_registries_and_launchers_that_nobody_closes(cpu, request):
    flat(lambda: left(cpu), request.config.getoption("--leak-steps") // 200, room=8 << 20)


@pytest.mark.parametrize("which", [0, 1])
def test_a_registry_or_launcher_that_stays_is_seen(cpu, which):
    kept = []
    with pytest.raises(AssertionError, match="bytes after"):
        flat(lambda: kept.append(left(cpu)[which]), 100, room=8 << 20)
