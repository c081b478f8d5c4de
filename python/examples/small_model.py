"""A small model that decodes through pagelift, on the CPU, with NumPy.

A prefill engine P computes a prompt, writes its pages and its state back to its host pool, and hands the blocks over. A decode
engine D receives them in blocks of its own, lifts the last one as it is into one page, and decodes: each new row is mirrored, a
page is sealed when all its rows are safe in the host pool, and then given to the next block. D keeps two pages; the rows of sealed
blocks are read where they are. On the way it writes drafts that are rejected, and is preempted once and resumes.

Beside it P decodes on, without any hand-off, and the logits of every step are the same, bit for bit.

    python small_model.py [--tokens 300]
"""

import argparse

import numpy as np

import pagelift

BLOCK = 16  # tokens of a block and of a page
HIDDEN, VOCABULARY = 32, 64
LATENT, ROPE = 24, 8  # an MLA-like row: 32 values
HEADS, DIM = 2, 8  # KV heads of the GQA layer
STATE, WINDOW = 8, 3  # the recurrence: HEADS matrices of STATE x STATE, and the last inputs of a convolution
VALUE = np.float32
SIZE = 4


class Model:
    """Layers of a kind each, with seeded weights. A cache keeps what they remember."""

    def __init__(self, kinds, seed):
        self.kinds, random = kinds, np.random.default_rng(seed)
        weight = lambda *shape: (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(VALUE)
        self.embedding, self.head = weight(VOCABULARY, HIDDEN), weight(VOCABULARY, HIDDEN)
        self.layers = []
        for kind in kinds:
            match kind:
                case "mla":
                    widths = {"row": LATENT + ROPE, "query": LATENT + ROPE, "out": (HIDDEN, LATENT)}
                case "gqa":
                    widths = {"k": HEADS * DIM, "v": HEADS * DIM, "query": 2 * HEADS * DIM, "out": (HIDDEN, 2 * HEADS * DIM)}
                case "gdn":
                    widths = {"in": HIDDEN, "qkv": 3 * HEADS * STATE, "gate": 2 * HEADS, "out": (HIDDEN, HEADS * STATE)}
            self.layers.append({name: weight(*(w if isinstance(w, tuple) else (w, HIDDEN))) for name, w in widths.items()})

    def step(self, token, position, cache):
        """The logits after one token, whose rows and states go to the cache."""
        x = self.embedding[token]
        for number, (kind, weights) in enumerate(zip(self.kinds, self.layers, strict=True)):
            layer = self.kinds[:number].count(kind)
            x = x + getattr(self, kind)(weights, x / np.sqrt(np.mean(x * x) + VALUE(1e-6)), layer, position, cache)
        return self.head @ x

    def mla(self, weights, x, layer, position, cache):
        cache.write("mla", layer, position, weights["row"] @ x)
        rows = cache.read("mla", layer, position + 1)
        probabilities = softmax(rows @ (weights["query"] @ x))
        return weights["out"] @ (probabilities @ rows[:, :LATENT])

    def gqa(self, weights, x, layer, position, cache):
        cache.write("gqa", layer, position, np.stack([weights["k"] @ x, weights["v"] @ x]).reshape(2, HEADS, DIM))
        rows = cache.read("gqa", layer, position + 1)
        query = (weights["query"] @ x).reshape(2, HEADS, DIM)
        outputs = []
        for group in range(2):
            for head in range(HEADS):
                keys, values = (np.ascontiguousarray(rows[:, tensor, head]) for tensor in range(2))
                outputs.append(softmax(keys @ query[group, head]) @ values)
        return weights["out"] @ np.concatenate(outputs)

    def gdn(self, weights, x, layer, position, cache):
        conv, temporal = cache.state(layer)
        inputs = conv.sum(axis=0) + weights["in"] @ x
        conv[:-1], conv[-1] = conv[1:].copy(), x
        q, k, v = (weights["qkv"] @ inputs).reshape(3, HEADS, STATE)
        k = k / np.sqrt(np.sum(k * k, axis=-1, keepdims=True) + VALUE(1e-6))
        decay, rate = 1 / (1 + np.exp(-(weights["gate"] @ x).reshape(2, HEADS)))
        for head in range(HEADS):
            matrix = temporal[head]
            matrix *= decay[head]
            matrix += rate[head] * np.outer(v[head] - matrix @ k[head], k[head])
        return weights["out"] @ np.concatenate([temporal[head] @ q[head] for head in range(HEADS)])


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


class Engine:
    """Pools of one engine and the geometry over them.

    Host blocks hold all layers of a kind together, `host[block, layer]`; pages hold each layer's by itself, `pages[layer, page]`. The
    GQA layer keeps heads inside rows and K and V together in host blocks, heads outside and K and V apart in pages.
    """

    def __init__(self, model, blocks, pages):
        self.backend, self.memory = pagelift.Cpu(threads=1), pagelift.Registry()
        builder = pagelift.GeometryBuilder()
        self.host, self.pages, self.groups = {}, {}, {}
        self.free_blocks, self.free_pages = list(range(blocks))[::-1], list(range(pages))
        dense = lambda order, regions: pagelift.PagedLayout.dense(
            BLOCK, heads=HEADS, dim=DIM, value_bytes=SIZE, order=order, regions=regions
        )
        row = pagelift.PagedLayout(BLOCK, [("row", SIZE * (LATENT + ROPE))])
        state = pagelift.StateLayout([("conv", SIZE * WINDOW * HIDDEN), ("temporal", SIZE * HEADS * STATE * STATE)])
        self.state_values = WINDOW * HIDDEN
        known = {
            "mla": (row, row, (BLOCK, LATENT + ROPE), [(BLOCK, LATENT + ROPE)]),
            "gqa": (dense("nhd", "packed"), dense("hnd", "separate"), (2, BLOCK, HEADS, DIM), [(HEADS, BLOCK, DIM)] * 2),
            "gdn": (state, state, (state.state_bytes // SIZE,), [(state.state_bytes // SIZE,)]),
        }
        for kind, (in_block, in_page, block_shape, page_shapes) in known.items():
            layers = model.kinds.count(kind)
            if not layers:
                continue
            # Nothing of what lies there before means anything.
            self.host[kind] = np.full((blocks, layers, *block_shape), np.nan, VALUE)
            self.pages[kind] = [np.full((layers, pages, *shape), np.nan, VALUE) for shape in page_shapes]
            host = self.memory.adopt(self.backend, "host", self.host[kind])
            device = [self.memory.adopt(self.backend, "device", array) for array in self.pages[kind]]
            block_bytes, page_bytes = in_block.page_bytes, in_page.page_bytes // len(device)
            pool = builder.pool(f"{kind} blocks", "host", blocks, [host])
            slab = builder.pool(f"{kind} pages", "device", pages, device)
            starts = [int(region) + layer * pages * page_bytes for layer in range(layers) for region in device]
            self.groups[kind] = builder.group(
                kind,
                layers=layers,
                landing="host",
                lift="state" if kind == "gdn" else "tail",
                host=pagelift.SideSpec.packed(
                    pool, [host], [layer * block_bytes for layer in range(layers)], layers * block_bytes, in_block
                ),
                device=pagelift.SideSpec.layer_separate(slab, starts, page_bytes, in_page),
            )
        self.geometry = builder.build()
        self.launchers = {}

    def run(self, plan):
        """Stages and launches a page plan."""
        if type(plan) not in self.launchers:
            self.launchers[type(plan)] = pagelift.Launcher.bind(self.backend, self.memory, plan)
        launcher = self.launchers[type(plan)]
        ticket = launcher.stage(plan)
        launcher.launch()
        assert launcher.is_done(ticket)


class Request:
    """One request's cache: its host blocks, its pages by block, and the page of its state."""

    def __init__(self, engine):
        self.engine, self.blocks, self.pages, self.state_page, self.state_block = engine, [], {}, None, None
        if "gdn" in engine.groups:
            self.state_page, self.state_block = engine.free_pages.pop(), engine.free_blocks.pop()

    def write(self, kind, layer, position, row):
        page, within = self.pages[position // BLOCK], position % BLOCK
        arrays = self.engine.pages[kind]
        if kind == "mla":
            arrays[0][layer, page, within] = row
        else:
            for array, part in zip(arrays, row, strict=True):
                array[layer, page, :, within] = part

    def read(self, kind, layer, end):
        """Rows `0 .. end` as one array, each from its page where there is one, or else from its block."""
        pieces = []
        for number in range(-(-end // BLOCK)):
            if number in self.pages:
                arrays = [array[layer, self.pages[number]] for array in self.engine.pages[kind]]
                pieces.append(arrays[0] if kind == "mla" else np.stack([array.swapaxes(0, 1) for array in arrays], axis=1))
            else:
                block = self.engine.host[kind][self.blocks[number], layer]
                pieces.append(block if kind == "mla" else block.swapaxes(0, 1))
        return np.concatenate(pieces)[:end]

    def state(self, layer):
        values = self.engine.pages["gdn"][0][layer, self.state_page]
        conv, temporal = np.split(values, [self.engine.state_values])
        return conv.reshape(WINDOW, HIDDEN), temporal.reshape(HEADS, STATE, STATE)

    def groups(self):
        """The token-paged groups."""
        return {kind: group for kind, group in self.engine.groups.items() if kind != "gdn"}


class Prefill(Request):
    """P's side: every block has a page."""

    def __init__(self, engine):
        super().__init__(engine)
        if self.state_page is not None:
            engine.pages["gdn"][0][:, self.state_page] = 0

    def compute(self, model, tokens, first=0):
        """The logits after the last of `tokens`, the first of which is at position `first`."""
        for position, token in enumerate(tokens, first):
            if position // BLOCK not in self.pages:
                self.pages[position // BLOCK] = self.engine.free_pages.pop()
            logits = model.step(token, position, self)
        return logits

    def export(self):
        """Writes pages and state back to host blocks, whole, and says to which."""
        plan = pagelift.WriteBackPlan(self.engine.geometry)
        pages = list(self.pages.values())
        self.blocks = [self.engine.free_blocks.pop() for _ in pages]
        for group in self.groups().values():
            plan.spill(group, pages, self.blocks)
        if self.state_page is not None:
            plan.checkpoint(self.engine.groups["gdn"], self.state_page, self.state_block)
        self.engine.run(plan)


class Decode(Request):
    """D's side: one page is written at a time, and mirrored."""

    def __init__(self, engine):
        super().__init__(engine)
        self.lift = pagelift.RestorePlan(engine.geometry)
        self.mirror = pagelift.MirrorPlan(engine.geometry)
        self.slots, self.starts = np.full(4, -1, np.int64), np.zeros(2, np.int32)
        self.accepted = np.zeros(1, np.int32)
        regions = [engine.memory.adopt(engine.backend, "device", a) for a in (self.slots, self.starts, self.accepted)]
        binding = pagelift.RowBinding(regions[0], query_starts=regions[1], accepted=regions[2])
        for group in self.groups().values():
            self.mirror.bind(group, binding)
        # What is staged runs in every step, until the page map changes.
        self.mirrors = pagelift.Launcher.bind(engine.backend, engine.memory, self.mirror, repeat=True)
        self.durable = self.sealed = self.preempted = 0

    def receive(self, prompt_tokens, producer):
        """Reserves, lets P's blocks land in the host pool, and lifts the last one into a page."""
        engine = self.engine
        span = pagelift.PromptSpan(prompt_tokens, "none" if self.state_page is None else "state")
        arrives = span.in_blocks_of(BLOCK)
        self.blocks = [engine.free_blocks.pop() for _ in range(arrives.endpoints)]
        page = engine.free_pages.pop()
        groups = [pagelift.ImportGroup(group, self.blocks, [page]) for group in self.groups().values()]
        if self.state_page is not None:
            groups.append(pagelift.ImportGroup(engine.groups["gdn"], [self.state_block], [self.state_page]))
        reservations = pagelift.Reservations(engine.geometry, 1)
        import_id = reservations.reserve(pagelift.Import(span, groups), "exact")
        # What a transport does: one-sided reads of whole blocks.
        for kind in engine.groups:
            pairs = [(self.state_block, producer.state_block)] if kind == "gdn" else zip(self.blocks, producer.blocks)
            for own, other in pairs:
                engine.host[kind][own] = producer.engine.host[kind][other]
        self.lift.lift_reserved(reservations, import_id)
        engine.run(self.lift)
        self.open(arrives.tail_page, page, int(arrives.tail_tokens))
        return span.resume_at

    def open(self, number, page, durable):
        """From now on rows are written to `page`, and mirrored to block `number`."""
        self.pages, self.durable = {number: page}, durable
        for group in self.groups().values():
            self.mirror.page_map.map(group, page, self.blocks[number])
        self.ticket = self.mirrors.stage(self.mirror)

    def close(self):
        """Gives the page away."""
        ((number, page),) = self.pages.items()
        for group in self.groups().values():
            self.mirror.page_map.unmap(group, page)
        self.engine.free_pages.append(page)
        self.pages = {}
        return number, page

    def compute(self, model, token, position, drafts=0):
        """One step: the forward, with drafts behind the token that will be rejected, and the mirror."""
        if position // BLOCK not in self.pages:
            # Seal: all rows are safe in the host block, so the page may hold another.
            assert self.durable == BLOCK
            self.close()
            self.sealed += 1
            self.blocks.append(self.engine.free_blocks.pop())
            self.open(position // BLOCK, self.engine.free_pages.pop(), 0)
        page, within = self.pages[position // BLOCK], position % BLOCK
        drafts = min(drafts, BLOCK - 1 - within)
        logits = model.step(token, position, self)
        for kind in self.groups():
            for layer in range(model.kinds.count(kind)):
                for draft in range(1, drafts + 1):
                    shape = (LATENT + ROPE,) if kind == "mla" else (2, HEADS, DIM)
                    self.write(kind, layer, position + draft, np.full(shape, -1e30, VALUE))
        self.slots[:] = -1
        self.slots[: drafts + 1] = page * BLOCK + within + np.arange(drafts + 1)
        self.starts[:], self.accepted[0] = (0, drafts + 1), 1
        self.mirrors.launch()
        report = self.mirrors.report(self.ticket)
        assert (report.rows, report.bad) == (len(self.groups()), 0)
        self.durable = max(self.durable, within + 1)
        return logits

    def preempt(self):
        """Gives every page away, and takes others: what is needed is in the host pool."""
        engine = self.engine
        if self.state_page is not None:
            plan = pagelift.WriteBackPlan(engine.geometry)
            plan.checkpoint(engine.groups["gdn"], self.state_page, self.state_block)
            engine.run(plan)
        number, page = self.close()
        for array in (array for arrays in engine.pages.values() for array in arrays):
            array[:] = np.nan
        page = engine.free_pages.pop(0)
        self.lift.clear()
        for kind, group in engine.groups.items():
            ends = ([self.state_block], [self.state_page]) if kind == "gdn" else ([self.blocks[number]], [page])
            self.lift.gather(engine.geometry.lift_route(group), *ends)
        engine.run(self.lift)
        self.open(number, page, self.durable)
        self.preempted += 1


def serve(kinds, prompt_tokens, tokens, seed=0):
    """Generates `tokens` tokens with and without a hand-off; returns D's request, and how many steps had equal logits."""
    model, random = Model(kinds, seed), np.random.default_rng(seed)
    prompt = [int(token) for token in random.integers(0, VOCABULARY, prompt_tokens)]
    blocks = -(-(prompt_tokens + tokens) // BLOCK) + 2
    reference = Prefill(Engine(model, blocks, blocks))
    # A state must not absorb the prompt's last token before it is handed over.
    ahead = prompt[:-1] if "gdn" in kinds else prompt
    logits = reference.compute(model, ahead) if ahead else None
    reference.export()
    decode = Decode(Engine(model, blocks, 3))
    position = decode.receive(prompt_tokens, reference)
    if "gdn" in kinds:
        logits = reference.compute(model, prompt[-1:], position)
    token, equal = prompt[-1], 0
    for step in range(tokens):
        if step == tokens // 2:
            decode.preempt()
        found = decode.compute(model, token, position + step, drafts=2 * (step % 3 == 0))
        equal += found.tobytes() == logits.tobytes() and bool(np.isfinite(found).all())
        token = int(np.argmax(found))
        logits = reference.compute(model, [token], position + step + 1)
    return decode, equal


KINDS = {"attention": ["mla", "gqa", "mla"], "hybrid": ["gdn", "mla", "gdn", "gqa"]}
PROMPTS = {"aligned": 2 * BLOCK, "unaligned": 2 * BLOCK + 5, "one more": BLOCK + 1, "sub-block": 5, "one token": 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=300, help="tokens to generate for each prompt (300)")
    tokens = parser.parse_args().tokens
    for model, kinds in KINDS.items():
        for name, prompt in PROMPTS.items():
            decode, equal = serve(kinds, prompt, tokens)
            print(
                f"{model:9}  {name:9} prompt of {prompt:2} tokens: logits of {equal} of {tokens} steps equal bit for bit, "
                f"{decode.sealed} pages sealed, {decode.preempted} preemption"
            )
            if equal != tokens:
                raise SystemExit("logits differ")


if __name__ == "__main__":
    main()
