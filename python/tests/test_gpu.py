"""What takes a GPU, over the driver in software: launches, captures, pools, copies, a rank's steps, and what users do wrong with them.

The driver runs work as late as it may, so that what came too early is seen. After each test nothing may be left in it.
"""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import pagelift
import test_lifecycle
from driver import EARLY, LATE, RELAXED
from test_threads import together
from world import World


@pytest.fixture(autouse=True)
def nothing_is_left(driver, request):
    gc.collect()
    driver.enter()
    driver.pace(LATE)
    before = driver.live()
    yield
    # What fixtures have made is gone too.
    request.node.funcargs.clear()
    gc.collect()
    assert not driver.spare() and driver.live() == before


@pytest.fixture
def gpu(driver):
    return pagelift.Cuda()


@pytest.fixture
def world(driver, gpu):
    return World(gpu, np.random.default_rng(3), on_device=driver.copied)


@pytest.fixture
def stream(driver):
    return driver.stream()


def lift_of(world, tokens=9, block=1, page=2, mode="exact"):
    """A plan that lifts one import, and what the pools are after it."""
    plan = pagelift.RestorePlan(world.geometry)
    groups = [pagelift.ImportGroup(group.key, [block], [page]) for group in world.groups]
    plan.lift(pagelift.Import(pagelift.PromptSpan(tokens), groups), mode)
    expected = world.snapshot()
    for group in world.groups:
        host, device = expected[group.name]
        rows = tokens // group.tokens_per_row if group in (world.main, world.index) else group.rows
        for layer in range(group.layers):
            group.copy_rows(host[block, layer], device[layer, page], range(rows))
    return plan, expected


def refused(error, kind, call):
    with pytest.raises(error) as raised:
        call()
    assert getattr(raised.value, "kind", None) == kind, raised.value
    return str(raised.value)


def enqueues_nothing(driver, call):
    before = driver.enqueued()
    try:
        return call()
    finally:
        assert driver.enqueued() == before


def test_what_a_gpu_says_of_itself(gpu):
    assert (gpu.name, gpu.device, gpu.driver, gpu.multiprocessors) == ("cuda", "GPU in software", (13, 0), 2)
    assert gpu.batches_copies and gpu.calibration is None and "compute capability 9.0" in repr(gpu)
    for ordinal in (1, 2**31):
        refused(pagelift.BackendError, "NoDevice", lambda: pagelift.Cuda(ordinal))
    pace = pagelift.Pace(2, 10**9)
    paces = pagelift.Paces(pace, pace)
    measured = pagelift.Calibration(host_to_device=paces, device_to_host=paces, device_to_device=paces)
    assert repr(pagelift.Cuda(calibration=measured).calibration) == repr(measured)


def test_a_launch_runs_on_its_stream(world, stream, driver):
    plan, expected = lift_of(world)
    before = world.snapshot()
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream)
    ticket = launcher.stage(plan)
    launcher.launch()
    world.check(before)
    assert launcher.state(ticket) == "pending" and f"stream {stream.handle:#x}" in repr(launcher)
    stream.synchronize()
    world.check(expected)
    assert launcher.is_done(ticket) and launcher.counters().done == 1
    # Another stream comes after what is on the one before, the default one too.
    for other in (0, None, driver.stream()):
        plan.clear()
        launcher.set_stream(other)
        launcher.stage(plan)
        launcher.launch()
    launcher.wait()
    assert launcher.counters().done == 4
    launcher.close()


class Named:
    """A stream of somebody's, by its handle; `ends` is called when nobody has this any more."""

    def __init__(self, handle, ends=lambda: None):
        self.handle, self.ends = handle, ends

    def __cuda_stream__(self):
        return 0, self.handle

    def __del__(self):
        self.ends()


