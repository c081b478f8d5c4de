"""A decode step over PyTorch's tensors, with lift and mirror inside of its graph: what an engine begins from.

Two requests come from elsewhere, one later than the other: their rows are in blocks of a pinned host pool. The graph of a decode step
lifts the last block of a request that joins into a page, and mirrors the new rows of those that decode. The host stages before each
replay, looks at tickets, and makes no call that waits. In the end every token and every byte of both pools is compared with plain
copies.

    python torch_decode.py             # the lift in order, before the forward
    python torch_decode.py --branch    # the lift on a branch of the graph, beside the forward
    python torch_decode.py --cpu       # without a GPU, and without a graph
"""

import argparse
import contextlib
from collections import deque
from dataclasses import dataclass, field

import torch

import pagelift

LAYERS, BLOCK, WIDTH, VOCABULARY = 4, 16, 32, 64
BLOCKS, PAGES, LANES, AHEAD = 64, 8, 2, 8


class Decoder:
    """The engine's tensors, and what pagelift knows of them. One page more than `PAGES` takes the rows of padding."""

    def __init__(self, cpu=False, branch=False):
        self.cpu, device = cpu, "cpu" if cpu else "cuda"
        generator = torch.Generator().manual_seed(7)
        random = lambda *shape: torch.randn(*shape, generator=generator)
        self.embedding, self.weights = random(VOCABULARY, WIDTH).to(device), random(LAYERS, WIDTH, WIDTH).to(device)
        self.host = random(BLOCKS, LAYERS, BLOCK, WIDTH)
        self.host = self.host if cpu else self.host.pin_memory()
        self.pages = torch.zeros(LAYERS, PAGES + 1, BLOCK, WIDTH, device=device)
        self.slots = torch.full((LANES,), -1, dtype=torch.int64, device=device)
        self.tokens = torch.zeros(LANES, dtype=torch.int64, device=device)

        # Say once what lies where: blocks with all layers together, layers with all pages together.
        backend, self.memory = pagelift.Cpu() if cpu else pagelift.Cuda(torch.cuda.current_device()), pagelift.Registry()
        host, slab = self.memory.adopt(backend, "host", self.host), self.memory.adopt(backend, "device", self.pages)
        builder, layout = pagelift.GeometryBuilder(), pagelift.PagedLayout(BLOCK, [("row", 4 * WIDTH)])
        in_block = [layer * layout.page_bytes for layer in range(LAYERS)]
        in_slab = [(PAGES + 1) * offset for offset in in_block]
        blocks, pages = builder.pool("host", "host", BLOCKS, [host]), builder.pool("slab", "device", PAGES + 1, [slab])
        self.group = builder.group(
            "rows",
            layers=LAYERS,
            landing="host",
            lift="tail",
            host=pagelift.SideSpec.packed(blocks, [host], in_block, LAYERS * layout.page_bytes, layout),
            device=pagelift.SideSpec.packed(pages, [slab], in_slab, layout.page_bytes, layout),
        )
        geometry = builder.build()

        # A plan and a launcher for what is lifted, and for what is mirrored.
        self.stream = None if cpu else torch.cuda.Stream()
        self.branch = torch.cuda.Stream() if branch and not cpu else None
        self.reservations = pagelift.Reservations(geometry, 16)
        self.lift, self.mirror = pagelift.RestorePlan(geometry), pagelift.MirrorPlan(geometry)
        self.mirror.bind(self.group, pagelift.RowBinding(self.memory.adopt(backend, "device", self.slots)))
        bind = lambda plan, stream: pagelift.Launcher.bind(backend, self.memory, plan, slots=AHEAD, stream=stream)
        self.lifts, self.mirrors = bind(self.lift, self.branch or self.stream), bind(self.mirror, self.stream)
        if not cpu:
            self.capture()

    def capture(self):
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            self.forward(self.pages)  # Loads kernels, and writes to the page of padding.
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            if self.branch:
                self.branch.wait_stream(self.stream)
            self.lifts.record()
            self.tokens.copy_(self.forward(self.pages))
            self.mirrors.record()
            if self.branch:
                self.stream.wait_stream(self.branch)
        # What is staged goes before the replays, on their stream.
        self.lifts.set_stream(self.stream)

    def forward(self, pages):
        """A model of a kind: each token looks at the rows of its own page."""
        at = self.slots.masked_fill(self.slots < 0, PAGES * BLOCK)
        page, row = at // BLOCK, at % BLOCK
        visible = torch.arange(BLOCK, device=at.device) <= row[:, None]
        x = self.embedding[self.tokens]
        for cache, weights in zip(pages, self.weights, strict=True):
            cache[page, row] = (x[:, None] * weights).sum(-1)
            rows = cache[page]
            scores = (rows * x[:, None]).sum(-1).masked_fill(~visible, float("-inf"))
            x = torch.tanh(x + (torch.softmax(scores, -1)[..., None] * rows).sum(1))
        return (x[:, None] * self.embedding).sum(-1).argmax(-1)

    def step(self, import_ids):
        """Stages and replays one step. Returns the tickets of its lifts and of its mirror, which nobody waits for."""
        self.lift.clear()
        for import_id in import_ids:
            self.lift.lift_reserved(self.reservations, import_id)
        lifted = self.lifts.stage(self.lift) if import_ids else None
        mirrored = self.mirrors.stage(self.mirror)
        if self.cpu:
            self.lifts.launch()
            self.tokens.copy_(self.forward(self.pages))
            self.mirrors.launch()
        else:
            self.graph.replay()
        return lifted, mirrored

    def close(self):
        """A graph goes before the launchers that it has recorded."""
        self.graph = None
        self.lifts.close()
        self.mirrors.close()


