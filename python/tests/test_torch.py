"""Inside PyTorch, on a GPU: its context, streams, allocator and graphs. Skipped where there is no GPU.

`set_sync_debug_mode("error")` makes PyTorch refuse whatever of its own would wait for the GPU.
"""

import contextlib

import numpy as np
import pytest

import pagelift
import test_leaks
import test_lifecycle

torch = pytest.importorskip("torch")
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs PyTorch with a GPU")

BLOCK_TOKENS, LAYERS, WIDTH, BLOCKS, PAGES = 16, 3, 96, 32, 8
PAGE = BLOCK_TOKENS * WIDTH


class Engine:
    """A paged group and a state over PyTorch's own tensors: a pinned host pool, a slab of the GPU, and a step's arrays."""

    def __init__(self):
        generator = torch.Generator().manual_seed(3)
        random = lambda *shape: torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        self.gpu, self.memory = pagelift.Cuda(torch.cuda.current_device()), pagelift.Registry()
        self.host = random(BLOCKS, LAYERS, BLOCK_TOKENS, WIDTH).pin_memory()
        self.slab = random(LAYERS, PAGES, BLOCK_TOKENS, WIDTH).cuda()
        self.states, self.state_pages = random(BLOCKS, 200).pin_memory(), random(PAGES, 200).cuda()
        self.slots = torch.full((8,), -1, dtype=torch.int64, device="cuda")
        self.starts = torch.zeros(5, dtype=torch.int32, device="cuda")
        self.accepted = torch.zeros(4, dtype=torch.int32, device="cuda")
        builder = pagelift.GeometryBuilder()
        layout = pagelift.PagedLayout(BLOCK_TOKENS, [("kv", WIDTH)])
        state = pagelift.StateLayout([("ssm", 200)])
        pools, sides = {}, {}
        for name, place, tensor in [
            ("host", "host", self.host),
            ("slab", "device", self.slab),
            ("states", "host", self.states),
            ("state pages", "device", self.state_pages),
        ]:
            region = self.memory.adopt(self.gpu, place, tensor)
            pools[name] = builder.pool(name, place, BLOCKS if place == "host" else PAGES, [region]), region
        blocks_outermost = [layer * PAGE for layer in range(LAYERS)], LAYERS * PAGE, layout
        layers_outermost = [layer * PAGES * PAGE for layer in range(LAYERS)], PAGE, layout
        for name, place in [("host", blocks_outermost), ("slab", layers_outermost), ("states", ([0], 200, state)), ("state pages", ([0], 200, state))]:
            pool, region = pools[name]
            sides[name] = pagelift.SideSpec.packed(pool, [region], *place)
        self.main = builder.group("main", layers=LAYERS, landing="host", lift="tail", host=sides["host"], device=sides["slab"])
        self.ssm = builder.group("ssm", layers=1, landing="host", lift="state", host=sides["states"], device=sides["state pages"])
        self.geometry = builder.build()
        self.lift = pagelift.RestorePlan(self.geometry)
        self.mirror = pagelift.MirrorPlan(self.geometry)
        adopt = lambda tensor: self.memory.adopt(self.gpu, "device", tensor)
        binding = pagelift.RowBinding(adopt(self.slots), query_starts=adopt(self.starts), accepted=adopt(self.accepted))
        self.mirror.bind(self.main, binding)
        self.stream = torch.cuda.Stream()
        self.lifts = pagelift.Launcher.bind(self.gpu, self.memory, self.lift, stream=self.stream)
        self.mirrors = pagelift.Launcher.bind(self.gpu, self.memory, self.mirror, stream=self.stream)
        torch.cuda.synchronize()

    def plan_import(self, prompt, blocks, page, state):
        self.lift.clear()
        groups = [pagelift.ImportGroup(self.main, blocks, [page]), pagelift.ImportGroup(self.ssm, [state], [state % PAGES])]
        self.lift.lift(pagelift.Import(pagelift.PromptSpan(prompt, "state"), groups), "exact")

    def close(self):
        torch.cuda.synchronize()
        self.lifts.close()
        self.mirrors.close()


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


