"""Callers that are careless or hostile: an exception that says so, and never a crash, a hang or a wrong answer."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pagelift
from test_threads import together
from world import World


class Claims(Sequence):
    """A sequence that says it has more items than there is room for."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        raise IndexError(index)


class ClaimingList(list):
    def __len__(self):
        return 2**62


class Array:
    def __init__(self, list_):
        self.tolist = lambda: list_


@pytest.mark.parametrize("list_", [range(2**40), range(2**60), Claims(2**50), ClaimingList([1])])
def test_lists_that_claim_to_be_long(cpu, list_):
    world = World(cpu, np.random.default_rng(1), build=False)
    key, region, layout = world.main.key, world.main.regions["host"], world.main.layout
    pool = world.builder.pool("pool", "host", 1, [world.memory.allocate(cpu, "host", 64)])
    for call in (
        lambda: pagelift.ImportGroup(key, list_, [0]),
        lambda: pagelift.ImportGroup(key, [0], Array(list_)),
        lambda: pagelift.GroupFrames(key, list_, [0]),
        lambda: pagelift.Import(pagelift.PromptSpan(1), list_),
        lambda: pagelift.PagedLayout(16, list_),
        lambda: pagelift.StateLayout(list_),
        lambda: pagelift.GeometryBuilder().pool("pool", "host", 1, list_),
        lambda: pagelift.SideSpec.packed(pool, list_, [0], 1, layout),
        lambda: pagelift.SideSpec.packed(pool, [region], list_, 1, layout),
        lambda: pagelift.SideSpec.layer_separate(pool, list_, 1, layout),
        lambda: pagelift.Lifecycle(writers=list_, block_tokens=1, requests=1, blocks=1, pages=1),
    ):
        # No room is looked for: some systems promise any.
        with pytest.raises(MemoryError, match="at most 268435456"):
            call()


def test_lists_are_lists():
    for nothing in ("12", {0: 1}, {1, 2}, iter([1]), (n for n in [1]), 5, None, 1.5):
        with pytest.raises(TypeError):
            pagelift.PagedLayout(16, nothing)
    assert pagelift.PagedLayout(16, (("kv", 4),)) == pagelift.PagedLayout(16, [("kv", 4)])


def nested(depth):
    inside = []
    for _ in range(depth):
        inside = [inside]
    return inside


def test_events_that_never_end():
    lifecycle = pagelift.Lifecycle(block_tokens=1, requests=1, blocks=1, pages=1)
    around, inside = {"event": "begin"}, []
    around["request"] = around
    inside.append(inside)
    for endless in (around, inside, nested(10**5), {"event": "begin", "x": nested(10**5)}, {"event": "begin", "x": inside}):
        with pytest.raises(ValueError, match="not an event: it is nested too deep"):
            lifecycle.apply(endless)
        with pytest.raises(ValueError, match="not a request"):
            lifecycle.request(endless)
    assert lifecycle.counters()["events"] == 0


def test_events_of_other_things():
    lifecycle = pagelift.Lifecycle(block_tokens=16, requests=2, blocks=4, pages=4)
    event = {"event": "admit", "prompt": np.int64(20), "policy": "lift-tail", "producer": np.bool_(False), "hashes": ()}
    # Numbers and flags may be NumPy's.
    assert lifecycle.apply(event)[0]["effect"] == "admitted"
    prompts = [{**event, "prompt": wrong} for wrong in (np.bool_(True), 2**64, 1.5, float("nan"), [20])]
    for wrong in (*prompts, {**event, "producer": 1}, {1: 2}, {"event": "\ud800"}, object):
        with pytest.raises(ValueError):
            lifecycle.apply(wrong)

    class Grows:
        """A number, which changes what it is read from."""

        def __index__(self):
            changing.update({f"key {len(changing)}": nested(10**5)})
            return 1

    changing = {"event": "begin", "tokens": Grows(), "request": {}}
    with pytest.raises(ValueError, match="not an event"):
        lifecycle.apply(changing)

    class Interrupts:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.apply({"event": "begin", "tokens": Interrupts()})


def test_finalizers_may_use_what_is_in_use(cpu):
    """Python before 3.12 collects garbage inside of calls, and finalizers run there."""
    world = World(cpu, np.random.default_rng(1))
    plan, mirror = pagelift.RestorePlan(world.geometry), pagelift.MirrorPlan(world.geometry)
    import_ = pagelift.Import(pagelift.PromptSpan(9), [pagelift.ImportGroup(group.key, [1], [1]) for group in world.groups])
    plan.lift(import_)
    launcher = pagelift.Launcher.bind(cpu, world.memory, plan, slots=1)
    lifecycle = pagelift.Lifecycle(block_tokens=16, requests=4, blocks=8, pages=8)
    reservations, region = pagelift.Reservations(world.geometry, 1), world.main.regions["host"]
    key, spec = world.main.key, pagelift.HostPoolSpec(4, 4096, chunk_bytes=1)
    request = {"index": 0, "generation": 0}
    calls = [
        lambda: launcher.stage(plan),
        lambda: launcher.state(launcher.stage(plan)),
        lambda: launcher.set_stream(4),
        launcher.launch,
        launcher.counters,
        lambda: pagelift.Launcher.bind(cpu, world.memory, plan, slots=1000),
        lambda: pagelift.Launcher.bind(cpu, world.memory, plan, stream=5),
        lambda: plan.lift(import_),
        lambda: reservations.reserve(import_),
        lambda: mirror.page_map.map(key, 1, 99),
        lambda: world.memory.adopt(cpu, "host", world.main.host),
        lambda: world.memory.allocate(cpu, "host", 2**62),
        lambda: world.memory.allocate_pool(cpu, spec),
        lambda: world.memory.read(region, 0, 2**40),
        lambda: world.memory.write(region, 2**40, b"a"),
        lambda: world.memory.release(pagelift.Registry().allocate(cpu, "host", 8)),
        lambda: lifecycle.apply({"event": "admit", "prompt": 20, "policy": "lift-tail", "producer": False, "hashes": []}),
        lambda: lifecycle.apply({"event": "begin", "request": request, "tokens": 1}),
        lambda: lifecycle.request(request),
        lambda: lifecycle.holder(0),
        lifecycle.orders,
        lifecycle.counters,
    ]
    inside, ran = [False], [0]

    def attempt(call):
        try:
            call()
        except (pagelift.PageliftError, ValueError):
            pass

    class Garbage:
        def __init__(self):
            self.itself = self

        def __del__(self):
            if not inside[0]:
                inside[0] = True
                ran[0] += 1
                for call in calls:
                    attempt(call)
                inside[0] = False

    def work():
        threshold = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            for _ in range(20):
                for call in calls:
                    Garbage()
                    attempt(call)
        finally:
            gc.set_threshold(*threshold)

    together(work)
    assert ran[0]