def test_a_stream_is_kept_while_it_is_used(world, driver):
    """Whatever else names it."""
    plan, expected = lift_of(world)
    stream = driver.stream()
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream)
    handle, kept = stream.handle, weakref.ref(stream)
    del stream
    for name in (handle, np.uint64(handle), Named(handle)):
        launcher.set_stream(name)
        gc.collect()
        assert kept(), name
    launcher.stage(plan)
    launcher.launch()
    launcher.wait()
    world.check(expected)
    launcher.close()


def test_what_stood_for_a_stream_ends_outside_of_locks(driver, gpu):
    engine = Engine(driver, gpu)
    plan, ended = pagelift.RestorePlan(engine.geometry), []

    def use():
        assert repr(plan)
        engine.memory.release(engine.memory.allocate(gpu, "device", 64))
        ended.append(plan)

    uses, options = [use], engine.lifecycle.options
    binds = [
        lambda name: pagelift.Launcher.bind(gpu, engine.memory, plan, stream=name),
        lambda name: pagelift.Runner.bind(gpu, engine.memory, engine.geometry, engine.frames, options, stream=name),
        lambda name: pagelift.CopyEngine(gpu, engine.memory, stream=name),
    ]

    def work():
        for bind in binds * 2:
            # The one before is known to the registry alone.
            bound = bind(Named(engine.stream.handle, lambda: [use() for use in uses]))
            if hasattr(bound, "set_stream"):
                bound.set_stream(Named(engine.stream.handle, lambda: [use() for use in uses]))

    together(work)
    assert len(ended) == 4 * len(binds) - 1
    uses.clear()


def test_each_replay_carries_out_what_is_staged(world, stream):
    plan, expected = lift_of(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream)
    with stream.captured() as graphs:
        launcher.record()
    [graph] = graphs
    ticket = launcher.stage(plan)
    graph.replay(stream)
    launcher.wait()
    world.check(expected)
    graph.replay(stream)
    launcher.wait()
    assert launcher.is_done(ticket) and launcher.counters().launches == 0
    # Graphs may be replayed without pagelift's knowledge.
    region = world.main.regions["device"]
    refused(pagelift.RegistryError, "Recorded", lambda: world.memory.release(region))
    launcher.close()
    world.memory.release(region)


def test_what_a_capture_forbids_spoils_nothing(world, stream, driver):
    plan, expected = lift_of(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream)
    engine = pagelift.CopyEngine(world.backend, world.memory, stream=stream)
    refused(pagelift.CaptureError, "NotCapturing", launcher.record)
    refused(pagelift.CaptureError, "NotCapturing", lambda: engine.record(plan))
    with stream.captured() as graphs:
        launcher.record()
        for call in (
            launcher.launch,
            launcher.wait,
            launcher.close,
            lambda: launcher.stage(plan),
            lambda: launcher.set_stream(None),
            lambda: engine.copy(plan),
            lambda: engine.set_stream(0),
            lambda: pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream),
        ):
            with pytest.raises(pagelift.CaptureError):
                enqueues_nothing(driver, call)
        assert stream.is_capturing == 1
    launcher.stage(plan)
    graphs[0].replay(stream)
    launcher.wait()
    world.check(expected)
    launcher.close()


def test_the_default_stream_amid_the_capture_of_another(world, driver):
    plan, expected = lift_of(world)
    blocking = driver.stream(blocking=True)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=0)
    launcher.stage(plan)
    launcher.launch()
    blocking.begin()
    for call in (launcher.wait, launcher.record, launcher.close, lambda: launcher.stage(plan), lambda: world.memory.read(world.main.regions["host"], 0, 1)):
        refused(pagelift.CaptureError, "CapturingAnother", call)
    graph = blocking.end()
    launcher.wait()
    world.check(expected)
    # It was recorded nowhere.
    world.memory.release(world.main.regions["device"])


