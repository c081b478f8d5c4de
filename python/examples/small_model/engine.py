"""An engine: a scheduler with a lifecycle, and one rank with its runner and a captured step.

P, which prefills, D, which decodes, and the engine that they are compared with are the same: one computes all of a prompt, another
imports it first.
"""

import hashlib
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

import pagelift
from cache import EACH, Cache
from model import BLOCK, LANES, STEP, VOCABULARY

REQUESTS = 4


@dataclass
class Request:
    """A prompt, and what was generated."""

    tokens: list
    end: int  # the first token that is not computed any more
    lane: int
    prompt: int  # its tokens
    then: str  # what becomes of it there: "finish" or "preempt"
    producer: object  # the engine and its request that have computed the prompt
    named: int  # blocks that others find by their content
    id: dict = None
    logits: dict = field(default_factory=dict)  # by position: which step, and which of its tokens
    found: int = 0  # blocks that others had published
    landed: int = 0  # blocks that were read from the producer
    drafts: int = 0
    rejected: int = 0


class Engine:
    """One engine with `blocks` host blocks, and `pages` pages for tails. `keep` sealed pages stay behind each tail."""

    def __init__(self, arrays, model, *, blocks, pages, keep=0, most_steps=1024):
        self.arrays, self.model, self.memory = arrays, model, pagelift.Registry()
        stateful = "gdn" in model.kinds
        self.cache = Cache(arrays, self.memory, model.kinds, blocks, pages, REQUESTS)
        self.lifecycle = pagelift.Lifecycle(
            block_tokens=BLOCK,
            recurrence="state" if stateful else "none",
            requests=REQUESTS,
            blocks=blocks,
            pages=pages,
            keep=keep,
        )
        self.runner = pagelift.Runner.bind(
            arrays.backend,
            self.memory,
            self.cache.geometry,
            self.cache.frames,
            self.lifecycle.options,
            mode="exact",
            stream=arrays.stream,
        )
        # A step's numbers go to the device in one copy, and what came of it comes back in another.
        self.sent, self.numbers = arrays.on_host(np.zeros((LANES, STEP + 5 + 2 * EACH), np.int64))
        self.said, self.answers = arrays.on_host(np.zeros((LANES, 1 + STEP), np.int64))
        self.received = arrays.on_device(np.zeros(self.numbers.shape, np.int64))
        self.told = arrays.on_device(np.zeros(self.answers.shape, np.int64))
        self.record = arrays.on_device(np.zeros((most_steps + 1, LANES, STEP, VOCABULARY), np.float32))
        self.bind_rows()
        self.events, self.admitting, self.running, self.steps, self.pages = [], [], [], 0, pages
        self.start()

    def bind_rows(self):
        """Which rows a step writes, is known on the device alone. `accepted` is of requests, whose tokens begin at `starts`."""
        cache, on_device = self.cache, self.arrays.on_device
        self.accepted = on_device(np.zeros(LANES, np.int32))
        self.starts = on_device(np.arange(0, (LANES + 1) * STEP, STEP, np.int32))
        adopt = lambda array: self.memory.adopt(self.arrays.backend, "device", array)
        accepted, starts = adopt(self.accepted), adopt(self.starts)
        for kind, slots in cache.slots.items():
            binding = pagelift.RowBinding(adopt(slots), query_starts=starts, accepted=accepted)
            self.runner.bind_rows(cache.groups[kind], binding)
        plan = pagelift.RowPlan(cache.geometry, "host to device")
        if cache.gather:
            plan.gather_rows(cache.gather, pagelift.RowBinding(adopt(cache.list)))
        # What is staged once is gathered in every step.
        self.gathers = pagelift.Launcher.bind(self.arrays.backend, self.memory, plan, repeat=True, stream=self.arrays.stream)
        self.gathers.stage(plan)

    def start(self):
        """Runs a step of padding, which loads what it needs; then captures one, where there is a GPU."""
        self.pad()
        self.step(self.runner.before_forward, self.gathers.launch, self.runner.after_forward)
        if self.arrays.captures:
            runner = self.runner
            calls = runner.record_before_forward, self.gathers.record, runner.record_after_forward
            self.graph = self.arrays.capture(lambda: self.step(*calls))

    def step(self, before_forward, gather, after_forward):
        """A step: launched, or recorded into a graph. Each replay lifts and mirrors what is staged then, or nothing."""
        self.arrays.copy(self.received, self.sent)
        before_forward()
        positions = self.cache.locate(fields(self.received))
        gather()
        self.forward(positions)
        after_forward()

    def forward(self, positions):
        """The model, and how many tokens of each request are accepted: certain ones, and drafts that the model says too."""
        xp, step, cache = self.arrays.xp, fields(self.received), self.cache
        logits = self.model.forward(step.tokens, positions, cache)
        says, columns = xp.argmax(logits, -1), cache.columns[:STEP]
        agrees = xp.concatenate([says[:, :1] < 0, step.tokens[:, 1:] == says[:, :-1]], 1)
        holds = (columns < step.count) & ((columns < step.certain) | agrees)
        accepted = xp.cumprod(xp.where(holds, 1, 0), -1).sum(axis=-1)
        cache.accept(accepted)
        self.accepted[:] = accepted
        self.record[step.record[:1, 0]] = logits[None]
        self.told[:, 0], self.told[:, 1:] = accepted, says
        # The mirror comes after this copy: when its ticket is done, the host may read it.
        self.arrays.copy(self.said, self.told)

    def admit(self, tokens, end, *, lane=0, producer=None, name=False, then="finish"):
        """A request that computes its tokens before `end`, in its lane. `producer` are another engine and its request, which have
        computed what is imported. With `name`, its full blocks are found by others that begin with the same tokens.
        """
        prompt = len(tokens)
        named = prompt // BLOCK if name else 0
        hashes = [content(tokens[: (at + 1) * BLOCK]) for at in range(named)]
        request = Request(list(tokens), end, lane, prompt, then, producer, named if name else None)
        self.admitting.append(request)
        event = {"event": "admit", "prompt": prompt, "policy": "lift-tail", "producer": producer is not None, "hashes": hashes}
        self.events.append(event)
        return request

    def tell(self, request, event):
        self.events.append({"event": event, "request": request.id} | ({"behind": 0} if event == "resume" else {}))

    def view(self, request):
        return self.lifecycle.request(request.id) if request.id else None

    def stage(self, request):
        """Where a request is, in the lifecycle's words."""
        view = self.view(request)
        return view["stage"] if view else "ended" if request.id else "waiting"

    def until(self, done, seconds=60):
        """Turns until something is so."""
        self.latest = time.monotonic() + seconds
        with self.arrays.no_syncs():
            while not done():
                self.turn()
                self.check_time()

    def check_time(self):
        if self.runner.is_lost:
            raise RuntimeError("the GPU has failed: its memory is gone")
        if time.monotonic() > self.latest:
            raise TimeoutError(f"too late: {self.lifecycle!r}, {self.runner!r}")

    def turn(self):
        """What has happened since, and one step."""
        events, self.events = self.events, []
        for event in events:
            self.apply(event)
        self.pad()
        begun = [request for request in self.running if self.begin(request)]
        staged = self.runner.stage()
        if staged.failed:
            raise staged.failed
        if begun or staged.lifts or staged.write_backs:
            self.launch()
        self.events += self.runner.poll()
        for request in begun:
            self.note(request)
        self.steps += bool(begun)

    def launch(self):
        """Runs a step, and looks now and then whether it is done: at words in memory, by no call of a driver."""
        if self.arrays.captures:
            self.runner.replay(self.graph.replay)
        else:
            self.step(self.runner.before_forward, self.gathers.launch, self.runner.after_forward)
        # The host's numbers are the device's too until then, and a request's next token is not known earlier.
        while not self.runner.is_idle:
            self.check_time()
            self.events += self.runner.poll()

    def apply(self, event):
        for effect in self.lifecycle.apply(event):
            self.do(effect)
        for order in self.lifecycle.orders():
            self.runner.hear(order)

    def do(self, effect):
        """What the lifecycle wants of an engine; ranks are told by orders."""
        of = lambda: next(request for request in self.running if request.id == effect["request"])
        match effect["effect"]:
            case "admitted":
                request = self.admitting.pop(0)
                request.id, request.found = effect["request"], effect["found"]
                self.running.append(request)
            case "read":
                request = of()
                self.land(request, effect["first"], effect["end"])
                self.events.append({"event": "posted", "request": request.id, "ranks": 1, "each": 1})
                self.events.append({"event": "read", "request": request.id, "rank": 0, "part": 0, "read": "landed"})
            case "notify" if (producer := of().producer) and producer[1].id:
                producer[0].tell(producer[1], "finish")
            case "ended":
                self.running.remove(of())

    def land(self, request, first, end):
        """What a transport does: one-sided reads of whole blocks, from the other's host pool to this one's."""
        engine, other = request.producer
        to, source = self.view(request)["blocks"], engine.view(other)["blocks"]
        for kind, pool in self.cache.host.items():
            for position in range(first, end):
                pool[to[position]] = engine.cache.host[kind][source[position]]
        request.landed += end - first

    def pad(self):
        """A step in which nobody computes anything."""
        step = fields(self.numbers)
        self.numbers[:] = 0
        step.pages[:], step.slot[:], step.record[:] = -1, REQUESTS, len(self.record) - 1

    def begin(self, request):
        """Begins a request's next step, if it may have one, and says to the device where everything lies."""
        view = self.view(request)
        if view["stage"] != "lifted":
            return False
        if view["next_token"] >= request.end:
            self.tell(request, request.then)
            return False
        first, known = view["next_token"], len(request.tokens)
        # Of a prompt all but the last token are computed alone; then each token with its drafts.
        certain = max(1, min(STEP, request.prompt - 1 - first))
        drafts = propose(request.tokens) if first + certain == known else []
        room = min(STEP, request.end - first)
        if "gdn" in self.model.kinds:
            # A state is written back at its page's end, before anything is computed after it.
            room = min(room, BLOCK - first % BLOCK)
        certain = min(certain, room)
        tokens = (request.tokens[first : first + certain] + drafts)[:room]
        self.apply({"event": "begin", "request": request.id, "tokens": len(tokens)})
        view, step, lane = self.view(request), fields(self.numbers), request.lane
        step.tokens[lane, : len(tokens)] = tokens
        step.first[lane], step.count[lane], step.certain[lane] = first, len(tokens), certain
        step.slot[lane], step.record[:] = request.id["slot"], self.steps
        step.blocks[lane, : len(view["blocks"])] = view["blocks"]
        for position, page, state in view["pages"]:
            if state != "droppable":
                step.pages[lane, position] = page
        request.drafts += len(tokens) - certain
        return True

    def note(self, request):
        """Takes note of what a request's step has computed."""
        step, lane = fields(self.numbers), request.lane
        first, count, certain = (int(column[lane, 0]) for column in (step.first, step.count, step.certain))
        accepted, says = int(self.answers[lane, 0]), self.answers[lane, 1:].tolist()
        request.rejected += count - accepted
        request.logits |= {first + token: (self.steps, token) for token in range(accepted)}
        if first + certain == len(request.tokens):
            # New are the drafts that hold, and the token after them.
            request.tokens += says[certain - 1 : accepted]
        begun = self.view(request)["begun"]
        self.events.append({"event": "accept", "request": request.id, "step": begun, "tokens": accepted})
        while request.named is not None and request.named < (first + accepted) // BLOCK:
            request.named += 1
            hash = content(request.tokens[: request.named * BLOCK])
            self.events.append({"event": "name", "request": request.id, "hash": hash})

    def logits_of(self, request):
        """The logits of what it has generated, in order."""
        record = self.arrays.to_numpy(self.record)
        at = (request.logits[position] for position in range(request.prompt - 1, request.end))
        return [record[step, request.lane, token] for step, token in at]

    def close(self):
        """Nothing is replayed any more."""
        self.graph = None
        self.gathers.close()
        self.runner.close()


def fields(numbers):
    """The columns of a step's numbers, by name."""
    widths = {"tokens": STEP, "first": 1, "count": 1, "certain": 1, "slot": 1, "record": 1, "pages": EACH, "blocks": EACH}
    named, at = SimpleNamespace(), 0
    for name, width in widths.items():
        setattr(named, name, numbers[:, at : at + width])
        at += width
    return named


def content(tokens):
    """The name of a block's content: a hash of all tokens up to its end."""
    return hashlib.blake2b(repr(list(tokens)).encode(), digest_size=16).hexdigest()


def propose(tokens):
    """Drafts: what followed the last time that the last token came; every third time something else, to be rejected."""
    last = tokens[-1]
    if len(tokens) % 3 == 0:
        return [(last + step) % VOCABULARY for step in range(1, STEP)]
    before = next((at for at in range(len(tokens) - 2, -1, -1) if tokens[at] == last), None)
    return [] if before is None else tokens[before + 1 :][: STEP - 1]
