"""A geometry with a group of each kind, in random memory of NumPy, and what copies do to it, written as plain slices.

Host pools are blocks outermost, device pools layers outermost, both with padding behind each page: `host[block, layer]` and
`device[layer, page]` are one layer's page. Nothing here asks pagelift where a row lies.
"""

from dataclasses import dataclass, field

import numpy as np

import pagelift

BLOCK_TOKENS = 16


@dataclass
class Group:
    """One group: its arrays, and where the rows of a page lie."""

    name: str
    layers: int
    lift: str
    layout: object
    tokens_per_row: int
    rows: int
    # (offset, bytes of a row) of each segment; rows of a segment follow one another.
    segments: list
    host: np.ndarray = field(default=None, repr=False)
    device: np.ndarray = field(default=None, repr=False)
    key: object = None
    regions: dict = field(default_factory=dict)

    def row(self, page: np.ndarray, row: int) -> list:
        """The slices of one row of a page."""
        return [page[at + row * width : at + (row + 1) * width] for at, width in self.segments]

    def copy_rows(self, source: np.ndarray, destination: np.ndarray, rows) -> None:
        """The reference: rows of one page to the same rows of another."""
        for row in rows:
            for from_, to in zip(self.row(source, row), self.row(destination, row), strict=True):
                to[:] = from_


class World:
    """Four groups of layers, registered on one backend."""

    def __init__(self, backend, rng, *, blocks=24, pages=9, build=True, on_device=lambda array: array):
        self.backend, self.rng, self.on_device = backend, rng, on_device
        self.memory = pagelift.Registry()
        self.builder = pagelift.GeometryBuilder()
        tokens = BLOCK_TOKENS
        self.main = self._paged("main", 3, "tail", 1, [("latent", int(rng.integers(1, 90)))])
        self.index = self._paged("index", 2, "all", 4, [("key", int(rng.integers(1, 40))), ("scale", 4)])
        slots, width = 8, int(rng.integers(1, 60))
        layout = pagelift.RingLayout(slots, width)
        self.ring = Group("ring", 2, "state", layout, 1, slots, [(0, width)])
        parts = [int(rng.integers(1, 300)), int(rng.integers(1, 2000))]
        layout = pagelift.StateLayout([("conv", parts[0]), ("temporal", parts[1])])
        self.state = Group("state", 2, "state", layout, 1, 1, [(0, parts[0]), (parts[0], parts[1])])
        self.groups = [self.main, self.index, self.ring, self.state]
        assert tokens % 4 == 0
        for group in self.groups:
            self._place(group, blocks, pages)
        if build:
            self.geometry = self.builder.build()

    def _paged(self, name, layers, lift, tokens_per_row, segments):
        layout = pagelift.PagedLayout(BLOCK_TOKENS, segments, tokens_per_row=tokens_per_row)
        rows, at, placed = BLOCK_TOKENS // tokens_per_row, 0, []
        for _, width in segments:
            placed.append((at, width))
            at += rows * width
        assert (layout.rows_per_block, layout.page_bytes) == (rows, at)
        return Group(name, layers, lift, layout, tokens_per_row, rows, placed)

    def _place(self, group, blocks, pages):
        page = group.layout.page_bytes
        strides = [page + int(self.rng.integers(0, 50)) for _ in range(2)]
        group.host = self.random((blocks, group.layers, strides[0]))
        group.device = self.on_device(self.random((group.layers, pages, strides[1])))
        sides = {}
        for place, array in (("host", group.host), ("device", group.device)):
            region = group.regions[place] = self.memory.adopt(self.backend, place, array)
            count = blocks if place == "host" else pages
            pool = self.builder.pool(f"{group.name} {place}", place, count, [region])
            if place == "host":
                offsets, stride = [layer * strides[0] for layer in range(group.layers)], group.layers * strides[0]
            else:
                offsets, stride = [layer * pages * strides[1] for layer in range(group.layers)], strides[1]
            sides[place] = pagelift.SideSpec.packed(pool, [region], offsets, stride, group.layout)
        group.key = self.builder.group(group.name, layers=group.layers, landing="host", lift=group.lift, **sides)

    def random(self, shape):
        return self.rng.integers(0, 256, shape, np.uint8)

    def snapshot(self):
        """Copies of all pools, to be changed by the reference and compared whole."""
        return {group.name: (group.host.copy(), group.device.copy()) for group in self.groups}

    def check(self, expected):
        """Every byte of every pool: rows, holes, neighbours and padding."""
        for group in self.groups:
            host, device = expected[group.name]
            np.testing.assert_array_equal(group.host, host, err_msg=f"{group.name}, host")
            np.testing.assert_array_equal(group.device, device, err_msg=f"{group.name}, device")

    def choose(self, group, side, count):
        """Distinct ids, in random order."""
        total = group.host.shape[0] if side == "host" else group.device.shape[1]
        return [int(i) for i in self.rng.permutation(total)[:count]]

    def run(self, plan, **options):
        """Binds, stages, launches; returns the launcher and the ticket."""
        launcher = pagelift.Launcher.bind(self.backend, self.memory, plan, **options)
        ticket = launcher.stage(plan)
        launcher.launch()
        launcher.wait()
        assert launcher.state(ticket) == "done"
        return launcher, ticket