def test_a_launcher_that_was_not_bound_leaves_the_plan_to_another(world, stream):
    plan = pagelift.MirrorPlan(world.geometry)
    plan.page_map.map(world.main.key, 1, 2)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    plan.page_map.map(world.main.key, 2, 3)
    stream.begin()
    bind = lambda on: pagelift.Launcher.bind(world.backend, world.memory, plan, stream=on)
    refused(pagelift.CaptureError, "Capturing", lambda: bind(stream))
    stream.end()
    refused(pagelift.BackendError, "PerThreadStream", lambda: bind(2))
    refused(pagelift.DriverError, "Driver", lambda: bind(0xDEAD0))
    assert plan.page_map.pending == 1
    launcher.stage(plan)
    bind(stream)
    refused(pagelift.LaunchError, "OtherLauncher", lambda: launcher.stage(plan))


class Of:
    """What says that it stands for a stream."""

    def __init__(self, handle):
        self.cuda_stream = handle


class Says:
    def __init__(self, said):
        self.said = said

    def __cuda_stream__(self):
        return self.said


class Raises:
    @property
    def cuda_stream(self):
        raise ValueError("no stream today")


NO_STREAMS = [True, -1, 2**64, 1.5, "7", b"", [], object(), np.zeros(2), Raises()]
NO_STREAMS += [*map(Of, ("a", -1, None, 2**64, True)), *map(Says, (3, None, (0,), (0, 1, 2), (0, "a"), (0, -1)))]


@pytest.mark.parametrize("wrong", NO_STREAMS, ids=repr)
def test_streams_that_are_none(world, driver, wrong):
    plan, _ = lift_of(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    engine = pagelift.CopyEngine(world.backend, world.memory)
    for call in (
        lambda: launcher.set_stream(wrong),
        lambda: engine.set_stream(wrong),
        lambda: pagelift.CopyEngine(world.backend, world.memory, stream=wrong),
        lambda: pagelift.Launcher.bind(world.backend, world.memory, plan, stream=wrong),
    ):
        with pytest.raises(TypeError, match=f"a stream is an integer .*found {type(wrong).__name__}: "):
            enqueues_nothing(driver, call)
    assert "stream" not in repr(launcher)


def test_an_interrupt_stays_what_it_is(world):
    class Interrupts:
        def __index__(self):
            raise KeyboardInterrupt

    launcher = pagelift.Launcher.bind(world.backend, world.memory, lift_of(world)[0])
    for stream in (Interrupts(), Of(Interrupts())):
        with pytest.raises(KeyboardInterrupt):
            launcher.set_stream(stream)


class Lies:
    """Says that memory is a GPU's."""

    def __init__(self, array, address=None, bytes_=None):
        self.array = array
        address = array.ctypes.data if address is None else address
        shape = (array.nbytes if bytes_ is None else bytes_,)
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "|u1", "data": (address, False), "version": 3}


def test_tensors_that_lie(gpu, driver):
    memory, own = pagelift.Registry(), driver.memory(64)
    adopt = lambda tensor, place="device": memory.adopt(gpu, place, tensor)
    for lie in (Lies(np.zeros(64, np.uint8)), Lies(own, bytes_=1 << 30), Lies(own, address=8), Lies(own, address=own.ctypes.data - 1)):
        assert "GPU 0" in refused(pagelift.RegistryError, "NotOnGpu", lambda: adopt(lie))
    refused(pagelift.TensorError, "WrongDevice", lambda: adopt(np.zeros(8)))
    refused(pagelift.TensorError, "WrongDevice", lambda: adopt(own, "host"))
    refused(pagelift.TensorError, "NoMemory", lambda: adopt(own[:0]))
    refused(pagelift.TensorError, "NotContiguous", lambda: adopt(own[::2]))
    assert len(memory) == 0
    region = adopt(own)
    refused(pagelift.RegistryError, "Overlaps", lambda: adopt(own[8:9]))
    memory.write(region, 3, b"abc")
    assert memory.read(region, 2, 5)[1:4] == b"abc" and own[3:6].tobytes() == b"abc"
    # It is kept, whoever else lets it go.
    del own
    gc.collect()
    assert memory.read(region, 3, 3) == b"abc"


