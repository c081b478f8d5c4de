"""The caches that the bench copies: MLA in bf16, rows of 576 values (1152 bytes), in a pinned host pool and a slab of the device."""

from dataclasses import dataclass

import torch

import pagelift

WIDTH = 576
ROW = 2 * WIDTH
POISON = 0x5A5A
FLOOR = "one contiguous copy"


@dataclass
class Sizes:
    """How much of everything there is."""

    layers: int = 61
    # Blocks of 128 tokens, host and device: the places that ways rotate over. Half as large, there are twice as many.
    blocks: int = 64
    repeats: int = 60
    step_repeats: int = 50
    call_repeats: int = 2000
    # The step of figure c.
    requests: int = 64
    context_pages: int = 16
    hidden: int = 7168
    query: int = 1536
    heads: int = 16
    experts: int = 2048
    tails: tuple = (1, 8, 64)

    @staticmethod
    def quick():
        return Sizes(repeats=10, step_repeats=6, call_repeats=200)

    @staticmethod
    def tiny():
        """For the CPU."""
        return Sizes(3, 4, 3, 2, 5, requests=4, context_pages=2, hidden=32, query=16, heads=2, experts=16, tails=(1, 2, 4))


class Bed:
    """Buffers of so many bytes on both sides, which every figure lays its blocks out in."""

    def __init__(self, machine, sizes):
        self.machine, self.sizes = machine, sizes
        values = sizes.layers * sizes.blocks * 128 * WIDTH
        self.host = machine.pinned(values, torch.bfloat16)
        self.device = torch.empty(values, dtype=torch.bfloat16, device=machine.device)
        self.floor = self.device.new_empty(values)
        self.memory = pagelift.Registry()
        self.host_region = self.memory.adopt(machine.backend, "host", self.host)
        self.device_region = self.memory.adopt(machine.backend, "device", self.device)
        self.fill()

    def fill(self):
        """Other bytes on each side, all of them random."""
        generator = torch.Generator(self.machine.device).manual_seed(7)
        for buffer in (self.device, self.floor):
            words = buffer.view(torch.int32)
            torch.randint(0, 2**31 - 1, words.shape, dtype=torch.int32, device=words.device, generator=generator, out=words)
        self.host.copy_(self.floor)
        self.machine.finish()


class Caches:
    """The bed in blocks and pages of `tokens` tokens, and its geometry.

    `pool[block, layer, token]` is a host row, whatever `order` the pool has: `"block-major"` (all layers of a block together) or
    `"layer-major"`. `slab[layer, page, token]` is a row of the device.
    """

    def __init__(self, bed, tokens, order):
        self.bed, self.tokens, self.layers = bed, tokens, bed.sizes.layers
        self.blocks = bed.sizes.blocks * 128 // tokens
        self.layout = pagelift.PagedLayout.mla_bf16(tokens)
        page = self.layout.page_bytes
        assert page == tokens * ROW
        layers, blocks = self.layers, self.blocks
        if order == "block-major":
            self.pool = bed.host.view(blocks, layers, tokens, WIDTH)
            offsets, stride = [layer * page for layer in range(layers)], layers * page
        else:
            self.pool = bed.host.view(layers, blocks, tokens, WIDTH).transpose(0, 1)
            offsets, stride = [layer * blocks * page for layer in range(layers)], page
        self.slab = bed.device.view(layers, blocks, tokens, WIDTH)
        builder = pagelift.GeometryBuilder()
        host = builder.pool("host", "host", blocks, [bed.host_region])
        device = builder.pool("slab", "device", blocks, [bed.device_region])
        layers_outermost = [layer * blocks * page for layer in range(layers)]
        self.group = builder.group(
            "mla",
            layers=layers,
            landing="host",
            lift="tail",
            host=pagelift.SideSpec.packed(host, [bed.host_region], offsets, stride, self.layout),
            device=pagelift.SideSpec.packed(device, [bed.device_region], layers_outermost, page, self.layout),
        )
        self.geometry = builder.build()


class Tails:
    """A launcher that lifts tails of `rows` rows, one for each of the pages in `pages`, out of the block of the same number."""

    def __init__(self, memory, machine, geometry, group, rows, pages, branch=False):
        self.plan = pagelift.RestorePlan(geometry)
        self.reservations = pagelift.Reservations(geometry, len(pages), jobs=4, list_entries=4)
        span = pagelift.PromptSpan(rows)
        reserve = lambda block, page: self.reservations.reserve(
            pagelift.Import(span, [pagelift.ImportGroup(group, [block], [page])]), "exact"
        )
        self.imports = [reserve(block, page) for block, page in enumerate(pages)]
        self.launcher = pagelift.Launcher.bind(machine.backend, memory, self.plan)
        machine.use(self.launcher, branch)

    def fill(self, numbers):
        self.plan.clear()
        for number in numbers:
            self.plan.lift_reserved(self.reservations, self.imports[number])

    def stage(self, numbers):
        self.fill(numbers)
        self.launcher.stage(self.plan)


def bits(tensor):
    """What a tensor holds, as integers: numbers that are not a number are not equal to themselves."""
    return tensor.view(torch.int16)


def floor_down(bed, values):
    """The way of copying as many bytes from the host to the device in one piece; pieces rotate too."""
    pieces = max(1, bed.host.numel() // values)

    def run(turn):
        at = turn % pieces * values
        bed.floor[at : at + values].copy_(bed.host[at : at + values], non_blocking=True)

    return run


def floor_up(bed, values):
    """The same from the device to the host."""
    pieces = max(1, bed.host.numel() // values)

    def run(turn):
        at = turn % pieces * values
        bed.host[at : at + values].copy_(bed.floor[at : at + values], non_blocking=True)

    return run
