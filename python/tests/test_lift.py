"""Imports are lifted: every byte of every pool against NumPy, in all modes, for prompts of all alignments."""

import numpy as np
import pytest

import pagelift
from world import BLOCK_TOKENS, World

MODES = ["whole", "exact", "exact-zeroed"]


def make_import(world, prompt, recurrence="state", pages_from=0):
    """An import of a prompt into every group, with random blocks and pages; and what it uses."""
    span = pagelift.PromptSpan(prompt, recurrence)
    blocks = span.in_blocks_of(BLOCK_TOKENS)
    used, groups = {}, []
    for group in world.groups:
        count = blocks.endpoints if group.tokens_per_row == 1 and group is world.main else 1
        pages = 1
        if group is world.index:
            count = pages = blocks.endpoints
        used[group.name] = world.choose(group, "host", count), world.choose(group, "device", pages + pages_from)[pages_from:]
        groups.append(pagelift.ImportGroup(group.key, *used[group.name]))
    return pagelift.Import(span, groups), span, blocks, used


def lift(world, expected, span, blocks, used, mode):
    """The reference."""
    for group in world.groups:
        host, device = expected[group.name]
        sources, pages = used[group.name]
        if group in (world.ring, world.state):
            pairs = [(sources[0], pages[0], None)]
        elif group is world.main:
            pairs = [(sources[blocks.tail_page], pages[0], blocks.tail_tokens)]
        else:
            pairs = [(block, page, BLOCK_TOKENS) for block, page in zip(sources, pages, strict=True)]
            pairs[-1] = (*pairs[-1][:2], blocks.tail_tokens)
        for block, page, tokens in pairs:
            imported = group.rows if tokens is None else tokens // group.tokens_per_row
            partly = tokens is not None and tokens < BLOCK_TOKENS
            rows = group.rows if mode == "whole" and tokens != 0 or not partly else imported
            for layer in range(group.layers):
                group.copy_rows(host[block, layer], device[layer, page], range(rows))
                if mode == "exact-zeroed" and partly:
                    for row in range(imported, group.rows):
                        for piece in group.row(device[layer, page], row):
                            piece[:] = 0


@pytest.mark.parametrize("mode", MODES)
def test_lifts_every_row_and_nothing_else(world, mode):
    for prompt in [1, 2, BLOCK_TOKENS, BLOCK_TOKENS + 1, 3 * BLOCK_TOKENS, int(world.rng.integers(2, 100))]:
        import_, span, blocks, used = make_import(world, prompt)
        plan = pagelift.RestorePlan(world.geometry)
        plan.lift(import_, mode)
        expected = world.snapshot()
        lift(world, expected, span, blocks, used, mode)
        world.run(plan)
        world.check(expected)


@pytest.mark.parametrize("mode", MODES)
def test_reserved_imports_lift_the_same(world, mode):
    reservations = pagelift.Reservations(world.geometry, 4)
    plan = pagelift.RestorePlan(world.geometry)
    import_, span, blocks, used = make_import(world, 37)
    import_id = reservations.reserve(import_, mode)
    assert import_id in reservations and len(reservations) == 1
    plan.lift_reserved(reservations, import_id)
    assert reservations.bytes(import_id) == plan.bytes
    expected = world.snapshot()
    lift(world, expected, span, blocks, used, mode)
    world.run(plan)
    world.check(expected)

    with pytest.raises(pagelift.PlanError) as taken:
        reservations.reserve(import_, mode)
    assert taken.value.kind == "Reserved"
    reservations.release(import_id)
    assert import_id not in reservations and reservations.bytes(import_id) is None
    with pytest.raises(pagelift.PlanError):
        reservations.release(import_id)
    with pytest.raises(pagelift.PlanError):
        plan.lift_reserved(reservations, import_id)


def test_a_lift_may_be_spread_over_several_plans(world):
    import_, span, blocks, used = make_import(world, 70)
    expected = world.snapshot()
    lift(world, expected, span, blocks, used, "exact")
    plan, progress, plans = pagelift.RestorePlan(world.geometry), pagelift.LiftProgress(), 0
    launcher = pagelift.Launcher.bind(world.backend, world.memory, plan)
    while not progress.is_finished:
        plan.clear()
        progress, left = plan.lift_within(import_, "exact", progress, 100)
        assert 0 <= left <= 100
        launcher.stage(plan)
        launcher.launch()
        plans += 1
    assert plans > 3
    world.check(expected)