def test_objects_of_others(world, gpu, cpu, driver):
    """Of another `Cuda` of the same GPU, which reaches the same memory, and of the CPU backend."""
    plan, expected = lift_of(world)
    other = World(cpu, np.random.default_rng(4))
    bind = lambda backend, memory=world.memory: pagelift.Launcher.bind(backend, memory, plan)
    refused(pagelift.RegistryError, "OutOfReach", lambda: bind(cpu))
    refused(pagelift.RegistryError, "Unregistered", lambda: bind(gpu, other.memory))
    with pytest.raises(TypeError):
        pagelift.CopyEngine(cpu, world.memory)
    launcher, theirs = bind(pagelift.Cuda()), bind(gpu)
    refused(pagelift.LaunchError, "OtherGeometry", lambda: launcher.stage(lift_of(other)[0]))
    ticket = launcher.stage(plan)
    launcher.launch()
    launcher.wait()
    world.check(expected)
    assert launcher.state(ticket) == "done" and theirs.state(ticket) == "unknown"
    refused(pagelift.RegistryError, "Released", lambda: other.memory.release(world.main.regions["host"]))


def test_host_pools(gpu, driver):
    memory, spec = pagelift.Registry(), pagelift.HostPoolSpec(6, 4096, chunk_bytes=2 * 4096, huge_pages=False)
    before = driver.live()["registered"]
    array = np.zeros(6 * 4096 + 4096, np.uint8)
    aligned = array[-array.ctypes.data % 4096 :][: 6 * 4096]
    pools = [
        memory.allocate_pool(gpu, spec),
        memory.share_pool(gpu, spec, pagelift.SharedMemory.create("pool", spec.bytes)),
        memory.adopt_pool(gpu, aligned, spec),
    ]
    assert [len(pool.regions) for pool in pools] == [3, 3, 3]
    assert driver.live()["registered"] == before + 9
    for pool in pools:
        memory.write(pool.regions[1], 5, b"pool")
    assert aligned[2 * 4096 + 5 :][:4].tobytes() == b"pool"
    # What is registered in part can be no pool, and nothing of it stays.
    refused(pagelift.RegistryError, "Overlaps", lambda: memory.adopt_pool(gpu, aligned, spec))
    assert driver.live()["registered"] == before + 9
    for pool in pools:
        for region in pool.regions:
            memory.release(region)
    assert driver.live()["registered"] == before


@pytest.mark.parametrize("calls", ["each", "batch"])
def test_copies(world, stream, calls):
    plan, expected = lift_of(world)
    before = world.snapshot()
    engine = pagelift.CopyEngine(world.backend, world.memory, stream=stream)
    event = engine.copy(plan, calls)
    world.check(before)
    assert not event.is_passed() and repr(event) == "CudaEvent(not passed)"
    event.wait()
    world.check(expected)
    assert event.is_passed() and engine.chosen(plan) == "kernel"
    engine.close()
    refused(pagelift.LaunchError, "Closed", lambda: engine.copy(plan))
    assert repr(engine) == "CopyEngine(closed)"


def test_recorded_copies(world, stream):
    plan, expected = lift_of(world)
    engine = pagelift.CopyEngine(world.backend, world.memory, stream=stream)
    with stream.captured() as graphs:
        engine.record(plan)
    plan.clear()
    graphs[0].replay(stream)
    stream.synchronize()
    world.check(expected)
    engine.close()


def test_copies_that_cannot_be(world, driver):
    engine = pagelift.CopyEngine(world.backend, world.memory, stream=0)
    # Zeros are no part of a batch: they would be enqueued before it is refused.
    plan, _ = lift_of(world, mode="exact-zeroed")
    refused(pagelift.BackendError, "BatchOnDefaultStream", lambda: enqueues_nothing(driver, lambda: engine.copy(plan, "batch")))
    for wrong in (pagelift.MirrorPlan(world.geometry), pagelift.DigestPlan(world.geometry)):
        with pytest.raises(TypeError, match="page plans"):
            engine.copy(wrong)
    with pytest.raises(ValueError, match="expected one of each, batch"):
        engine.copy(plan, "all")
    world.memory.release(world.ring.regions["device"])
    for calls in ("each", "batch"):
        refused(pagelift.RegistryError, "Unregistered", lambda: enqueues_nothing(driver, lambda: engine.copy(plan, calls)))


