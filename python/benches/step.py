"""Figure c: what tails that are lifted beside it add to a captured decode step.

The step is a stand-in with random weights and the shapes of MLA: 61 layers that each project, write the new row of every request to its
page, read all pages of its context, and end with an output projection and one expert. What it computes means nothing; how long it
takes does. The lifted pages belong to requests that join at the next step.
"""

import torch
from torch.nn.functional import layer_norm

import pagelift
from bed import FLOOR, POISON, WIDTH, Tails, bits, floor_down
from machine import Way, rounds
from report import Case

ALONE = "the step alone"
IN_ORDER, BRANCH = "pagelift in order", "pagelift on a branch"
COPIES, CAPTURED_COPIES = "copy_ loops before the step", "copy_ loops in the step's graph"
TOKENS, ROWS, LATENT = 64, 32, 512


class Step:
    """Weights, caches and inputs. The last pages of each cache, one for each host block, are those that tails are lifted into."""

    def __init__(self, bed):
        self.bed, self.machine, self.sizes = bed, bed.machine, bed.sizes
        sizes, device = bed.sizes, bed.machine.device
        self.layers, self.requests, self.context = sizes.layers, sizes.requests, sizes.context_pages * TOKENS
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        weight = lambda rows, columns: torch.empty(rows, columns, dtype=dtype, device=device).normal_(0, rows**-0.5)
        self.weights = [
            (
                weight(sizes.hidden, WIDTH + sizes.query),
                weight(sizes.query, sizes.heads * WIDTH),
                weight(sizes.heads * LATENT, sizes.hidden),
                weight(sizes.hidden, sizes.experts),
                weight(sizes.experts, sizes.hidden),
            )
            for _ in range(self.layers)
        ]
        self.hidden = torch.empty(self.requests, sizes.hidden, dtype=dtype, device=device).normal_()
        self.blocks = sizes.blocks * 128 // TOKENS
        self.first = self.requests * sizes.context_pages
        self.slab = torch.zeros(self.layers, self.first + self.blocks, TOKENS, WIDTH, dtype=torch.bfloat16, device=device)
        self.pool = bed.host.view(self.blocks, self.layers, TOKENS, WIDTH)
        self.table = torch.randperm(self.first, device=device)
        # The new row of a request is the last of its context.
        self.slots = self.table.view(self.requests, -1)[:, -1] * TOKENS + TOKENS - 1
        page = TOKENS * WIDTH * 2
        region = bed.memory.adopt(self.machine.backend, "device", self.slab)
        layout, builder = pagelift.PagedLayout.mla_bf16(TOKENS), pagelift.GeometryBuilder()
        host = builder.pool("host", "host", self.blocks, [bed.host_region])
        pages = self.first + self.blocks
        device = builder.pool("slab", "device", pages, [region])
        in_block = [layer * page for layer in range(self.layers)]
        self.group = builder.group(
            "mla",
            layers=self.layers,
            landing="host",
            lift="tail",
            host=pagelift.SideSpec.packed(host, [bed.host_region], in_block, self.layers * page, layout),
            device=pagelift.SideSpec.packed(device, [region], [pages * at for at in in_block], page, layout),
        )
        self.geometry = builder.build()
        self.views = [
            [(self.slab[layer, self.first + n, :ROWS], self.pool[n, layer, :ROWS]) for layer in range(self.layers)] for n in range(self.blocks)
        ]

    def forward(self):
        hidden, heads = self.hidden, self.sizes.heads
        for cache, (down, up, out, gate, expert) in zip(self.slab, self.weights, strict=True):
            projected = layer_norm(hidden, hidden.shape[1:]) @ down
            cache.view(-1, WIDTH).index_copy_(0, self.slots, projected[:, :WIDTH].to(cache.dtype))
            query = (projected[:, WIDTH:] @ up).view(self.requests, heads, WIDTH)
            context = cache.index_select(0, self.table).view(self.requests, self.context, WIDTH).to(query.dtype)
            shares = torch.softmax(torch.bmm(query, context.transpose(1, 2)) * WIDTH**-0.5, -1)
            attended = torch.bmm(shares, context[:, :, :LATENT]).reshape(self.requests, heads * LATENT)
            hidden = hidden + attended @ out
            hidden = hidden + torch.relu(layer_norm(hidden, hidden.shape[1:]) @ gate) @ expert
        return hidden

    def copies(self, numbers):
        for number in numbers:
            for page, block in self.views[number]:
                page.copy_(block, non_blocking=True)

    def tails(self, branch):
        pages = range(self.first, self.first + self.blocks)
        return Tails(self.bed.memory, self.machine, self.geometry, self.group, ROWS, pages, branch)

    def verify(self, way, numbers):
        """Whether a way lifts the tails of its turn into the pages behind the context, and no byte more."""
        lifted = bits(self.slab)[:, self.first :]
        lifted.fill_(POISON)
        expected = torch.full_like(lifted, POISON)
        for number in numbers:
            expected[:, number, :ROWS] = bits(self.pool[number, :, :ROWS]).to(expected.device)
        way.run(0)
        self.machine.finish()
        assert torch.equal(lifted, expected), f"{way.name}: wrong bytes"


