"""All calls on a GPU in software in random order, right ones and wrong ones: typed errors, nothing enqueued with them, nothing left."""

import collections
import gc
import random

import numpy as np
import pytest

import pagelift
from driver import EARLY, LATE, RANDOM, RELAXED, DriverFailed
from test_threads import together
from world import World

#: What wrong calls raise: those of pagelift, and those of Python for arguments of wrong types.
TYPED = (pagelift.PageliftError, TypeError, ValueError, OverflowError)
STEPS_OF_ONE = 500


class Nothing(ValueError):
    """There is nothing to call yet."""


class Calls:
    """Two geometries on one GPU and one on the CPU, and what random calls have made of them."""

    def __init__(self, driver, cpu, seed, *, threads=1):
        self.driver, self.cpu, self.random, self.threads = driver, cpu, random.Random(seed), threads
        driver.pace(self.random.choice([LATE, EARLY, RANDOM]), seed)
        rng = np.random.default_rng(seed)
        self.gpus = pagelift.Cuda(), pagelift.Cuda()
        self.worlds = [World(gpu, rng, on_device=driver.copied) for gpu in self.gpus] + [World(cpu, rng)]
        kinds = pagelift.RestorePlan, pagelift.WriteBackPlan, pagelift.MirrorPlan, pagelift.DigestPlan
        self.plans = [(world, kind(world.geometry)) for world in self.worlds for kind in kinds]
        self.streams = [driver.stream(), driver.stream(), driver.stream(blocking=True)]
        # Launchers are kept with their world and plan, graphs with what they were recorded from.
        self.launchers, self.engines, self.graphs = [], [], []
        self.recorded = collections.defaultdict(list)
        self.tickets, self.events, self.regions = ([] for _ in range(3))
        self.calls = [getattr(self, name) for name in dir(self) if name.startswith("call_")]
        self.seen = collections.Counter()

    # What is drawn.

    def one(self, of):
        if not of:
            raise Nothing
        return self.random.choice(of)

    def often(self, own, others):
        """Mostly the right one."""
        return own if self.random.random() < 0.85 else self.one(others)

    def stream(self):
        return self.one([None, None, 0, 2, "x", -1, True, *self.streams, *self.streams])

    def world(self):
        return self.one(self.worlds[:2])

    def keep(self, list_, new, room=8):
        """Keeps what was made, and closes others where there are too many."""
        list_.append(new)
        if len(list_) > room:
            self.close(list_, list_[0])

    def close(self, list_, entry):
        closes = entry[0]
        # No graph with it is replayed any more.
        self.graphs = [graph for graph in self.graphs if closes not in graph[1]]
        for recorded in self.recorded.values():
            recorded.append(None)
        closes.close()
        list_.remove(entry)

    # Calls.

    def call_lift(self):
        world, plan = self.one([own for own in self.plans if isinstance(own[1], pagelift.RestorePlan)])
        groups = self.often(world, self.worlds).groups
        numbers = [(group.key, [self.random.randrange(25)], [self.random.randrange(10)]) for group in groups]
        import_ = pagelift.Import(pagelift.PromptSpan(self.random.randrange(1, 17)), [pagelift.ImportGroup(*own) for own in numbers])
        plan.lift(import_, self.one(["whole", "exact", "exact-zeroed"]))

    def call_fill(self):
        world, plan = self.one(self.plans)
        key, page, block = world.main.key, self.random.randrange(10), self.random.randrange(25)
        if isinstance(plan, pagelift.WriteBackPlan):
            plan.spill(key, [page], [block])
        elif isinstance(plan, pagelift.MirrorPlan):
            plan.page_map.map(key, page, block) if self.random.random() < 0.5 else plan.page_map.unmap(key, page)
            plan.bind(key, pagelift.RowBinding(self.one(self.regions), capacity=8, width=8))

    def call_clear(self):
        _, plan = self.one(self.plans)
        plan.clear_bindings() if isinstance(plan, pagelift.MirrorPlan) else plan.clear()

    def call_bind(self):
        world, plan = self.one(self.plans)
        backend = self.often(world.backend, [*self.gpus, self.cpu])
        options = dict(slots=self.one([0, 1, 2, 4, 64, 65]), workers=self.one([None, 1, 9]), repeat=self.random.random() < 0.1)
        memory = self.often(world, self.worlds).memory
        self.keep(self.launchers, (pagelift.Launcher.bind(backend, memory, plan, stream=self.stream(), **options), plan))

    def call_stage(self):
        launcher, plan = self.one(self.launchers)
        self.tickets = [*self.tickets[-20:], launcher.stage(self.often(plan, [plan for _, plan in self.plans]))]

    def call_launch(self):
        self.one(self.launchers)[0].launch()

    def call_record(self):
        recording = self.one([*self.launchers, *self.engines])
        recording[0].record(*([self.one(self.plans)[1]] if recording in self.engines else []))
        for stream in self.streams:
            if stream.is_capturing:
                self.recorded[stream.handle].append(recording[0])

    def call_set_stream(self):
        self.one([*self.launchers, *self.engines])[0].set_stream(self.stream())

    def call_look(self):
        launcher, ticket = self.one(self.launchers)[0], self.one(self.tickets)
        launcher.state(ticket), launcher.is_done(ticket), launcher.report(ticket), launcher.counters().as_dict(), repr(launcher)

    def call_wait(self):
        self.one(self.launchers)[0].wait()

    def call_close(self):
        if self.random.random() < 0.3:
            list_ = self.one([self.launchers, self.engines])
            self.close(list_, self.one(list_))

    def call_engine(self):
        self.keep(self.engines, (pagelift.CopyEngine(self.one([*self.gpus, self.cpu]), self.world().memory, stream=self.stream()),), 4)

    def call_copy(self):
        engine, (_, plan) = self.one(self.engines)[0], self.one(self.plans)
        self.events = [*self.events[-5:], engine.copy(plan, self.one(["each", "batch", "all"]))]

    def call_choose(self):
        engine, (_, plan) = self.one(self.engines)[0], self.one(self.plans)
        engine.chosen(plan), repr(engine)

    def call_event(self):
        event = self.one(self.events)
        event.wait() if self.random.random() < 0.5 else event.is_passed()

    def call_allocate(self):
        place, bytes_ = self.one(["host", "device"]), self.one([1, 64, 5000, 2**62])
        self.regions = [*self.regions[-12:], self.world().memory.allocate(self.one([*self.gpus, self.cpu]), place, bytes_)]

    def call_adopt(self):
        array = self.one([np.zeros, self.driver.memory])(64, np.int64)
        place = self.one(["host", "device"])
        self.regions = [*self.regions[-12:], self.world().memory.adopt(self.one(self.gpus), place, array)]

    def call_pool(self):
        memory, gpu = self.world().memory, self.one(self.gpus)
        spec = pagelift.HostPoolSpec(4, 4096, chunk_bytes=self.one([4096, 1 << 20, 1]), threads=1, huge_pages=False)
        pool = self.one(
            [
                lambda: memory.allocate_pool(gpu, spec),
                lambda: memory.share_pool(gpu, spec, pagelift.SharedMemory.create("pool", spec.bytes)),
                lambda: memory.adopt_pool(gpu, np.zeros(5 * 4096, np.uint8), spec),
            ]
        )()
        self.regions = [*self.regions[-12:], *pool.regions]

    def call_release(self):
        self.world().memory.release(self.one(self.regions))

    def call_read_and_write(self):
        memory, region = self.world().memory, self.one(self.regions)
        memory.write(region, 0, memory.read(region, 0, 1))
        memory.read(region, region.bytes, 1)

    def call_a_pool_goes_and_comes_back(self):
        world = self.world()
        group, place = self.one(world.groups), self.one(["host", "device"])
        if self.random.random() < 0.05:
            world.memory.release(group.regions[place])
            group.regions[place] = world.memory.adopt(world.backend, place, getattr(group, place))

    def call_begin(self):
        # Captures of another mode are ended by the thread that began them.
        self.one(self.streams).begin(self.random.randrange(3) if self.threads == 1 else RELAXED)

    def call_end(self):
        stream = self.one(self.streams)
        recorded = self.recorded.pop(stream.handle, []) if stream.is_capturing else []
        self.graphs.append((stream.end(), recorded))

    def call_replay(self):
        # In threads it might be closed meanwhile, which a program has to see to.
        graph, recorded = self.one(self.graphs if self.threads == 1 else [])
        stream = self.one(self.streams)
        if None not in recorded:
            for one in recorded:
                one.set_stream(stream)
            graph.replay(stream)

    def call_collect(self):
        if self.random.random() < 0.05:
            gc.collect()

    # One step, and the end.

    #: What does several things, of which the first may have been enqueued when another one is refused; and a GPU's fresh memory, which
    #: is zeroed before it is refused as a region.
    SEVERAL = {"call_read_and_write", "call_replay", "call_allocate", "call_a_pool_goes_and_comes_back"}

    def step(self):
        call = self.random.choice(self.calls)
        before = self.driver.enqueued()
        try:
            call()
            self.seen[call.__name__, "went well"] += 1
        except (*TYPED, DriverFailed) as error:
            self.seen[call.__name__, type(error).__name__] += 1
            if self.threads == 1 and call.__name__ not in self.SEVERAL:
                assert self.driver.enqueued() == before, (call, error)

    def end(self):
        for stream in self.streams:
            if stream.is_capturing:
                try:
                    stream.end()
                except DriverFailed:
                    pass
        for list_ in (self.launchers, self.engines):
            for closes, *_ in list_:
                closes.close()


def run(driver, cpu, seed, steps, threads):
    calls = Calls(driver, cpu, seed, threads=threads)

    def work():
        driver.enter()
        for _ in range(steps):
            calls.step()

    together(*[work] * threads) if threads > 1 else work()
    calls.end()
    return calls.seen


@pytest.mark.parametrize("threads", [1, 4])
def test_all_calls_in_random_order(driver, cpu, request, threads):
    gc.collect()
    driver.enter()
    before, seen = driver.live(), collections.Counter()
    for seed in range(max(1, request.config.getoption("--random-steps") // STEPS_OF_ONE)):
        seen += run(driver, cpu, seed, STEPS_OF_ONE // threads, threads)
        gc.collect()
        driver.enter()
        assert driver.live() == before, f"seed {seed}"
    well = {call for call, how in seen if how == "went well"}
    assert len(well) > 20, sorted(seen)
    assert {how for _, how in seen} >= {"CaptureError", "LaunchError", "RegistryError", "TypeError"}
