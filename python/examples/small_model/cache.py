"""Where the model's rows and states lie: host blocks, pages, and the geometry that says so to pagelift.

| | in the host pool | on the device |
|---|---|---|
| `mla` | every block | the page that is written next; the other rows are gathered from the host pool, in each step |
| `gqa` | every block: heads inside of rows, K and V together | every page: heads outside, K and V apart |
| `gdn` | in the block of the last token that it has absorbed | one page for each request |
"""

import numpy as np

import pagelift
from model import BLOCK, DIM, HEADS, HIDDEN, LANES, LATENT, POSITIONS, ROPE, STATE, STATE_VALUES, STEP, WINDOW

EACH = POSITIONS // BLOCK  # blocks of the longest request
VALUE, SIZE = np.float32, 4


class Cache:
    """The pools of one engine, with `blocks` host blocks, `pages` pages of tails, and room for `requests` requests.

    Each group of pages has one more, behind those that are given to anybody: padding is written there.
    """

    def __init__(self, arrays, memory, kinds, blocks, pages, requests):
        self.arrays, self.xp, self.memory = arrays, arrays.xp, memory
        self.builder = pagelift.GeometryBuilder()
        self.host, self.device, self.groups, self.frames = {}, {}, {}, []
        self.states, self.gather = {}, None
        count = {kind: kinds.count(kind) for kind in ("mla", "gqa", "gdn")}
        if layers := count["mla"]:
            row = pagelift.PagedLayout(BLOCK, [("row", SIZE * (LATENT + ROPE))])
            self.place("mla", layers, "tail", blocks, pages, (row, row), (BLOCK, LATENT + ROPE), [(BLOCK, LATENT + ROPE)])
            self.frames.append(pagelift.GroupFrames(self.groups["mla"], range(blocks), range(pages)))
            self.gather = self.rows_from_the_host(layers)
        if layers := count["gqa"]:
            layouts = [
                pagelift.PagedLayout.dense(BLOCK, heads=HEADS, dim=DIM, value_bytes=SIZE, order=order, regions=regions)
                for order, regions in (("nhd", "packed"), ("hnd", "separate"))
            ]
            shapes = (2, BLOCK, HEADS, DIM), [(HEADS, BLOCK, DIM)] * 2
            self.place("gqa", layers, "all", blocks, requests * EACH, layouts, *shapes)
            frames = pagelift.GroupFrames(self.groups["gqa"], range(blocks), range(requests * EACH), each=EACH)
            self.frames.append(frames)
        if layers := count["gdn"]:
            parts = [("conv", SIZE * WINDOW * HIDDEN), ("temporal", SIZE * HEADS * STATE * STATE)]
            state = pagelift.StateLayout(parts)
            self.place("gdn", layers, "state", blocks, requests, (state, state), (STATE_VALUES,), [(STATE_VALUES,)])
            self.frames.append(pagelift.GroupFrames(self.groups["gdn"], range(blocks), range(requests)))
        self.geometry = self.builder.build()
        self.slots = {kind: arrays.on_device(np.full(LANES * STEP, -1, np.int64)) for kind in self.groups if kind != "gdn"}
        self.lanes = arrays.on_device(np.arange(LANES))
        self.within = arrays.on_device(np.arange(POSITIONS) % BLOCK)
        self.columns = arrays.on_device(np.arange(POSITIONS))

    def place(self, kind, layers, lift, blocks, pages, layouts, block_shape, page_shapes):
        """Adds a group: `host[block, layer]` with all layers of a block together, and `pages[layer, page]` for each region."""
        arrays, backend = self.arrays, self.arrays.backend
        # Nothing of what lies there before means anything.
        unwritten = lambda *shape: np.full(shape, np.nan, VALUE)
        pool, self.host[kind] = arrays.on_host(unwritten(blocks, layers, *block_shape))
        self.device[kind] = [arrays.on_device(unwritten(layers, pages + 1, *shape)) for shape in page_shapes]
        host = self.memory.adopt(backend, "host", pool)
        regions = [self.memory.adopt(backend, "device", tensor) for tensor in self.device[kind]]
        block_bytes, page_bytes = layouts[0].page_bytes, layouts[1].page_bytes // len(regions)
        in_host = self.builder.pool(f"{kind} blocks", "host", blocks, [host])
        on_device = self.builder.pool(f"{kind} pages", "device", pages + 1, regions)
        starts = [int(region) + layer * (pages + 1) * page_bytes for layer in range(layers) for region in regions]
        self.groups[kind] = self.builder.group(
            kind,
            layers=layers,
            landing="host",
            lift=lift,
            host=pagelift.SideSpec.packed(
                in_host, [host], [layer * block_bytes for layer in range(layers)], layers * block_bytes, layouts[0]
            ),
            device=pagelift.SideSpec.layer_separate(on_device, starts, page_bytes, layouts[1]),
        )

    def rows_from_the_host(self, layers):
        """A buffer for the rows of `mla` that no page has, the list that names them, and the way between."""
        self.gathered = self.arrays.on_device(np.full((layers, LANES * POSITIONS, LATENT + ROPE), np.nan, VALUE))
        self.list = self.arrays.on_device(np.full(LANES * POSITIONS, -1, np.int64))
        region = self.memory.adopt(self.arrays.backend, "device", self.gathered)
        layout = pagelift.PagedLayout(LANES * POSITIONS, [("row", SIZE * (LATENT + ROPE))])
        pool = self.builder.pool("gathered rows", "device", 1, [region])
        offsets = [layer * layout.page_bytes for layer in range(layers)]
        side = pagelift.SideSpec.packed(pool, [region], offsets, layout.page_bytes, layout)
        to = self.builder.side(self.groups["mla"], side)
        return self.builder.compact_route(self.builder.main_side(self.groups["mla"], "host"), to)

    def locate(self, step):
        """Works out, on the device, where the rows of a step lie. `step` has its numbers, as `Engine` sends them."""
        where, positions = self.xp.where, step.first + self.columns[:STEP]
        number = self.xp.clip(positions // BLOCK, 0, EACH - 1)
        real = self.columns[:STEP] < step.count
        page = step.pages[self.lanes[:, None], number]
        self.valid, self.request = self.columns < step.first + step.count, step.slot[:, 0]
        self.is_first = step.first == 0
        if "mla" in self.groups:
            self.slots["mla"][:] = where(real & (page >= 0), page * BLOCK + positions % BLOCK, -1).reshape(-1)
            page, block = step.pages[:, self.columns // BLOCK], step.blocks[:, self.columns // BLOCK]
            self.resident, self.at = page >= 0, where(page >= 0, page * BLOCK + self.within, 0)
            self.list[:] = where(self.valid & (page < 0), block * BLOCK + self.within, -1).reshape(-1)
        if "gqa" in self.groups:
            page = step.slot * EACH + number
            self.slots["gqa"][:] = where(real, page * BLOCK + positions % BLOCK, -1).reshape(-1)
            # Padding has no pages, and reads what it likes.
            last = self.device["gqa"][0].shape[1] - 1
            self.all_pages = self.xp.clip(step.slot * EACH + self.columns[:EACH], 0, last)
        return positions

    def written(self, kind):
        """Page and row of each token of the step; those of padding are in the last page."""
        slots, padding = self.slots[kind], (self.device[kind][0].shape[1] - 1) * BLOCK
        slots = self.xp.where(slots < 0, padding, slots)
        return slots // BLOCK, slots % BLOCK

    def write_mla(self, layer, rows):
        self.device["mla"][0][layer][self.written("mla")] = rows.reshape(LANES * STEP, LATENT + ROPE)

    def read_mla(self, layer):
        """Rows `[LANES, POSITIONS, LATENT + ROPE]`, each from its page where there is one, or else as it was gathered."""
        pages = self.device["mla"][0][layer].reshape(-1, LATENT + ROPE)
        gathered = self.gathered[layer].reshape(LANES, POSITIONS, LATENT + ROPE)
        return self.clean(self.xp.where(self.resident[..., None], pages[self.at], gathered))

    def write_gqa(self, layer, kv):
        page, row = self.written("gqa")
        for tensor, part in enumerate(self.device["gqa"]):
            part[layer][page, :, row] = kv[:, :, tensor].reshape(LANES * STEP, HEADS, DIM)

    def read_gqa(self, layer):
        """K and V, `[LANES, HEADS, POSITIONS, DIM]` each."""
        for part in self.device["gqa"]:
            rows = part[layer][self.all_pages].swapaxes(1, 2).reshape(LANES, HEADS, POSITIONS, DIM)
            yield self.xp.where(self.valid[:, None, :, None], rows, 0.0)

    def read_state(self, layer):
        """States `[LANES, STATE_VALUES]`; a request begins with zeros."""
        return self.xp.where(self.is_first, 0.0, self.device["gdn"][0][layer][self.request])

    def keep_states(self, layer, states):
        """States after each token of the step, until it is known which of these is accepted."""
        self.states[layer] = states

    def accept(self, accepted):
        """A state absorbs what was accepted, and no more."""
        for layer, states in self.states.items():
            chosen = self.xp.stack(states)[self.xp.clip(accepted - 1, 0, STEP - 1), self.lanes]
            self.device["gdn"][0][layer][self.request] = chosen

    def clean(self, rows):
        """Rows that the request does not have are zeros: no share of what lies there, NaN perhaps, is nothing."""
        return self.xp.where(self.valid[..., None], rows, 0.0)
