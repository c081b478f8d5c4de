"""Figure d: how long the host is busy with a step's calls, until they return."""

import time

import torch

from bed import Caches, Tails
from machine import Way, rounds
from report import Bar, Case

PLAN, STAGE, REPLAY, BOTH, ALL = "plan", "stage", "replay", "stage and replay", "plan, stage and replay"
OTHER = "replay of a graph with one kernel of PyTorch's"
MOST = 25.0
ROWS = 17


def measure(bed):
    """One tail of all layers: `lift_reserved`, `stage`, and the replay of a graph that has the launcher."""
    machine, rotation = bed.machine, bed.sizes.blocks
    caches = Caches(bed, 64, "block-major")
    tails = Tails(bed.memory, machine, caches.geometry, caches.group, ROWS, range(rotation))
    replay = machine.graph(lambda: machine.record(tails.launcher))
    number = torch.zeros(1, device=machine.device)
    other = machine.graph(lambda: number.add_(1))
    parts = {PLAN: [], STAGE: [], REPLAY: [], BOTH: [], ALL: []}

    def ours(way, turn):
        launcher, plan = tails.launcher, tails.plan
        begun = time.perf_counter_ns()
        tails.fill((turn,))
        planned = time.perf_counter_ns()
        launcher.stage(plan)
        staged = time.perf_counter_ns()
        replay()
        done = time.perf_counter_ns()
        machine.finish()
        times = (planned - begun, staged - planned, done - staged, done - planned, done - begun)
        for samples, nanoseconds in zip(parts.values(), times, strict=True):
            samples.append(nanoseconds / 1e3)

    def theirs(way, turn):
        begun = time.perf_counter_ns()
        other()
        done = time.perf_counter_ns()
        machine.finish()
        return (done - begun) / 1e3

    clock = lambda way, turn: way.run(way, turn)
    repeats = bed.sizes.call_repeats
    samples = rounds(machine, [Way("ours", ours), Way(OTHER, theirs)], clock, repeats, rotation)
    samples = {name: times[-repeats:] for name, times in parts.items()} | {OTHER: samples[OTHER]}
    counters = tails.launcher.counters()
    assert counters.done == counters.staged, "a staged plan was not carried out"
    tails.launcher.close()
    title = f"the host's calls for a tail of {caches.layers} layers"
    case = Case("d", title, BOTH, samples, 2 * caches.layers * ROWS * 576, drawn=True)
    bar = Bar("d", "µs for one stage and replay, median", case.summary(BOTH)["median"], most=MOST)
    return [case], [bar]