@contextlib.contextmanager
def no_syncs():
    """PyTorch's calls that would wait for the GPU are errors."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


IMPORTS = [(37, [3, 9, 4], 5, 2), (9, [8], 1, 11), (17, [1, 2], 7, 30)]


def lift(engine, slab, states, prompt, blocks, page, state):
    """The reference: what an import changes in copies of the slab and of the states."""
    rows = (prompt - 1) % BLOCK_TOKENS
    block = engine.host[blocks[(prompt - 1) // BLOCK_TOKENS]]
    slab[:, page, :rows] = block[:, :rows]
    states[state % PAGES] = engine.states[state]


@on_gpu
def test_lifts_on_pytorchs_stream(engine):
    slab, states = engine.slab.cpu(), engine.state_pages.cpu()
    for import_ in IMPORTS:
        engine.plan_import(*import_)
        with no_syncs():
            ticket = engine.lifts.stage(engine.lift)
            engine.lifts.launch()
        lift(engine, slab, states, *import_)
    engine.lifts.wait()
    assert engine.lifts.is_done(ticket)
    assert torch.equal(engine.slab.cpu(), slab) and torch.equal(engine.state_pages.cpu(), states)


@on_gpu
def test_case_20_lift_forward_and_mirror_in_one_graph_of_pytorchs(engine):
    """A step: lift, a forward that writes rows where the slot mapping says, mirror. Three replays, with a new import each."""
    rows = torch.zeros(8, LAYERS, WIDTH, dtype=torch.uint8, device="cuda")
    flat = engine.slab.view(LAYERS, PAGES * BLOCK_TOKENS, WIDTH)
    # Padding is written to the last slot, which nobody looks at.
    unused = PAGES * BLOCK_TOKENS - 1

    def forward():
        flat.index_copy_(1, engine.slots.masked_fill(engine.slots < 0, unused), rows.transpose(0, 1).contiguous())

    with torch.cuda.stream(engine.stream):
        forward()
    engine.stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        engine.lifts.record()
        forward()
        engine.mirrors.record()

    mapping = {5: 20, 1: 21, 7: 22}
    for page, block in mapping.items():
        engine.mirror.page_map.map(engine.main, page, block)
    slab, states, host = engine.slab.cpu(), engine.state_pages.cpu(), engine.host.clone()
    random = np.random.default_rng(5)
    for number, import_ in enumerate(IMPORTS):
        # A request with three tokens, of which two or three are accepted, one with a token on a page without a mirror, and the
        # padding of the batch.
        taken = 2 + number % 2
        slots = np.full(8, -1, np.int64)
        slots[:4] = np.array([5, 1, 7, 3]) * BLOCK_TOKENS + 8 + random.permutation(4)
        values = torch.from_numpy(random.integers(0, 256, (8, LAYERS, WIDTH), np.uint8))
        with torch.cuda.stream(engine.stream):
            engine.slots.copy_(torch.from_numpy(slots))
            engine.starts.copy_(torch.tensor([0, 3, 4, 4, 4], dtype=torch.int32))
            engine.accepted.copy_(torch.tensor([taken, 1, 0, 0], dtype=torch.int32))
            rows.copy_(values)
        engine.plan_import(*import_)
        with no_syncs(), torch.cuda.stream(engine.stream):
            tickets = engine.lifts.stage(engine.lift), engine.mirrors.stage(engine.mirror)
            graph.replay()
        engine.mirrors.wait()
        assert engine.lifts.is_done(tickets[0]) and engine.mirrors.is_done(tickets[1])
        report = engine.mirrors.report(tickets[1])
        assert (report.rows, report.bad) == (taken, 0)

        lift(engine, slab, states, *import_)
        for token in range(4):
            page, within = divmod(int(slots[token]), BLOCK_TOKENS)
            slab[:, page, within] = values[token]
            if token < taken:
                host[mapping[page], :, within] = values[token]
        found = engine.slab.cpu().view(LAYERS, -1, WIDTH)
        assert torch.equal(found[:, :unused], slab.view(LAYERS, -1, WIDTH)[:, :unused])
        assert torch.equal(engine.state_pages.cpu(), states)
        assert torch.equal(engine.host, host)
    # A replay without a staged plan does nothing.
    engine.slab.zero_()
    with torch.cuda.stream(engine.stream):
        engine.slots.fill_(-1)
        graph.replay()
    torch.cuda.synchronize()
    assert not engine.slab.view(LAYERS, -1, WIDTH)[:, :unused].any()
    assert torch.equal(engine.host, host)


@on_gpu
def test_case_19_graphs_may_be_captured_on_one_stream_and_replayed_on_another(engine):
    slab, states = engine.slab.cpu(), engine.state_pages.cpu()
    graphs, side = [], torch.cuda.Stream()
    engine.lifts.set_stream(side)
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            engine.lifts.record()
            with pytest.raises(pagelift.CaptureError):
                engine.lifts.set_stream(engine.stream)
        graphs.append(graph)
    engine.lifts.set_stream(engine.stream)
    for graph, import_ in zip([*graphs, graphs[0]], IMPORTS, strict=True):
        engine.plan_import(*import_)
        with torch.cuda.stream(engine.stream):
            ticket = engine.lifts.stage(engine.lift)
            graph.replay()
        lift(engine, slab, states, *import_)
    engine.lifts.wait()
    assert engine.lifts.is_done(ticket)
    assert torch.equal(engine.slab.cpu(), slab) and torch.equal(engine.state_pages.cpu(), states)


@on_gpu
def test_case_18_what_a_capture_forbids_is_refused_and_spoils_nothing(engine):
    engine.plan_import(*IMPORTS[0])
    with pytest.raises(pagelift.CaptureError) as error:
        engine.lifts.record()
    assert error.value.kind == "NotCapturing"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        for call in (lambda: engine.lifts.stage(engine.lift), engine.lifts.launch, engine.lifts.wait):
            with pytest.raises(pagelift.CaptureError):
                call()
        engine.lifts.record()
    slab, states = engine.slab.cpu(), engine.state_pages.cpu()
    with torch.cuda.stream(engine.stream):
        engine.lifts.stage(engine.lift)
        graph.replay()
    engine.lifts.wait()
    lift(engine, slab, states, *IMPORTS[0])
    assert torch.equal(engine.slab.cpu(), slab)
    # Graphs may be replayed without pagelift's knowledge: their memory stays until the launcher is closed.
    region = engine.memory.adopt(engine.gpu, "device", torch.zeros(64, device="cuda"))
    with pytest.raises(pagelift.RegistryError) as error:
        engine.memory.release(region)
    assert error.value.kind == "Recorded"
    del graph
    engine.lifts.close()
    engine.memory.release(region)


@on_gpu
def test_tensors_of_a_gpu(engine):
    adopt = lambda place, tensor: engine.memory.adopt(engine.gpu, place, tensor)

    def refused(place, tensor):
        with pytest.raises(pagelift.TensorError) as error:
            adopt(place, tensor)
        return error.value.kind

    before = len(engine.memory)
    assert refused("device", torch.zeros(8)) == "WrongDevice"
    assert refused("host", torch.zeros(8, device="cuda")) == "WrongDevice"
    assert refused("device", torch.zeros(8, 8, device="cuda").t()) == "NotContiguous"
    assert refused("device", torch.zeros(8, device="meta")) == "NoMemory"
    assert refused("device", torch.zeros(0, device="cuda")) == "NoMemory"
    assert refused("device", np.zeros(8)) == "WrongDevice"
    with pytest.raises(pagelift.TensorError):
        engine.memory.adopt(pagelift.Cpu(1), "device", torch.zeros(8, device="cuda"))
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.int64):
        region = adopt("device", torch.zeros(8, device="cuda").to(dtype))
        assert (region.dtype, region.items) == (str(dtype).removeprefix("torch."), 8)
        engine.memory.release(region)
    # Memory that nobody pinned is pinned here, and let go.
    pageable = torch.arange(1 << 16)
    region = adopt("host", pageable)
    assert engine.memory.read(region, 8, 8) == (1).to_bytes(8, "little")
    engine.memory.release(region)
    device = torch.arange(1 << 10, device="cuda")
    torch.cuda.synchronize()
    region = adopt("device", device)
    engine.memory.write(region, 16, (77).to_bytes(8, "little"))
    assert device[2].item() == 77 and engine.memory.read(region, 24, 8) == (3).to_bytes(8, "little")
    engine.memory.release(region)
    pool = engine.memory.adopt_pool(engine.gpu, torch.zeros(64, 4096, dtype=torch.uint8).pin_memory(), pagelift.HostPoolSpec(64, 4096))
    assert len(pool.regions) == 1
    engine.memory.release(pool.regions[0])
    assert len(engine.memory) == before


@on_gpu
def test_replays_take_no_memory(engine, request):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=engine.stream):
        engine.lifts.record()
        engine.mirrors.record()
    engine.plan_import(*IMPORTS[0])

    def replay(times):
        with torch.cuda.stream(engine.stream):
            for step in range(times):
                engine.lifts.stage(engine.lift)
                engine.mirrors.stage(engine.mirror)
                graph.replay()
                if step % 2:
                    engine.mirrors.wait()
        torch.cuda.synchronize()

    replay(200)
    before, resident = torch.cuda.mem_get_info()[0], test_leaks.resident()
    replay(request.config.getoption("--replays"))
    assert before - torch.cuda.mem_get_info()[0] < 4 << 20
    assert test_leaks.resident() - resident < 4 << 20
    counters = engine.lifts.counters()
    assert counters.done == counters.staged and counters.superseded == 0


def test_tensors_of_the_host():
    backend, memory = pagelift.Cpu(1), pagelift.Registry()
    tensor = torch.arange(24, dtype=torch.int32).reshape(4, 6)
    region = memory.adopt(backend, "device", tensor)
    assert (region.address, region.bytes, region.dtype, region.items) == (tensor.data_ptr(), 96, "int32", 24)
    # The memory that was adopted is kept, whatever the tensor shows later.
    tensor.data = torch.zeros(2, dtype=torch.int32)
    assert memory.read(region, 4, 4) == (1).to_bytes(4, "little")
    memory.release(region)

    def refused(tensor):
        with pytest.raises(pagelift.TensorError) as error:
            memory.adopt(backend, "device", tensor)
        return error.value.kind

    assert refused(torch.zeros(4, 6)[:, :3]) == "NotContiguous"
    assert refused(torch.zeros(4, 6).t()) == "NotContiguous"
    assert refused(torch.zeros(6).expand(4, 6)) == "NotContiguous"
    assert refused(torch.zeros(0)) == "NoMemory"
    assert refused(torch.eye(3).to_sparse()) in ("NoMemory", "NotContiguous")
    assert len(memory) == 0


def test_what_only_traces_has_no_memory():
    """Tensors of a tracer are refused in words, wherever they say that they are."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    backend, memory, refused = pagelift.Cpu(1), pagelift.Registry(), []

    def adopt(tensor, match="outside of tracing and of `torch.compile`"):
        with pytest.raises(pagelift.TensorError, match=match) as error:
            memory.adopt(backend, "device", tensor)
        refused.append(error.value.kind)
        return tensor

    with FakeTensorMode():
        fakes = torch.zeros(8), torch.zeros(8, device="cuda"), torch.zeros(8, device="meta")
        inside = torch.ones(4) + 1
        adopt(inside)
    for fake in (*fakes, torch.zeros(8, device="meta")):
        adopt(fake)
    # Inside of a transformation, too, there is nothing that bytes could be copied to.
    torch.func.vmap(lambda tensor: adopt(tensor, "storage"))(torch.zeros(4, 2))
    torch.func.functionalize(lambda tensor: adopt(tensor, "memory"))(torch.zeros(4))
    assert refused == ["NoMemory"] * 7 and len(memory) == 0


