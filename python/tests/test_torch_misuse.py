"""What a GPU's user may do wrong, inside PyTorch: an exception each time, and nothing lost. Skipped where there is no GPU."""

import gc
import threading
import weakref

import pytest

import pagelift
from test_threads import together

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs PyTorch with a GPU")

LAYERS, TOKENS, WIDTH, BLOCKS, PAGES = 5, 16, 128, 64, 16
PAGE = TOKENS * WIDTH


class Engine:
    """A paged group over a pinned pool and a slab of the GPU, of which nothing but the registry keeps the tensors if so wanted."""

    def __init__(self):
        generator = torch.Generator().manual_seed(5)
        random = lambda *shape: torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        self.gpu, self.memory = pagelift.Cuda(torch.cuda.current_device()), pagelift.Registry()
        self.host = random(BLOCKS, LAYERS, TOKENS, WIDTH).pin_memory()
        self.slab = random(LAYERS, PAGES, TOKENS, WIDTH).cuda()
        torch.cuda.synchronize()
        self.host_region = self.memory.adopt(self.gpu, "host", self.host)
        self.slab_region = self.memory.adopt(self.gpu, "device", self.slab)
        layout, builder = pagelift.PagedLayout(TOKENS, [("kv", WIDTH)]), pagelift.GeometryBuilder()
        host = builder.pool("host", "host", BLOCKS, [self.host_region])
        slab = builder.pool("slab", "device", PAGES, [self.slab_region])
        blocks_outermost = [layer * PAGE for layer in range(LAYERS)]
        layers_outermost = [layer * PAGES * PAGE for layer in range(LAYERS)]
        self.group = builder.group(
            "kv",
            layers=LAYERS,
            landing="host",
            lift="tail",
            host=pagelift.SideSpec.packed(host, [self.host_region], blocks_outermost, LAYERS * PAGE, layout),
            device=pagelift.SideSpec.packed(slab, [self.slab_region], layers_outermost, PAGE, layout),
        )
        self.geometry = builder.build()
        self.stream = torch.cuda.Stream()

    def import_(self, tokens, block, page):
        return pagelift.Import(pagelift.PromptSpan(tokens), [pagelift.ImportGroup(self.group, [block], [page])])

    def bind(self, plan, **options):
        return pagelift.Launcher.bind(self.gpu, self.memory, plan, stream=self.stream, **options)

    def lifted(self, tokens, block, page):
        """A launcher that has staged this lift, with its plan."""
        plan = pagelift.RestorePlan(self.geometry)
        plan.lift(self.import_(tokens, block, page), "exact")
        launcher = self.bind(plan)
        return launcher, plan, launcher.stage(plan)


@pytest.fixture
def engine():
    return Engine()


def refused(error, kind, call):
    with pytest.raises(error) as raised:
        call()
    assert raised.value.kind == kind, raised.value


def test_memory_of_a_tensor_that_was_deleted_is_kept_until_it_is_released(engine):
    watch, expected = weakref.ref(engine.slab), engine.slab.cpu()
    expected[:, 3, :9] = engine.host[7, :, :9]
    host = engine.host.clone()
    launcher, plan, ticket = engine.lifted(9, 7, 3)
    # What other tests have left is not counted.
    gc.collect()
    held = torch.cuda.memory_allocated()
    del engine.slab, engine.host
    gc.collect()
    torch.cuda.empty_cache()
    # Were it free, this would take and overwrite it.
    others = [torch.full((LAYERS * PAGES * PAGE,), 255, dtype=torch.uint8, device="cuda") for _ in range(4)]
    pinned = [torch.full((BLOCKS * LAYERS * PAGE,), 255, dtype=torch.uint8).pin_memory() for _ in range(4)]
    torch.cuda.synchronize()
    kept = watch() is not None
    assert kept and torch.cuda.memory_allocated() >= held
    launcher.launch()
    launcher.wait()
    assert launcher.is_done(ticket)
    assert engine.memory.read(engine.slab_region, 0, expected.numel()) == expected.numpy().tobytes()
    assert engine.memory.read(engine.host_region, 0, host.numel()) == host.numpy().tobytes()
    del others, pinned
    held = torch.cuda.memory_allocated()
    engine.memory.release(engine.slab_region)
    gc.collect()
    freed = watch() is None
    assert freed and torch.cuda.memory_allocated() <= held - expected.numel()
    launcher.close()


def test_a_pool_that_was_released_is_refused(engine):
    before = engine.slab.cpu()
    launcher, plan, ticket = engine.lifted(9, 7, 3)
    engine.memory.release(engine.slab_region)
    refused(pagelift.RegistryError, "Unregistered", launcher.launch)
    refused(pagelift.RegistryError, "Unregistered", lambda: launcher.stage(plan))
    refused(pagelift.RegistryError, "Unregistered", lambda: engine.bind(plan))
    refused(pagelift.RegistryError, "Released", lambda: engine.memory.read(engine.slab_region, 0, 1))
    refused(pagelift.RegistryError, "Released", lambda: engine.memory.release(engine.slab_region))
    torch.cuda.synchronize()
    assert launcher.state(ticket) == "pending" and torch.equal(engine.slab.cpu(), before)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        torch.zeros(1, device="cuda")
        refused(pagelift.RegistryError, "Unregistered", launcher.record)
    launcher.close()
    refused(pagelift.LaunchError, "Closed", launcher.launch)