def measure(bed):
    """A few tails and many, in order, on a branch, and by copies."""
    bed.fill()
    step, machine, sizes = Step(bed), bed.machine, bed.sizes
    with torch.inference_mode():
        for _ in range(2):
            step.forward()
        machine.finish()
        alone = machine.graph(step.forward)
        in_order, branch = step.tails(False), step.tails(True)

        def record_in_order():
            machine.record(in_order.launcher)
            step.forward()

        lift_in_order = machine.graph(record_in_order)
        lift_on_branch = machine.graph(lambda: machine.record_on_branch(branch.launcher, step.forward))
        # From here on it is staged in the order of replays.
        machine.use(branch.launcher)
        cases = []
        for count in sizes.tails:
            cases.extend(measure_tails(bed, step, count, alone, (in_order, lift_in_order), (branch, lift_on_branch)))
    in_order.launcher.close()
    branch.launcher.close()
    return cases, []


def measure_tails(bed, step, count, alone, in_order, branch):
    machine, sizes = bed.machine, bed.sizes
    rotation = step.blocks // count
    numbers = lambda turn: range(turn * count, turn * count + count)

    def lifting(tails, replay):
        def run(turn):
            tails.stage(numbers(turn))
            replay()

        return run

    def copies_before(turn):
        step.copies(numbers(turn))
        alone()

    def record_copies():
        step.copies(numbers(0))
        step.forward()

    # A graph keeps addresses: these copies are of the same blocks each time.
    copies_inside = machine.graph(record_copies)
    lifts = [Way(IN_ORDER, lifting(*in_order)), Way(BRANCH, lifting(*branch)), Way(CAPTURED_COPIES, lambda turn: copies_inside())]
    before = Way(COPIES, copies_before)
    for way in [*lifts, before]:
        step.verify(way, numbers(0))
    base, values = Way(ALONE, lambda turn: alone()), count * step.layers * ROWS * WIDTH
    floor = Way(FLOOR, floor_down(bed, values))
    cases = []
    for words, ways, clock in (
        ("until done", [base, *lifts, before], machine.wall),
        ("the GPU's time", [base, *lifts], machine.gpu),
    ):
        samples = rounds(machine, ways, clock, sizes.step_repeats, rotation)
        # What pays for the copy alone, timed apart, since it is no step.
        samples |= rounds(machine, [floor], clock, sizes.step_repeats, rotation)
        title = f"a step and {count} tail{'s' * (count > 1)} of {ROWS} rows; {words}"
        drawn = words == "until done"
        cases.append(Case("c", title, IN_ORDER, samples, 2 * values, FLOOR, {"tails": count}, drawn, base=ALONE))
    return cases
