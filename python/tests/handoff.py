"""Two engines that hand caches over: what each says of its memory, and P as a process of its own."""

import multiprocessing
import time
from dataclasses import dataclass, field

import numpy as np

import pagelift
import test_lifecycle
from pagelift import transport
from world import BLOCK_TOKENS, World

SECRET = b"sixteen bytes, and drawn at random"
IMPORTED = 40
SEED, OTHER = 23, 24
# What a test waits for takes milliseconds; it fails after this.
PATIENCE = 60.0


@dataclass
class Side:
    """An engine: its memory, what it says of it, and its blocks of the request that is handed over."""

    memory: object
    geometry: object
    facts: list
    block_tokens: int
    tables: dict
    arrays: list = field(default_factory=list)
    world: object = None

    def offer(self):
        return transport.Offer.of(self.geometry, transport.Exchange(self.block_tokens), self.facts, self.memory)

    def join(self, name):
        """An agent that has the memory registered, and the offer."""
        offer, agent = self.offer(), transport.Agent(name)
        agent.register(offer)
        return agent, offer


SEGMENTS = {"main": ["latent"], "index": ["key", "scale"], "state": ["conv", "temporal"]}


def world_side(seed, place, content=SEED, facts=None):
    """A group of each kind. Worlds of one seed have the same groups, in pools of different strides on the host and the device."""
    world = World(pagelift.Cpu(threads=1), np.random.default_rng(seed))
    rng = np.random.default_rng(content)
    for group in world.groups:
        for array in (group.host, group.device):
            array[:] = rng.integers(0, 256, array.shape, np.uint8)
    if facts is None:
        facts = [of_group(group, place) for group in world.groups]
    tables = {}
    for group in world.groups:
        # Positions: a ring has one, and a state's is that of the block which holds the last token that it has absorbed.
        count, first = (3, 0) if group.name in ("main", "index") else (1, 2 if group.name == "state" else 0)
        tables[group.name] = {"first": first, "blocks": world.choose(group, place, count)}
    arrays = [array for group in world.groups for array in (group.host, group.device)]
    return Side(world.memory, world.geometry, facts, BLOCK_TOKENS, tables, arrays, world)


def of_group(group, place, element="u8"):
    names, widths = SEGMENTS.get(group.name), [width for _, width in group.segments]
    if names is None:
        return transport.GroupFacts(group.name, place, other_segments=(element, widths))
    segments = {name: (element, [width]) for name, width in zip(names, widths, strict=True)}
    return transport.GroupFacts(group.name, place, segments=segments)


def lifecycle_side():
    """A P for the engine of the lifecycle's tests: its blocks are pages of a device, with padding, in another order."""
    block, width = test_lifecycle.BLOCK, test_lifecycle.WIDTH
    stride, blocks = block * width + 40, [11, 3]
    pages = np.full((16, stride), 0xCC, np.uint8)
    for token in range(6):
        at = token % block * width
        pages[blocks[token // block], at : at + width] = test_lifecycle.row(0, token)
    memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
    region = memory.adopt(pagelift.Cpu(threads=1), "device", pages)
    pool = builder.pool("pages", "device", len(pages), [region])
    spec = pagelift.SideSpec.packed(pool, [region], [0], stride, pagelift.PagedLayout(block, [("kv", width)]))
    builder.group("kv", layers=1, landing="device", lift="none", device=spec)
    facts = [transport.GroupFacts("kv", "device", segments={"kv": ("u8", [width])})]
    return Side(memory, builder.build(), facts, block, {"kv": blocks}, [pages])


def serve(pipe, make, arguments, grants, options):
    """P: it exports what is asked for, says what happens, and ends once it is told to stop and all is free."""
    side = make(*arguments)
    before = [array.copy() for array in side.arrays]
    agent, offer = side.join("prefill")
    producer = transport.Producer(agent, offer, "127.0.0.1:0", SECRET, **options)
    pipe.send(producer.address)
    while not producer.is_finished:
        for event in producer.poll():
            if grants and event["event"] == "asked":
                producer.grant(event["ask"], side.tables)
            pipe.send((event["event"], event.get("end")))
        if pipe.poll():
            pipe.recv()
            producer.stop()
        time.sleep(0.001)
    producer.close()
    agent.close()
    for array, own in zip(side.arrays, before, strict=True):
        np.testing.assert_array_equal(array, own)
    pipe.send(("finished", None))


class Prefill:
    """P in a process of its own."""

    def __init__(self, make, *arguments, grants=True, **options):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, make, arguments, grants, options), daemon=True)
        self.process.start()
        theirs.close()
        self.address = self.next()

    def next(self):
        assert self.pipe.poll(PATIENCE), "P is silent"
        return self.pipe.recv()

    def until(self, wanted):
        """What P has said, up to that."""
        said = [self.next()]
        while said[-1][0] != wanted:
            said.append(self.next())
        return said

    def finish(self):
        """P ends by itself, and well."""
        self.pipe.send("stop")
        self.until("finished")
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()
        self.pipe.close()


def until(done, *polled):
    """Polls ends of a hand-off until something is so; all that they said, with what they are asked by."""
    end, said = time.monotonic() + PATIENCE, []
    while not done(said):
        assert time.monotonic() < end, f"not done: {said}"
        for one in polled:
            said += one.poll()
        time.sleep(0.0005)
    return said


def has(event):
    return lambda said: any(own["event"] == event for own in said)