def test_what_was_staged_is_garbage_after_its_failure_was_raised(cpu):
    class Watched:
        pass

    def step():
        world = World(cpu, np.random.default_rng(1))
        frames = [pagelift.GroupFrames(group.key, range(9), range(9)) for group in (world.main, world.ring, world.state)]
        frames.append(pagelift.GroupFrames(world.index.key, range(9), range(9), each=1))
        lifecycle = pagelift.Lifecycle(block_tokens=16, requests=2, blocks=9, pages=9)
        runner = pagelift.Runner.bind(cpu, world.memory, world.geometry, frames, lifecycle.options, jobs=1)
        event = {"event": "admit", "prompt": 20, "policy": "lift-tail", "producer": False, "hashes": []}
        request = lifecycle.apply(event)[0]["request"]
        watched = Watched()
        watches.append(weakref.ref(watched))
        for event in ({"event": "posted", "request": request, "ranks": 1, "each": 0},):
            lifecycle.apply(event)
            for order in lifecycle.orders():
                runner.hear(order)
        staged = runner.stage()
        assert staged.failed is not None
        raise staged.failed

    watches = []
    with pytest.raises(pagelift.PageliftError):
        step()
    gc.collect()
    assert watches[0]() is None


def test_keys_of_another_geometry(cpu):
    own, other = World(cpu, np.random.default_rng(1)), World(cpu, np.random.default_rng(2))
    frames = [pagelift.GroupFrames(group.key, range(9), range(9)) for group in (other.main, other.ring, other.state)]
    frames.append(pagelift.GroupFrames(other.index.key, range(9), range(9), each=1))
    options = pagelift.Lifecycle(block_tokens=16, requests=2, blocks=9, pages=9).options
    with pytest.raises(pagelift.PlanError) as error:
        pagelift.Runner.bind(cpu, own.memory, own.geometry, frames, options)
    assert error.value.kind == "ForeignGroup"
    for group in other.groups:
        assert own.geometry.block_slots(group.key, "host") is None and own.geometry.lift_route(group.key) is None
        assert other.geometry.block_slots(group.key, "host") is not None


def test_every_error_has_a_kind(cpu, world):
    launcher = pagelift.Launcher.bind(cpu, world.memory, pagelift.RestorePlan(world.geometry))
    with pytest.raises(pagelift.LaunchError) as error:
        launcher.set_stream(4)
    assert error.value.kind == "NoStreams"


def test_bytes_that_there_is_no_room_for(cpu):
    # More than there are addresses: where a system promises any memory, room for less is found, and then filled.
    size = 2**62

    class Vast:
        __array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (4096, False), "version": 3}

    memory = pagelift.Registry()
    region = memory.adopt(cpu, "host", Vast())
    with pytest.raises(MemoryError):
        memory.read(region, 0, size)
    with pytest.raises(pagelift.RegistryError):
        pagelift.Registry().read(region, 0, size)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_copies_and_ends():
    """In a process of its own, which forks before it has threads of others'."""
    code = """
        import os, sys
        import numpy as np
        import pagelift

        cpu, memory, builder = pagelift.Cpu(2), pagelift.Registry(), pagelift.GeometryBuilder()
        rows, width = 1 << 10, 1 << 13
        arrays = np.full((rows, width), 7, np.uint8), np.zeros((rows, width), np.uint8)
        layout, sides = pagelift.PagedLayout(rows, [("kv", width)]), []
        for place, array in zip(("host", "device"), arrays):
            region = memory.adopt(cpu, place, array)
            pool = builder.pool(place, place, 1, [region])
            sides.append(pagelift.SideSpec.packed(pool, [region], [0], array.nbytes, layout))
        group = builder.group("kv", layers=1, landing="host", lift="tail", host=sides[0], device=sides[1])
        plan = pagelift.RestorePlan(builder.build())
        plan.lift(pagelift.Import(pagelift.PromptSpan(rows), [pagelift.ImportGroup(group, [0], [0])]))
        launcher = pagelift.Launcher.bind(cpu, memory, plan)
        launcher.stage(plan)
        launcher.launch()
        child = os.fork()
        arrays[1][:] = 0
        ticket = launcher.stage(plan)
        launcher.launch()
        assert launcher.is_done(ticket) and (arrays[1] == 7).all()
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """
    folder = Path(pagelift.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], timeout=60, capture_output=True, text=True,
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert (run.returncode, run.stderr) == (0, "")
