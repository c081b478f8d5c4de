"""Where the bench runs, and how it is timed: on a GPU, or on the CPU, where all of it but captures can be tried."""

import contextlib
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import pagelift

WARM = 5


@dataclass
class Way:
    """One way of doing the same: `run` does it for the number of a turn, after `before`, which is not timed."""

    name: str
    run: Callable
    before: Callable | None = None
    # Cycles for which the GPU is held back while `run` enqueues.
    gate: int = 1 << 16


@contextlib.contextmanager
def no_garbage():
    """Nothing is collected meanwhile: it takes time, and what a graph leaves behind must not be freed in a capture."""
    gc.collect(0)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Gpu:
    """A GPU, whose current stream is one of the bench's own."""

    MOST_CYCLES = 1 << 29

    def __init__(self):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.backend = pagelift.Cuda(self.device.index)
        self.stream, self.branch = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Samples in which the GPU had to wait for the host, although it was held back as long as possible.
        self.exposed = 0

    def describe(self):
        try:
            with open("/proc/driver/nvidia/version") as version:
                words = version.readline().split()
            driver = next((word for word in words if word[0].isdigit() and "." in word), "unknown")
        except OSError:
            driver = "unknown"
        cuda = ".".join(map(str, self.backend.driver))
        return {"device": self.backend.device, "driver": driver, "driver_cuda": cuda}

    def pinned(self, items, dtype):
        return torch.empty(items, dtype=dtype, pin_memory=True)

    def finish(self):
        self.stream.synchronize()

    def graph(self, work):
        """Captures what `work` enqueues; returns a function that replays it."""
        # Not `torch.cuda.graph`, which collects all garbage each time: there are hundreds of graphs.
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with no_garbage():
            graph.capture_begin()
            try:
                work()
            finally:
                graph.capture_end()
        graph.replay()
        self.finish()
        return graph.replay

    def record(self, launcher):
        launcher.record()

    def record_on_branch(self, launcher, work):
        """Records a launcher, which is on the branch's stream, beside `work`."""
        self.branch.wait_stream(self.stream)
        launcher.record()
        work()
        self.stream.wait_stream(self.branch)

    def use(self, launcher, branch=False):
        launcher.set_stream(self.branch if branch else self.stream)

    def wall(self, way, turn):
        """Microseconds until all of it is done, from the call on."""
        begun = time.perf_counter_ns()
        way.run(turn)
        self.stream.synchronize()
        return (time.perf_counter_ns() - begun) / 1e3

    def gpu(self, way, turn):
        """Microseconds of the GPU alone: all of it is enqueued before the GPU begins."""
        while True:
            torch.cuda._sleep(way.gate)
            self.start.record()
            way.run(turn)
            self.end.record()
            hidden = not self.start.query()
            self.end.synchronize()
            if hidden or way.gate >= self.MOST_CYCLES:
                self.exposed += not hidden
                return 1e3 * self.start.elapsed_time(self.end)
            way.gate *= 2


class Host:
    """The CPU with tensors of PyTorch's. Nothing is captured: what would be replayed is called."""

    exposed = 0

    def __init__(self):
        self.device, self.backend = torch.device("cpu"), pagelift.Cpu()
        self.stream = None

    def describe(self):
        return {"device": "CPU", "driver": "none", "driver_cuda": "none"}

    def pinned(self, items, dtype):
        return torch.empty(items, dtype=dtype)

    def finish(self):
        pass

    def graph(self, work):
        return work

    def record(self, launcher):
        launcher.launch()

    def record_on_branch(self, launcher, work):
        launcher.launch()
        work()

    def use(self, launcher, branch=False):
        pass

    def wall(self, way, turn):
        begun = time.perf_counter_ns()
        way.run(turn)
        return (time.perf_counter_ns() - begun) / 1e3

    gpu = wall


def rounds(machine, ways, clock, repeats, rotation):
    """Lets ways take turns; returns the microseconds of each by name, round by round.

    Each round begins with another way. In turn `t` a way moves what number `t` of `rotation` stands for; ways are apart in that, so
    that none finds in a cache what the one before it has read.
    """
    samples = {way.name: [] for way in ways}
    with no_garbage():
        for number in range(-WARM, repeats):
            for turn in range(len(ways)):
                index = (number + turn) % len(ways)
                way, at = ways[index], (number + index * rotation // len(ways)) % rotation
                if way.before:
                    way.before(at)
                machine.finish()
                microseconds = clock(way, at)
                if number >= 0:
                    samples[way.name].append(microseconds)
    return samples
