"""Figure a: a partly filled block of all layers into a page, by one launch and by a copy for each layer."""

import torch

from bed import FLOOR, POISON, WIDTH, Caches, Tails, bits, floor_down
from machine import Way, rounds
from report import Bar, Case

OURS, COPIES = "pagelift, one launch", "copy_ a layer"
LEAST = 1.5
# How they are run, and the clock; both but the last have a bar.
EAGER, CAPTURED, CAPTURED_WALL = "eager, until done", "captured, the GPU's time", "captured, until done"
TAILS = {64: (1, 17, 63, 64), 128: (1, 17, 64, 127, 128)}


def measure(bed):
    """All tails, of both sizes of blocks and both orders of the pool: eagerly, and captured in graphs."""
    cases = []
    for tokens, tails in TAILS.items():
        for order in ("block-major", "layer-major"):
            caches = Caches(bed, tokens, order)
            for rows in tails:
                cases.extend(measure_tail(bed, caches, order, rows))
    return cases, bars(cases)


def measure_tail(bed, caches, order, rows):
    machine, sizes, rotation = bed.machine, bed.sizes, bed.sizes.blocks
    tails = Tails(bed.memory, machine, caches.geometry, caches.group, rows, range(rotation))
    values = caches.layers * rows * WIDTH
    assert tails.reservations.bytes(tails.imports[0]) == 2 * values
    # Made before it is timed: a connector may keep views, though most make them in the loop.
    views = [[(caches.slab[layer, n, :rows], caches.pool[n, layer, :rows]) for layer in range(caches.layers)] for n in range(rotation)]

    def copies(turn):
        for page, block in views[turn]:
            page.copy_(block, non_blocking=True)

    def launch(turn):
        tails.stage((turn,))
        tails.launcher.launch()

    one_launch = machine.graph(lambda: machine.record(tails.launcher))
    # Graphs keep addresses, so that copies need one for each block and page.
    graphs = [machine.graph(lambda turn=turn: copies(turn)) for turn in range(rotation)]

    def replay(turn):
        tails.stage((turn,))
        one_launch()

    eager = [Way(OURS, launch), Way(COPIES, copies)]
    captured = [Way(OURS, replay), Way(COPIES, lambda turn: graphs[turn]())]
    for way in eager + captured:
        verify(machine, caches, rows, way)
    floor = Way(FLOOR, floor_down(bed, values))
    title = f"{rows} of {caches.tokens} tokens, {order} pool"
    cases = []
    for mode, ways, clock in (
        (EAGER, eager, machine.wall),
        (CAPTURED, captured, machine.gpu),
        (CAPTURED_WALL, captured, machine.wall),
    ):
        samples = rounds(machine, [*ways, floor], clock, sizes.repeats, rotation)
        # A picture of every case would be a long one.
        drawn = order == "block-major" and rows in (17, caches.tokens) and mode != CAPTURED_WALL
        cases.append(Case("a", f"{title}; {mode}", OURS, samples, 2 * values, FLOOR, {"mode": mode}, drawn))
    tails.launcher.close()
    return cases


def verify(machine, caches, rows, way):
    """Whether a way writes the rows of its turn, and no byte more."""
    turn = caches.bed.sizes.blocks - 1
    bits(caches.slab).fill_(POISON)
    expected = torch.full_like(bits(caches.slab), POISON)
    expected[:, turn, :rows] = bits(caches.pool[turn, :, :rows].contiguous()).to(expected.device)
    way.run(turn)
    machine.finish()
    assert torch.equal(bits(caches.slab), expected), f"{way.name}: wrong bytes"


def bars(cases):
    """One bar for each mode that has one: the case that is worst for pagelift."""
    judged = []
    for mode in (EAGER, CAPTURED):
        worst = min((case for case in cases if case.fields["mode"] == mode), key=lambda case: case.ratio(COPIES))
        words = f"times as fast as {COPIES}, where it is least: {worst.title}"
        judged.append(Bar("a", words, worst.ratio(COPIES), least=LEAST))
    return judged