def test_a_launcher_takes_no_plan_of_another(engine):
    launcher, plan, ticket = engine.lifted(9, 7, 3)
    other = Engine()
    foreign = pagelift.RestorePlan(other.geometry)
    refused(pagelift.LaunchError, "OtherGeometry", lambda: launcher.stage(foreign))
    larger = pagelift.RestorePlan(engine.geometry, jobs=10_000)
    refused(pagelift.LaunchError, "TableTooSmall", lambda: launcher.stage(larger))
    with pytest.raises(TypeError, match="another type"):
        launcher.stage(pagelift.WriteBackPlan(engine.geometry))
    mirror = pagelift.MirrorPlan(engine.geometry)
    first = engine.bind(mirror)
    second = engine.bind(mirror)
    refused(pagelift.LaunchError, "OtherLauncher", lambda: first.stage(mirror))
    # A registry that does not know the pools.
    with pytest.raises(pagelift.RegistryError):
        pagelift.Launcher.bind(engine.gpu, pagelift.Registry(), plan, stream=engine.stream)
    # The CPU does not reach a GPU's memory.
    with pytest.raises(pagelift.RegistryError):
        pagelift.Launcher.bind(pagelift.Cpu(1), engine.memory, plan)
    # What was staged before still runs.
    launcher.launch()
    launcher.wait()
    assert launcher.is_done(ticket)
    for one in (launcher, first, second):
        one.close()


def test_what_a_capture_forbids(engine):
    launcher, plan, _ = engine.lifted(9, 7, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        launcher.record()
        for call in (launcher.launch, launcher.wait, lambda: launcher.stage(plan), lambda: launcher.set_stream(None)):
            with pytest.raises(pagelift.CaptureError):
                call()
    # The capture is as good as one without them.
    expected = engine.slab.cpu()
    expected[:, 3, :9] = engine.host[7, :, :9]
    with torch.cuda.stream(engine.stream):
        graph.replay()
    engine.stream.synchronize()
    assert torch.equal(engine.slab.cpu(), expected)
    refused(pagelift.RegistryError, "Recorded", lambda: engine.memory.release(engine.slab_region))
    launcher.close()
    engine.memory.release(engine.slab_region)


def test_threads_race_on_one_launcher(engine):
    """Each thread fills a plan of its own, and stages and launches it by the launcher of all."""
    slab = engine.slab.cpu()
    lists, tickets, lock = range(4), [], threading.Lock()
    launcher = engine.bind(pagelift.RestorePlan(engine.geometry), slots=8)

    def work(number):
        def run():
            plan = pagelift.RestorePlan(engine.geometry)
            for turn in range(100):
                plan.clear()
                plan.lift(engine.import_(TOKENS, number * 16 + turn % 16, number))
                while True:
                    # Between another's `stage` and `launch` a plan would be superseded: it says so, and is staged again.
                    try:
                        ticket = launcher.stage(plan)
                    except pagelift.RingFullError:
                        launcher.wait()
                        continue
                    launcher.launch()
                    launcher.wait()
                    if launcher.state(ticket) == "done":
                        break
                with lock:
                    tickets.append(ticket)

        return run

    def look():
        for _ in range(400):
            launcher.counters()
            repr(launcher)
            engine.memory.read(engine.host_region, 0, 64)

    together(*(work(number) for number in lists), look)
    for number in lists:
        slab[:, number] = engine.host[number * 16 + 99 % 16]
    assert torch.equal(engine.slab.cpu(), slab)
    assert len(set(tickets)) == 400
    counters = launcher.counters()
    assert counters.staged == counters.done + counters.superseded and counters.done >= 400
    launcher.close()


def test_a_thread_closes_what_others_use(engine):
    launcher, plan, _ = engine.lifted(9, 7, 3)
    closed = threading.Event()

    def use():
        while not closed.is_set():
            try:
                launcher.stage(plan)
                launcher.launch()
                launcher.wait()
            except pagelift.LaunchError as error:
                assert error.kind in ("Closed", "RingFull")

    def close():
        for _ in range(20):
            engine.memory.read(engine.slab_region, 0, 16)
        launcher.close()
        closed.set()

    together(use, use, close)
    refused(pagelift.LaunchError, "Closed", launcher.launch)
    torch.cuda.synchronize()


def test_tensors_of_another_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    gpu, memory = pagelift.Cuda(0), pagelift.Registry()
    refused(pagelift.TensorError, "WrongDevice", lambda: memory.adopt(gpu, "device", torch.zeros(8, device="cuda:1")))
    memory.release(memory.adopt(pagelift.Cuda(1), "device", torch.zeros(8, device="cuda:1")))