def test_arrays_of_a_step():
    """What says which rows a step wrote is read by a kernel: another dtype, or fewer entries, would be other rows."""
    backend, memory = pagelift.Cpu(1), pagelift.Registry()
    adopt = lambda *shape, **options: memory.adopt(backend, "device", torch.zeros(*shape, **options))
    slots, starts, accepted = (adopt(count, dtype=dtype) for count, dtype in ((8, torch.int64), (5, torch.int32), (4, torch.int32)))
    pagelift.RowBinding(slots, query_starts=starts, accepted=accepted)
    pagelift.RowBinding(adopt(8, dtype=torch.int32))
    wrong = [dict(slots=adopt(8, dtype=dtype)) for dtype in (torch.float32, torch.float64, torch.int16, torch.uint8, torch.bool)]
    wrong += [dict(slots=slots, **{name: adopt(5, dtype=torch.int64)}) for name in ("count", "query_starts", "accepted")]
    for arguments in wrong:
        with pytest.raises(pagelift.TensorError, match="expected an array of int") as error:
            pagelift.RowBinding(**arguments)
        assert error.value.kind == "WrongDtype"
    with pytest.raises(pagelift.TensorError):
        pagelift.RowBinding(slots, query_starts=starts, accepted=adopt(3, dtype=torch.int32))