def test_lists_come_as_sequences_or_arrays(world):
    span = pagelift.PromptSpan(5)
    whole = {}
    for make in (list, tuple, np.array, lambda ids: np.array(ids, np.int32), lambda ids: np.array(ids, np.uint64)):
        groups = [
            pagelift.ImportGroup(group.key, make([3]), make([2])) for group in world.groups
        ]
        plan = pagelift.RestorePlan(world.geometry)
        plan.lift(pagelift.Import(span, groups))
        whole[repr(plan)] = plan.bytes
    assert len(whole) == 1
    for wrong in ([-1], [2**32], ["a"], np.array([1.5]), "12", None, [None]):
        with pytest.raises((TypeError, OverflowError)):
            pagelift.ImportGroup(world.main.key, wrong, [0])


def test_groups_that_landed_on_the_device_are_left_alone(world):
    _, span, _, used = make_import(world, 20)
    groups = [pagelift.ImportGroup.landed(group.key, used[group.name][1]) for group in world.groups]
    plan = pagelift.RestorePlan(world.geometry)
    plan.lift(pagelift.Import(span, groups))
    assert plan.jobs == 0 and plan.is_empty
    expected = world.snapshot()
    world.run(plan)
    world.check(expected)


def test_what_is_wrong_with_an_import_is_said(world):
    import_, span, _, used = make_import(world, 40)
    plan = pagelift.RestorePlan(world.geometry)
    groups = [pagelift.ImportGroup(group.key, *used[group.name]) for group in world.groups]
    other = World(world.backend, world.rng)

    def kind(groups, **capacity):
        plan = pagelift.RestorePlan(world.geometry, **capacity)
        with pytest.raises(pagelift.PlanError) as error:
            plan.lift(pagelift.Import(span, groups))
        assert plan.jobs == 0 and plan.bytes == 0
        return error.value.kind

    main = used["main"]
    assert kind(groups[1:]) == "GroupMissing"
    assert kind([*groups, groups[0]]) == "GroupTwice"
    assert kind([pagelift.ImportGroup(world.main.key, main[0][:-1], main[1]), *groups[1:]]) == "ListLength"
    assert kind([pagelift.ImportGroup(world.main.key, main[0], [99]), *groups[1:]]) == "OutOfRange"
    assert kind([pagelift.ImportGroup(other.main.key, *main), *groups[1:]]) == "ForeignGroup"
    assert kind(groups, jobs=1) == "Capacity"
    plan.lift(import_)
    with pytest.raises(pagelift.PlanError) as twice:
        plan.lift(import_)
    assert twice.value.kind == "WrittenTwice" and "written twice" in str(twice.value)
    with pytest.raises(pagelift.CapacityError) as full:
        pagelift.RestorePlan(world.geometry, jobs=2**30)
    assert (full.value.what, full.value.needed, full.value.capacity) == ("jobs", 2**30, 2**20)


def test_the_arithmetic_of_prompts():
    span = pagelift.PromptSpan(32_019)
    blocks = span.in_blocks_of(128)
    assert (span.imported_tokens, span.resume_at) == (32_019, 32_018)
    assert (blocks.received, blocks.holes, blocks.tail_page, blocks.tail_tokens) == (251, 109, 250, 19)
    hybrid = pagelift.PromptSpan(32_001, "state")
    assert (hybrid.imported_tokens, hybrid.resume_at) == (32_000, 32_000)
    assert hybrid.in_blocks_of(128).endpoints == 251
    decided = pagelift.decide(32_019, block_tokens=128, free_pages=1)
    assert (decided.arrival, decided.pages, decided.left, decided.span == span) == ("host-then-lift", 1, 1, True)
    rounded = pagelift.decide(32_019, block_tokens=128, free_pages=1, policy="round-down")
    assert (rounded.arrival, rounded.left, rounded.span.imported_tokens) == ("host", 19, 32_000)
    for wrong in (
        lambda: pagelift.PromptSpan(0),
        lambda: pagelift.PromptSpan.explicit(5, 6, 5),
        lambda: pagelift.PromptSpan.explicit(5, 2, 4),
        lambda: span.in_blocks_of(0),
    ):
        with pytest.raises(pagelift.SpanError):
            wrong()
    with pytest.raises(ValueError, match="recurrence"):
        pagelift.PromptSpan(5, "maybe")