def test_what_there_is_no_room_for(world, driver):
    gpu, memory = world.backend, world.memory
    for place in ("host", "device"):
        refused(pagelift.RegistryError, "OutOfMemory", lambda: memory.allocate(gpu, place, 2**62))
    # The calls before the allocation ask for the thread's context, and change its mode of captures.
    driver.fail(2, 2)
    refused(pagelift.RegistryError, "OutOfMemory", lambda: memory.allocate(gpu, "device", 64))
    assert len(memory) == 8


def life(world, stream):
    """Everything once."""
    gpu, memory = world.backend, world.memory
    region = memory.allocate(gpu, "device", 64)
    memory.write(region, 0, b"abc")
    pool = memory.allocate_pool(gpu, pagelift.HostPoolSpec(2, 4096, threads=1, huge_pages=False))
    plan, expected = lift_of(world)
    launcher = pagelift.Launcher.bind(gpu, memory, plan, stream=stream)
    launcher.stage(plan)
    launcher.launch()
    launcher.set_stream(None)
    launcher.wait()
    world.check(expected)
    engine = pagelift.CopyEngine(gpu, memory, stream=stream)
    engine.copy(plan).wait()
    for own in (region, *pool.regions):
        memory.release(own)
    launcher.close()


def test_calls_of_the_driver_that_fail():
    """In a process of its own: what could not be waited for, or let go, is left. Rust's laws say what that may be."""
    in_a_process("""
        from test_gpu import EARLY, life

        driver = Driver.found()
        driver.pace(EARLY)
        stream = driver.stream()

        def lives(after=None):
            world = World(pagelift.Cuda(), np.random.default_rng(5), on_device=driver.copied)
            driver.calls()
            if after is None:
                life(world, stream)
                return driver.calls()
            driver.fail(after, 999)
            try:
                life(world, stream)
            except pagelift.DriverError as error:
                assert (error.code, error.kind) == (999, "Driver") and error.call in str(error)
            assert not driver.spare()
            # All of it can be done again.
            life(world, stream)

        calls = lives()
        assert calls > 200
        for after in range(0, calls, 7):
            lives(after)
    """)


def test_a_lost_context_ends_everything_and_nothing_else():
    ran = in_a_process("""
        driver = Driver.found()
        world = World(pagelift.Cuda(), np.random.default_rng(1), on_device=driver.copied)
        plan = pagelift.RestorePlan(world.geometry)
        launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
        region = world.memory.allocate(world.backend, "device", 64)
        ticket = launcher.stage(plan)
        driver.fail(0, 700)
        for call in (
            launcher.wait, launcher.launch, lambda: launcher.stage(plan), lambda: launcher.set_stream(0),
            lambda: world.memory.read(region, 0, 1), lambda: world.memory.allocate(world.backend, "host", 64),
            lambda: world.memory.adopt(world.backend, "device", driver.memory(64)),
            lambda: pagelift.CopyEngine(world.backend, world.memory).copy(plan),
        ):
            try:
                call()
            except pagelift.ContextLostError as error:
                assert error.kind in ("ContextLost", "ContextGone")
            else:
                raise AssertionError(call)
        assert launcher.state(ticket) == "lost"
        world.memory.release(region)
        launcher.close()
        print("ended")
    """)
    assert ran == "ended\n"