class GraphEngine(test_lifecycle.Engine):
    """The engine of the lifecycle's tests, over PyTorch's tensors, with all of a step in one graph."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        super().__init__(pagelift.Cuda(torch.cuda.current_device()), self.stream)
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            self.forward()
        self.stream.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.runner.record_before_forward()
            self.forward()
            self.runner.record_after_forward()

    def tensors(self):
        pages, block, width = test_lifecycle.PAGES, test_lifecycle.BLOCK, test_lifecycle.WIDTH
        pool = torch.zeros(test_lifecycle.BLOCKS, block, width, dtype=torch.uint8).pin_memory()
        # Padding is written to a page of its own, behind the others.
        self.with_padding = torch.zeros(pages + 1, block, width, dtype=torch.uint8, device="cuda")
        self.rows = torch.zeros(pages, width, dtype=torch.uint8, device="cuda")
        slots = torch.full((pages,), -1, dtype=torch.int64, device="cuda")
        return pool.numpy(), pool, self.with_padding[:pages], slots

    def forward(self):
        at = self.slots.masked_fill(self.slots < 0, test_lifecycle.PAGES * test_lifecycle.BLOCK)
        self.with_padding.view(-1, test_lifecycle.WIDTH).index_copy_(0, at, self.rows)

    def step(self, writes):
        slots, rows = np.full(len(self.slots), -1, np.int64), np.zeros(tuple(self.rows.shape), np.uint8)
        for at, (name, token, page) in enumerate(writes):
            slots[at] = page * test_lifecycle.BLOCK + token % test_lifecycle.BLOCK
            rows[at] = test_lifecycle.row(name, token)
        # What the test has done to pages is on another stream.
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            self.slots.copy_(torch.from_numpy(slots))
            self.rows.copy_(torch.from_numpy(rows))
            self.runner.replay(self.graph.replay)
        self.runner.wait()

    def page(self, page):
        return self.pages[page].cpu().numpy()


@on_gpu
def test_an_engine_whose_steps_are_one_graph():
    engine = GraphEngine()
    test_lifecycle.play(engine)
    assert repr(engine.runner) == "Runner(closed)"


@on_gpu
def test_a_connector_in_a_captured_step():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import vllm_shaped

    assert vllm_shaped.on_gpu(20) > 20 * 2 * vllm_shaped.LAYERS
