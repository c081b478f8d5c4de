"""A scheduler and a rank: imports, steps, mirrors, seals, published blocks, preemption, and what makes no sense."""

import json

import numpy as np
import pytest

import pagelift

BLOCK, WIDTH, BLOCKS, PAGES = 4, 24, 24, 6


def row(request, token):
    """What any engine computes for a token of a request; prompts are the same for all."""
    return np.full(WIDTH, (31 * token + (100 * request if token >= 6 else 0)) % 251, np.uint8)


class Engine:
    """One rank with one group, whose pages and blocks have the lifecycle's numbers, and another engine that answers reads."""

    def __init__(self, backend, stream=None):
        self.memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
        self.host, pool, self.pages, self.slots = self.tensors()
        layout, sides = pagelift.PagedLayout(BLOCK, [("kv", WIDTH)]), {}
        for place, array in (("host", pool), ("device", self.pages)):
            region = self.memory.adopt(backend, place, array)
            pool = builder.pool(place, place, len(array), [region])
            sides[place] = pagelift.SideSpec.packed(pool, [region], [0], BLOCK * WIDTH, layout)
        self.group = group = builder.group("kv", layers=1, landing="host", lift="tail", **sides)
        self.lifecycle = pagelift.Lifecycle(block_tokens=BLOCK, requests=4, blocks=BLOCKS, pages=PAGES)
        self.geometry, self.frames = builder.build(), [pagelift.GroupFrames(group, range(BLOCKS), np.arange(PAGES))]
        self.runner = pagelift.Runner.bind(
            backend, self.memory, self.geometry, self.frames, self.lifecycle.options, mode="exact", stream=stream
        )
        self.rows = pagelift.RowBinding(self.memory.adopt(backend, "device", self.slots))
        self.runner.bind_rows(group, self.rows)
        self.events, self.requests, self.seen, self.computed = [], {}, [], {}

    def tensors(self):
        """The host pool, as NumPy sees it and as it is adopted, the pages, and the slot mapping of a step."""
        host = np.zeros((BLOCKS, BLOCK, WIDTH), np.uint8)
        return host, host, np.zeros((PAGES, BLOCK, WIDTH), np.uint8), np.full(PAGES, -1, np.int64)

    def admit(self, name, prompt, hashes=(), producer=True):
        self.events.append(
            {"event": "admit", "prompt": prompt, "policy": "lift-tail", "producer": producer, "hashes": list(hashes)}
        )
        self.names = [*getattr(self, "names", []), name]

    def turn(self):
        """Events, effects and orders, and one step."""
        for event in [*self.events]:
            self.events.remove(event)
            for effect in self.lifecycle.apply(event):
                self.do(effect)
            for order in self.lifecycle.orders():
                self.runner.hear(order)
        staged = self.runner.stage()
        assert staged.failed is None
        writes = []
        for name, view, token in self.steps():
            page = next(page for position, page, _ in view["pages"] if position == token // BLOCK)
            writes.append((name, token, page))
            self.computed[name] = view["begun"]
            accepted = {"request": self.requests[name], "step": view["begun"], "tokens": 1}
            self.events.append({"event": "accept", **accepted})
        self.step(writes)
        # The rows of the page before this one, imported or lifted again, are there.
        for name, token, page in writes:
            for before in range(token // BLOCK * BLOCK, token + 1):
                np.testing.assert_array_equal(self.page(page)[before % BLOCK], row(name, before))
        self.events += self.runner.poll()

    def step(self, writes):
        """Launches around a forward, which writes these rows."""
        self.runner.before_forward()
        self.slots[:] = -1
        for at, (name, token, page) in enumerate(writes):
            self.pages[page, token % BLOCK] = row(name, token)
            self.slots[at] = page * BLOCK + token % BLOCK
        self.runner.after_forward()

    def page(self, page):
        return self.pages[page]

    def steps(self):
        for name, request in self.requests.items():
            view = self.lifecycle.request(request)
            if view is not None and view["begun"] > self.computed.get(name, 0):
                yield name, view, view["next_token"]

    def do(self, effect):
        self.seen.append(effect["effect"])
        match effect:
            case {"effect": "admitted", "request": request}:
                self.requests[self.names.pop(0)] = request
            case {"effect": "read", "request": request, "first": first, "end": end}:
                name = next(name for name, own in self.requests.items() if own == request)
                blocks = self.lifecycle.request(request)["blocks"]
                for token in range(first * BLOCK, end * BLOCK):
                    # Six tokens of a prompt come, and holes behind them.
                    self.host[blocks[token // BLOCK], token % BLOCK] = row(name, token) if token < 6 else 0xCC
                self.events.append({"event": "posted", "request": request, "ranks": 1, "each": 1})
                self.events.append({"event": "read", "request": request, "rank": 0, "part": 0, "read": "landed"})

    def until(self, done, turns=200):
        for _ in range(turns):
            if done():
                return
            self.turn()
        raise AssertionError(f"not done after {turns} turns: {self.lifecycle!r}, {self.seen[-5:]}")

    def view(self, name):
        return self.lifecycle.request(self.requests[name])

    def generate(self, name, tokens):
        """Computes so many tokens, one a step."""
        for _ in range(tokens):
            end = self.view(name)["next_token"] + 1
            self.events.append({"event": "begin", "request": self.requests[name], "tokens": 1})
            self.until(lambda: self.view(name)["next_token"] >= end)

    def rest(self):
        """Until nothing happens any more."""
        self.until(lambda: not self.events and self.runner.is_idle)

    def check(self, name, blocks, tokens):
        for token in range(tokens):
            np.testing.assert_array_equal(self.host[blocks[token // BLOCK], token % BLOCK], row(name, token))


def test_an_engine_from_import_to_end(cpu):
    play(Engine(cpu))


def play(engine):
    """Two requests from import to end: one finds what the other has published, is preempted and resumes."""
    hashes = [f"{number:032x}" for number in (10, 11, 12)]
    engine.admit(1, 6, hashes[:1])
    engine.until(lambda: "lifted" in engine.seen)
    assert engine.seen.index("notify") < engine.seen.index("lift") and engine.view(1)["stage"] == "lifted"
    assert engine.view(1)["next_token"] == 5 and engine.lifecycle.find(hashes[0]) is not None
    engine.generate(1, 8)
    blocks = engine.view(1)["blocks"]
    engine.events += [{"event": "name", "request": engine.requests[1], "hash": hash} for hash in hashes[1:]]
    engine.rest()
    assert engine.seen.count("sealed") >= 2 and engine.view(1)["durable"] == 13
    engine.check(1, blocks, 13)
    assert [engine.lifecycle.find(hash) for hash in hashes] == blocks[:3]

    # Another request finds the prompt's first block: it is not read again.
    engine.admit(2, 6, hashes[:1])
    engine.until(lambda: engine.seen.count("lifted") == 2)
    assert engine.view(2)["blocks"][0] == blocks[0] and engine.lifecycle.users(blocks[0]) == 2
    engine.generate(2, 3)

    # Preempted, its pages are others'; resumed, it goes on where it was.
    engine.rest()
    engine.events.append({"event": "preempt", "request": engine.requests[2]})
    engine.until(lambda: "preempted" in engine.seen)
    assert engine.view(2)["pages"] == []
    for page in range(PAGES):
        if engine.lifecycle.holder(page) is None:
            engine.pages[page] = 0xEE
    engine.events.append({"event": "resume", "request": engine.requests[2], "behind": 0})
    engine.until(lambda: engine.seen.count("lifted") == 3)
    engine.generate(2, 3)
    engine.rest()
    engine.check(2, engine.view(2)["blocks"], 11)
    engine.check(1, blocks, 13)

    for name in (1, 2):
        engine.events.append({"event": "finish", "request": engine.requests[name]})
    engine.until(lambda: engine.seen.count("ended") == 2)
    engine.rest()
    lifecycle = engine.lifecycle
    assert len(lifecycle) == 0 and lifecycle.free_pages == PAGES and lifecycle.available_blocks == BLOCKS
    assert lifecycle.request(engine.requests[1]) is None
    counters = lifecycle.counters()
    assert (counters["finished"], counters["preempted"], counters["resumed"]) == (2, 1, 1)
    assert engine.runner.counters("mirror").rows == 8 + 3 + 3
    assert engine.runner.counters("lift").done >= 3 and engine.runner.counters("write-back").rows is None
    assert not engine.runner.is_lost and repr(engine.runner) == "Runner(idle)"
    engine.runner.close()
    for call in (engine.runner.stage, engine.runner.poll, engine.runner.wait, engine.runner.after_forward):
        with pytest.raises(pagelift.LaunchError) as error:
            call()
        assert error.value.kind == "Closed"


def test_a_step_whose_graph_is_not_replayed_is_made_good(cpu):
    engine = Engine(cpu)
    engine.admit(1, 6)
    engine.until(lambda: "lifted" in engine.seen)
    engine.events.append({"event": "begin", "request": engine.requests[1], "tokens": 1})
    for event in [*engine.events]:
        engine.events.remove(event)
        engine.lifecycle.apply(event)
        for order in engine.lifecycle.orders():
            engine.runner.hear(order)
    assert engine.runner.stage().mirrors == 1

    def fails():
        raise KeyError("no such graph")

    with pytest.raises(KeyError, match="no such graph"):
        engine.runner.replay(fails)
    # What would wait for the runner itself is refused instead.
    plan = pagelift.RestorePlan(engine.geometry)
    calls = [engine.runner.stage, engine.runner.poll, engine.runner.close, lambda: engine.memory.allocate(cpu, "host", 64)]
    # Another thread may have a plan, and wait with it for what the replay has.
    calls += [plan.clear, lambda: plan.jobs, lambda: plan.bytes, lambda: repr(plan)]
    for call in calls:
        with pytest.raises(pagelift.LaunchError) as inside:
            engine.runner.replay(call)
        assert inside.value.kind == "InsideReplay"
    # The forward ran all the same: its rows are written back in whole pages by a later step.
    page = engine.view(1)["pages"][0][1]
    engine.pages[page, 1] = row(1, 5)
    engine.events.append({"event": "accept", "request": engine.requests[1], "step": 1, "tokens": 1})
    engine.computed[1] = 1
    engine.generate(1, 2)
    engine.rest()
    engine.check(1, engine.view(1)["blocks"], 8)
    assert engine.view(1)["durable"] == 8


def test_what_a_panic_has_left_is_not_used_again(cpu):
    engine = Engine(cpu)
    with pytest.raises(KeyError):
        engine.runner.replay(lambda: {}["no graph"])
    # What a mistake of pagelift's is in Python, and in Rust again.
    panics = next(own for own in BaseException.__subclasses__() if own.__name__ == "PanicException")

    def panic():
        raise panics("for the test")

    with pytest.raises(panics):
        engine.runner.replay(panic)
    host = lambda: engine.memory.allocate(cpu, "host", 64)
    for call in (engine.runner.stage, engine.runner.poll, engine.runner.wait, lambda: repr(engine.runner), host):
        with pytest.raises(pagelift.PageliftError, match="close it") as broken:
            call()
        assert broken.value.kind == "Internal"
    engine.runner.close()
    with pytest.raises(pagelift.LaunchError) as closed:
        engine.runner.poll()
    assert closed.value.kind == "Closed"


def test_what_makes_no_sense_is_an_exception(cpu):
    engine = Engine(cpu)
    for event in ({}, {"event": "dance"}, {"event": "begin"}, {"event": "begin", "request": 3, "tokens": 1}, None, "begin"):
        with pytest.raises(ValueError, match="not an event"):
            engine.lifecycle.apply(event)
    with pytest.raises(ValueError, match="not an order"):
        engine.runner.hear({"order": "dance"})
    with pytest.raises(ValueError, match="not a content hash"):
        engine.lifecycle.find("xyz")
    with pytest.raises(pagelift.LifecycleError) as unknown:
        engine.lifecycle.apply({"event": "begin", "request": {"slot": 0, "generation": 9}, "tokens": 1})
    assert unknown.value.kind == "UnknownRequest" and engine.lifecycle.counters()["refused"] == 1
    with pytest.raises(pagelift.LifecycleError) as large:
        engine.lifecycle.apply(
            {"event": "admit", "prompt": 1000, "policy": "lift-tail", "producer": True, "hashes": []}
        )
    assert large.value.kind == "TooLarge"
    for options in (dict(ranks=0), dict(ranks=65), dict(writers=[]), dict(writers=[7]), dict(block_tokens=0), dict(draft_lag=9)):
        with pytest.raises(pagelift.LifecycleError) as error:
            pagelift.Lifecycle(**{"block_tokens": 4, "requests": 1, "blocks": 1, "pages": 1} | options)
        assert error.value.kind == "Options"


def test_a_rank_needs_frames_for_its_groups(world):
    options = pagelift.Lifecycle(block_tokens=16, requests=4, blocks=24, pages=9).options
    with pytest.raises(pagelift.PlanError) as error:
        pagelift.Runner.bind(world.backend, world.memory, world.geometry, [], options)
    assert error.value.kind == "Frames"
    frames = [
        pagelift.GroupFrames(world.main.key, range(24), range(9)),
        pagelift.GroupFrames(world.index.key, range(24), range(8), each=2),
        pagelift.GroupFrames(world.ring.key, range(4), range(4)),
        pagelift.GroupFrames(world.state.key, range(24), range(4)),
    ]
    assert [repr(own) for own in frames][1] == "GroupFrames(whole, 24 blocks, 8 pages)"
    runner = pagelift.Runner.bind(world.backend, world.memory, world.geometry, frames, options)
    assert runner.is_idle and runner.poll() == [] and runner.stage().lifts == 0
    with pytest.raises(TypeError, match="whole on the device"):
        pagelift.GroupFrames(world.state.key, [0], [0], each=1)
    with pytest.raises(TypeError, match="state has no rows"):
        runner.bind_rows(world.state.key, pagelift.RowBinding(64, capacity=1, width=8))
    with pytest.raises(ValueError, match="expected one of lift, write-back, mirror"):
        runner.counters("lifts")


def test_a_rank_has_the_options_of_its_lifecycle(world):
    frames = [
        pagelift.GroupFrames(world.main.key, range(24), range(9)),
        pagelift.GroupFrames(world.index.key, range(24), range(8), each=2),
        pagelift.GroupFrames(world.ring.key, range(4), range(4)),
        pagelift.GroupFrames(world.state.key, range(24), range(4)),
    ]
    lifecycle = pagelift.Lifecycle(ranks=2, writers=[1], block_tokens=16, requests=4, blocks=24, pages=9)
    options = json.loads(json.dumps(lifecycle.options))
    assert options == lifecycle.options and (options["writers"], options["requests"]) == (0b10, 4)
    bind = lambda options, rank=0: pagelift.Runner.bind(
        world.backend, world.memory, world.geometry, frames, options, rank=rank
    )
    for wrong, rank in ((options | {"writers": 0}, 0), (options | {"block_tokens": 0}, 0), (options, 2)):
        with pytest.raises(pagelift.PlanError) as error:
            bind(wrong, rank)
        assert error.value.kind == "Options"
    with pytest.raises(ValueError, match="not a lifecycle's options"):
        bind({"requests": 4})
    # There is no place for a fifth request: it would never be answered.
    runner = bind(options, rank=1)
    with pytest.raises(pagelift.PlanError, match="expected one of slots 0..4") as error:
        runner.hear({"order": "stop", "request": {"slot": 4, "generation": 1}, "round": 1})
    assert error.value.kind == "ForeignRequest"
    assert runner.poll() == [{"event": "rank-lost", "rank": 1}]


def test_rows_are_bound_before_a_step(cpu):
    engine = Engine(cpu)
    engine.admit(1, 6)
    engine.until(lambda: "lifted" in engine.seen)
    engine.runner.clear_bindings()
    engine.events.append({"event": "begin", "request": engine.requests[1], "tokens": 1})
    with pytest.raises(pagelift.PlanError, match="not bound") as error:
        engine.turn()
    assert error.value.kind == "Unbound" and engine.runner.counters("mirror").launches == 0
    engine.runner.bind_rows(engine.group, engine.rows)
    engine.until(lambda: engine.view(1)["next_token"] == 6)
    engine.generate(1, 7)
    engine.rest()
    engine.check(1, engine.view(1)["blocks"], 13)