def in_a_process(code):
    """What a program prints that ends well."""
    imports = "import gc, os, sys, threading, time\nimport numpy as np, pagelift\nfrom driver import Driver\nfrom world import World\n"
    code = imports + textwrap.dedent(code)
    paths = os.pathsep.join([str(Path(pagelift.__file__).parent.parent), str(Path(__file__).parent)])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], timeout=60, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(
    "end",
    [
        "launcher.stage(plan); launcher.launch(); keep = [launcher]; keep.append(keep)",
        "stream.begin(); launcher.record(); plan.clear()",
        "launcher.stage(plan); launcher.launch(); del world; launcher.close()",
        "[threading.Thread(target=forever, daemon=True).start() for _ in range(3)]; time.sleep(0.2)",
        "child = os.fork(); launcher.launch(); launcher.close(); child and os.waitpid(child, 0)[1] and os.abort()",
    ],
    ids=["work in flight", "a capture that never ended", "a registry that went first", "threads that go on", "a fork"],
)
def test_a_process_ends_amid(end):
    in_a_process(f"""
        driver = Driver.found()
        stream = driver.stream()
        world = World(pagelift.Cuda(), np.random.default_rng(1), on_device=driver.copied)
        plan = pagelift.RestorePlan(world.geometry)
        launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, stream=stream)

        def forever():
            driver.enter()
            while True:
                try:
                    launcher.stage(plan)
                except pagelift.RingFullError:
                    launcher.launch()

        {end}
    """)


class Engine(test_lifecycle.Engine):
    """A rank on the GPU, whose forward is the test's own."""

    def __init__(self, driver, gpu):
        self.driver, self.stream = driver, driver.stream()
        super().__init__(gpu, self.stream)

    def tensors(self):
        host, pool, pages, slots = super().tensors()
        return host, pool, self.driver.copied(pages), self.driver.copied(slots)

    def step(self, writes):
        # The forward comes after what is launched before it.
        self.runner.before_forward()
        self.runner.wait()
        self.forward(writes)
        self.runner.after_forward()
        self.runner.wait()

    def forward(self, writes):
        self.slots[:] = -1
        for at, (name, token, page) in enumerate(writes):
            self.pages[page, token % test_lifecycle.BLOCK] = test_lifecycle.row(name, token)
            self.slots[at] = page * test_lifecycle.BLOCK + token % test_lifecycle.BLOCK


def test_a_rank_on_a_gpu(driver, gpu):
    engine = Engine(driver, gpu)
    test_lifecycle.play(engine)


def test_what_a_rank_refuses_amid_its_replay(driver, gpu):
    engine = Engine(driver, gpu)
    with engine.stream.captured() as graphs:
        engine.runner.record_before_forward()
        engine.runner.record_after_forward()
        refused(pagelift.CaptureError, "WaitsForCapture", engine.runner.close)
    plan = pagelift.RestorePlan(engine.geometry)
    launcher = pagelift.Launcher.bind(gpu, engine.memory, plan)
    calls = [lambda: repr(launcher), lambda: repr(engine.runner), launcher.close, lambda: engine.runner.set_stream(None), engine.runner.wait]
    for call in (*calls, lambda: launcher.stage(plan)):
        engine.runner.stage()
        refused(pagelift.LaunchError, "InsideReplay", lambda: engine.runner.replay(call))
        engine.runner.replay(lambda: graphs[0].replay(engine.stream))
    assert "closed" not in repr(launcher) + repr(engine.runner)
    engine.runner.close()
    refused(pagelift.LaunchError, "Closed", lambda: engine.runner.replay(lambda: None))


def test_threads_share_a_launcher_on_a_gpu(world, driver, stream):
    plan, expected = lift_of(world)
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan, slots=2, stream=stream)
    closed = threading.Event()

    def use():
        driver.enter()
        while not closed.is_set():
            try:
                launcher.state(launcher.stage(plan))
                launcher.launch()
                launcher.wait()
            except pagelift.LaunchError as error:
                assert error.kind in ("Closed", "RingFull")

    def capture():
        driver.enter()
        for _ in range(20):
            other = driver.stream()
            other.begin(RELAXED)
            world.memory.read(world.main.regions["device"], 0, 16)
            other.end()
            gc.collect()
        launcher.close()
        closed.set()

    together(use, use, use, capture)
    world.check(expected)
