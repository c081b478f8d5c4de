"""The shapes of tensors that docs/embedding.md describes sides for: all blocks are lifted from each into each, and every byte compared."""

import itertools

import numpy as np
import pytest

import pagelift

LAYERS, BLOCKS, TOKENS, HEADS, DIM = 3, 5, 8, 2, 12
WIDTH = 2 * HEADS * DIM


def rows():
    return pagelift.PagedLayout(TOKENS, [("kv", WIDTH)])


def dense(order, regions):
    return pagelift.PagedLayout.dense(TOKENS, heads=HEADS, dim=DIM, value_bytes=1, order=order, regions=regions)


def apart(tensors, page):
    """Layer-separate: block 0 of each tensor, and of K and of V in each where these lie apart."""
    return lambda pool, layout: pagelift.SideSpec.layer_separate(pool, [t.ctypes.data for t in tensors], page, layout)


def together(tensor, offsets, stride):
    return lambda pool, layout: pagelift.SideSpec.packed(pool, [tensor.ctypes.data], offsets, stride, layout)


def each(*shape):
    tensor = np.zeros((LAYERS, *shape), dtype=np.uint8)
    return tensor, list(tensor)


def shape(name):
    """A tensor, its layout, its side, and the view of it that is `[layers, blocks, tokens, values]`, or K and V and heads apart."""
    page = TOKENS * WIDTH
    if name == "[blocks, tokens, width] each":
        tensor, layers = each(BLOCKS, TOKENS, WIDTH)
        return tensor, rows(), apart(layers, page), tensor
    if name == "[layers, blocks, tokens, width]":
        tensor, _ = each(BLOCKS, TOKENS, WIDTH)
        return tensor, rows(), together(tensor, [l * BLOCKS * page for l in range(LAYERS)], page), tensor
    if name == "[blocks, layers, tokens, width]":
        tensor = np.zeros((BLOCKS, LAYERS, TOKENS, WIDTH), dtype=np.uint8)
        side = together(tensor, [l * page for l in range(LAYERS)], LAYERS * page)
        return tensor, rows(), side, tensor.transpose(1, 0, 2, 3)
    # The views of dense tensors are `[layers, blocks, K and V, tokens, heads, values]`.
    if name == "[blocks, 2, tokens, heads, dim] each":
        tensor, layers = each(BLOCKS, 2, TOKENS, HEADS, DIM)
        return tensor, dense("nhd", "packed"), apart(layers, page), tensor
    if name == "[blocks, 2, heads, tokens, dim] each":
        tensor, layers = each(BLOCKS, 2, HEADS, TOKENS, DIM)
        return tensor, dense("hnd", "packed"), apart(layers, page), tensor.transpose(0, 1, 2, 4, 3, 5)
    tensor, layers = each(2, BLOCKS, TOKENS, HEADS, DIM)
    parts = [part for layer in layers for part in layer]
    return tensor, dense("nhd", "separate"), apart(parts, page // 2), tensor.transpose(0, 2, 1, 3, 4, 5)


ROWS = ["[blocks, tokens, width] each", "[layers, blocks, tokens, width]", "[blocks, layers, tokens, width]"]
DENSE = [
    "[blocks, 2, tokens, heads, dim] each",
    "[blocks, 2, heads, tokens, dim] each",
    "[2, blocks, tokens, heads, dim] each",
]


@pytest.mark.parametrize("source, target", [*itertools.product(ROWS, ROWS), *itertools.product(DENSE, DENSE)])
def test_sides_are_what_the_shapes_say(cpu, rng, source, target):
    (host, host_layout, host_side, from_), (slab, slab_layout, slab_side, to) = shape(source), shape(target)
    host[...] = rng.integers(0, 256, host.shape, dtype=np.uint8)
    memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
    blocks = builder.pool("host", "host", BLOCKS, [memory.adopt(cpu, "host", host)])
    pages = builder.pool("slab", "device", BLOCKS, [memory.adopt(cpu, "device", slab)])
    sides = {"host": host_side(blocks, host_layout), "device": slab_side(pages, slab_layout)}
    group = builder.group("kv", layers=LAYERS, landing="host", lift="all", **sides)
    plan = pagelift.RestorePlan(builder.build())
    launcher = pagelift.Launcher.bind(cpu, memory, plan)
    lists = [4, 0, 3], [1, 2, 0]
    span = pagelift.PromptSpan(3 * TOKENS - 2)
    plan.lift(pagelift.Import(span, [pagelift.ImportGroup(group, *lists)]))
    expected = np.zeros_like(to)
    expected[:, lists[1]] = from_[:, lists[0]]
    ticket = launcher.stage(plan)
    launcher.launch()
    assert launcher.is_done(ticket) and np.array_equal(to, expected)
