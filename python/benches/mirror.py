"""Figure b: rows that a step wrote, of all layers, to the host pool: by one launch, and by what connectors do.

A connector has the step's slot mapping on the device. It copies that to the host, waits for it, works out with NumPy which rows
follow one another, and copies each run of each layer.
"""

import numpy as np
import torch

import pagelift
from batch import Batch
from bed import FLOOR, POISON, ROW, WIDTH, Caches, bits, floor_up
from machine import Way, rounds
from merge import runs
from report import Bar, Case

OURS = "pagelift, stage and launch"
CAPTURED = "pagelift, captured"
COPIES = "slots to the host, merge, copy_ a run and layer"
FOREACH = "slots to the host, merge, torch._foreach_copy_"
BATCH = "slots to the host, merge, cuMemcpyBatchAsync"
GATHER = "gather on the device, one copy, scatter by NumPy"
LEAST = 5.0
TOKENS, ROTATION = 64, 16


class Scene:
    """Pages that are all mapped to blocks, and slots of several steps."""

    def __init__(self, bed, requests, each):
        self.bed, self.machine = bed, bed.machine
        self.caches = Caches(bed, TOKENS, "block-major")
        self.layers = self.caches.layers
        random = np.random.default_rng(11)
        pages = self.caches.blocks
        self.block_of = random.permutation(pages)
        # Requests write `each` rows that follow one another, each into a page of its own.
        self.steps = np.stack([
            np.concatenate([
                page * TOKENS + first + np.arange(each)
                for page, first in zip(random.permutation(pages)[:requests], random.integers(0, TOKENS - each + 1, requests), strict=True)
            ])
            for _ in range(ROTATION)
        ])
        device = self.machine.device
        self.all_slots = torch.from_numpy(self.steps).to(device)
        self.slots = self.all_slots[0].clone()
        self.machine.finish()
        region = bed.memory.adopt(self.machine.backend, "device", self.slots)
        self.plan = pagelift.MirrorPlan(self.caches.geometry)
        self.plan.bind(self.caches.group, pagelift.RowBinding(region))
        for page, block in enumerate(self.block_of.tolist()):
            self.plan.page_map.map(self.caches.group, page, block)
        self.launcher = pagelift.Launcher.bind(self.machine.backend, bed.memory, self.plan)
        self.machine.use(self.launcher)
        self.launcher.stage(self.plan)
        self.launcher.launch()
        self.replay = self.machine.graph(lambda: self.machine.record(self.launcher))
        # What the other ways need: each layer's cache, the pool, rows gathered on the device, and their place on the host.
        self.layer_views = [(self.caches.slab[layer], self.caches.pool[:, layer]) for layer in range(self.layers)]
        count = requests * each
        self.gathered = bed.floor[: self.layers * count * WIDTH].view(self.layers, count, WIDTH)
        self.landed = self.machine.pinned(self.layers * count * WIDTH, torch.bfloat16)

    def upload(self, turn):
        """The slots of a step, where its forward would have them."""
        self.slots.copy_(self.all_slots[turn])

    def launch(self, turn):
        self.launcher.stage(self.plan)
        self.launcher.launch()

    def captured(self, turn):
        self.launcher.stage(self.plan)
        self.replay()

    def merged(self):
        pages, firsts, lengths = runs(self.slots.cpu().numpy(), TOKENS)
        return self.block_of[pages], pages, firsts, lengths

    def pairs(self):
        for block, page, first, length in zip(*(array.tolist() for array in self.merged()), strict=True):
            end = first + length
            for cache, pool in self.layer_views:
                yield pool[block, first:end], cache[page, first:end]

    def copies(self, turn):
        for row, source in self.pairs():
            row.copy_(source, non_blocking=True)

    def foreach(self, turn):
        rows, sources = zip(*self.pairs(), strict=True)
        torch._foreach_copy_(rows, sources, non_blocking=True)

    def batched(self, batch):
        host, device = self.caches.pool.data_ptr(), self.caches.slab.data_ptr()
        page = TOKENS * ROW
        layers = np.arange(self.layers)

        def run(turn):
            blocks, pages, firsts, lengths = (array[:, None] for array in self.merged())
            destinations = host + (blocks * self.layers + layers) * page + firsts * ROW
            sources = device + (layers * self.caches.blocks + pages) * page + firsts * ROW
            sizes = np.broadcast_to(lengths * ROW, destinations.shape)
            batch.copy(destinations.ravel(), sources.ravel(), sizes.ravel())

        return run

    def gather(self, turn):
        rows = self.caches.slab.view(self.layers, -1, WIDTH)
        torch.index_select(rows, 1, self.slots, out=self.gathered)
        self.landed.copy_(self.gathered.view(-1), non_blocking=True)
        slots = self.slots.cpu().numpy()
        self.machine.finish()
        blocks, within = self.block_of[slots // TOKENS], slots % TOKENS
        landed = bits(self.landed).numpy().reshape(self.layers, -1, WIDTH)
        bits(self.caches.pool).numpy()[blocks, :, within] = landed.transpose(1, 0, 2)

    def ways(self):
        """All ways, and why some cannot be tried here."""
        ways = [Way(OURS, self.launch, self.upload), Way(COPIES, self.copies, self.upload), Way(GATHER, self.gather, self.upload)]
        skipped = {}
        if hasattr(torch, "_foreach_copy_"):
            ways.append(Way(FOREACH, self.foreach, self.upload))
        else:
            skipped[FOREACH] = "this PyTorch has none"
        if self.machine.stream is None:
            skipped[BATCH] = "there is no GPU"
        else:
            try:
                batch = Batch(self.machine.stream.cuda_stream)
                ways.append(Way(BATCH, self.batched(batch), self.upload))
            except (OSError, AttributeError) as error:
                skipped[BATCH] = str(error)
        return ways, skipped

    def verify(self, way):
        """Whether a way writes the rows of its turn, and no byte more."""
        turn = ROTATION - 1
        bits(self.caches.pool).fill_(POISON)
        expected = torch.full(self.caches.pool.shape, POISON, dtype=torch.int16, device=self.machine.device)
        slots = torch.from_numpy(self.steps[turn])
        blocks, rows = torch.from_numpy(self.block_of)[slots // TOKENS], slots % TOKENS
        pages, rows, blocks = (ids.to(self.machine.device) for ids in (slots // TOKENS, rows, blocks))
        expected[blocks, :, rows] = bits(self.caches.slab)[:, pages, rows].transpose(0, 1)
        way.before(turn)
        way.run(turn)
        self.machine.finish()
        assert torch.equal(bits(self.caches.pool).to(self.machine.device), expected), f"{way.name}: wrong bytes"


def measure(bed):
    """As many rows of many requests, of some with drafts, and of one."""
    rows = bed.sizes.requests
    cases, judged = [], []
    for requests, each in ((rows, 1), (rows // 4, 4), (1, rows)):
        bed.fill()
        scene = Scene(bed, requests, each)
        ways, skipped = scene.ways()
        captured = Way(CAPTURED, scene.captured, scene.upload)
        for way in [*ways, captured]:
            try:
                scene.verify(way)
            except RuntimeError as error:
                # What this PyTorch or driver refuses, others are measured without.
                if way.name not in (FOREACH, BATCH):
                    raise
                skipped[way.name] = str(error)
        ways = [way for way in ways if way.name not in skipped]
        values = scene.layers * rows * WIDTH
        floor = Way(FLOOR, floor_up(bed, values))
        title = f"{rows} rows of {requests} request{'s' * (requests > 1)}"
        samples = rounds(bed.machine, [*ways, floor], bed.machine.wall, bed.sizes.repeats, ROTATION)
        case = Case("b", f"{title}; eager, until done", OURS, samples, 2 * values, FLOOR, drawn=True, skipped=skipped)
        cases.append(case)
        samples = rounds(bed.machine, [captured, floor], bed.machine.gpu, bed.sizes.repeats, ROTATION)
        cases.append(Case("b", f"{title}; captured, the GPU's time", CAPTURED, samples, 2 * values, FLOOR))
        scene.launcher.close()
        if requests > 1:
            best = min((name for name in (COPIES, FOREACH, BATCH) if name in case.samples), key=case.ratio)
            judged.append(Bar("b", f"times as fast as the fastest merged copies ({best}): {title}", case.ratio(best), least=LEAST))
    return cases, judged