@dataclass
class Request:
    """A prompt whose rows are in host blocks. It joins at a step, and decodes in its lane from the next one on."""

    lane: int
    joins: int
    prompt: int
    blocks: list  # those of its prompt, and those of what it will generate
    pages: dict = field(default_factory=dict)  # by position: what is not sealed yet
    next: int = None  # the token that it computes next


class Scheduler:
    """What is decided on the host, a few steps ahead of the GPU."""

    def __init__(self, decoder, requests):
        self.decoder, self.requests = decoder, requests
        self.free, self.flying = deque(range(PAGES)), deque()

    def step(self, number):
        """One step. Returns what plain copies need to do the same: tails, tokens that are set, and rows that are written."""
        decoder, tails, starts, rows, import_ids = self.decoder, [], [], [], []
        for request in self.requests:
            if number == request.joins:
                span = pagelift.PromptSpan(request.prompt)
                arrives = span.in_blocks_of(BLOCK)
                page = self.map(request, arrives.tail_page)
                group = pagelift.ImportGroup(decoder.group, request.blocks[: arrives.endpoints], [page])
                import_ids.append(decoder.reservations.reserve(pagelift.Import(span, [group]), "exact"))
                tails.append((request.blocks[arrives.tail_page], page, arrives.tail_tokens))
            elif number > request.joins:
                if request.next is None:
                    request.next = request.prompt - 1
                    decoder.tokens[request.lane].fill_(request.prompt % VOCABULARY)
                    starts.append((request.lane, request.prompt % VOCABULARY))
                position, row = divmod(request.next, BLOCK)
                page = request.pages.get(position)
                page = self.map(request, position) if page is None else page
                decoder.slots[request.lane].fill_(page * BLOCK + row)
                rows.append((request.lane, request.blocks[position], page, row))
                request.next += 1
        while len(self.flying) == AHEAD:
            self.poll()
        ends = [(request, request.next or 0) for request in self.requests]
        self.flying.append((*decoder.step(import_ids), import_ids, ends))
        return tails, starts, rows

    def map(self, request, position):
        """Takes a page, which is mirrored to the request's block at this position."""
        while not self.free:
            self.poll()
        page = request.pages[position] = self.free.popleft()
        self.decoder.mirror.page_map.map(self.decoder.group, page, request.blocks[position])
        return page

    def poll(self):
        """Looks at the oldest step, by no call of a driver. When it is done, its rows are safe in the host pool: full pages are sealed."""
        decoder, (lifted, mirrored, import_ids, ends) = self.decoder, self.flying[0]
        states = {decoder.mirrors.state(mirrored)} | ({decoder.lifts.state(lifted)} if lifted else set())
        if "pending" in states:
            return
        if states != {"done"}:
            raise RuntimeError(f"a step's plans are {', '.join(states)}")
        self.flying.popleft()
        for import_id in import_ids:
            decoder.reservations.release(import_id)
        for request, end in ends:
            for position in [position for position in request.pages if (position + 1) * BLOCK <= end]:
                page = request.pages.pop(position)
                decoder.mirror.page_map.unmap(decoder.group, page)
                self.free.append(page)


def decode(cpu=False, branch=False, steps=200):
    """Decodes two requests; returns how many rows were mirrored. Every token and every byte is that of plain copies."""
    decoder = Decoder(cpu, branch)
    requests = [Request(0, 0, 37, list(range(20))), Request(1, 40, 20, list(range(20, 40)))]
    scheduler, host = Scheduler(decoder, requests), decoder.host.clone()
    found = torch.zeros(steps, LANES, dtype=torch.int64, device=decoder.tokens.device)
    played = []
    with contextlib.nullcontext() if cpu else torch.cuda.stream(decoder.stream):
        decoder.tokens.zero_()
        if not cpu:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
        for number in range(steps):
            played.append(scheduler.step(number))
            found[number].copy_(decoder.tokens)
        while scheduler.flying:
            scheduler.poll()
        if not cpu:
            torch.cuda.set_sync_debug_mode("default")
        counters = decoder.mirrors.counters()

        # The same with plain copies.
        pages, expected = torch.zeros_like(decoder.pages), torch.zeros_like(found)
        decoder.tokens.zero_()
        decoder.slots.fill_(-1)
        for number, (tails, starts, rows) in enumerate(played):
            for block, page, count in tails:
                pages[:, page, :count] = host[block, :, :count].to(pages.device)
            for lane, token in starts:
                decoder.tokens[lane] = token
            for lane, _, page, row in rows:
                decoder.slots[lane] = page * BLOCK + row
            decoder.tokens.copy_(decoder.forward(pages))
            for _, block, page, row in rows:
                host[block, :, row] = pages[:, page, row].cpu()
            expected[number] = decoder.tokens
        assert torch.equal(found, expected), "other tokens"
        assert torch.equal(decoder.host, host), "other rows in the host pool"
        assert torch.equal(decoder.pages[:, :PAGES], pages[:, :PAGES]), "other rows in pages"
        assert counters.bad == 0
    decoder.close()
    return counters.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--branch", action="store_true", help="lift on a branch of the graph")
    parser.add_argument("--cpu", action="store_true", help="without a GPU, and without a graph")
    parser.add_argument("--steps", type=int, default=200, help="steps to decode (200; at most 280)")
    arguments = parser.parse_args()
    mirrored = decode(arguments.cpu, arguments.branch, arguments.steps)
    print(f"{arguments.steps} steps, {mirrored} rows mirrored, 2 tails lifted: all tokens and bytes as with plain copies")


if __name__ == "__main__":
    main()
