"""A KV connector in the shape of vLLM's, and the calls that it replaces.

A connector that keeps a host pool and imports prompts from another engine makes, on every step, many small copies: for each
imported tail one for each layer, and for each new row a place in the host pool, worked out on the host from the step's slot mapping.
`Copies` does that. `Connector` does the same with two launches, whatever the number of layers, requests and rows; both may be part of
the step's captured graph, for what they copy is read on the device when they run.

What an engine brings, all of it as it has it: `kv_caches`, a tensor `[pages, page_tokens, width]` for each layer by name; a host pool
`[blocks, layers, page_tokens, width]`; and the step's persistent tensors, `slot_mapping` (int64), `query_start_loc` (int32) and the
accepted tokens of each request (int32).

    python vllm_shaped.py            # with NumPy on the CPU; compares every byte of both ways
    python vllm_shaped.py --torch    # with PyTorch on a GPU, captured
"""

import argparse
from dataclasses import dataclass

import numpy as np

import pagelift


@dataclass
class Tail:
    """An imported prompt: its tokens, its host blocks in order, and the page that its last block is lifted into."""

    prompt_tokens: int
    blocks: list
    page: int


class Copies:
    """What is replaced: one copy for each layer and tail, and for each layer and run of rows."""

    def __init__(self, kv_caches, host_pool):
        self.layers, self.host, self.block_of, self.copies = list(kv_caches.values()), host_pool, {}, 0

    def restore(self, tails):
        for tail in tails:
            tokens = self.layers[0].shape[1]
            block, rows = tail.blocks[(tail.prompt_tokens - 1) // tokens], (tail.prompt_tokens - 1) % tokens + 1
            for layer, cache in enumerate(self.layers):
                cache[tail.page, :rows] = self.host[block, layer, :rows]
                self.copies += 1

    def map_page(self, page, block):
        self.block_of[page] = block

    def mirror(self, slot_mapping, query_start_loc, accepted):
        """`slot_mapping` and the rest come from the device first: the host waits for the step."""
        tokens = self.layers[0].shape[1]
        starts = [int(start) for start in query_start_loc]
        for start, end, taken in zip(starts, starts[1:], accepted):
            rows = [int(slot) for slot in slot_mapping[start : min(end, start + int(taken))]]
            rows = [slot for slot in rows if slot >= 0 and slot // tokens in self.block_of]
            while rows:
                # Rows that follow one another in a page are one run.
                page, first = divmod(rows[0], tokens)
                count = 1
                while count < len(rows) and rows[count] == rows[0] + count and rows[count] // tokens == page:
                    count += 1
                for layer, cache in enumerate(self.layers):
                    self.host[self.block_of[page], layer, first : first + count] = cache[page, first : first + count]
                    self.copies += 1
                rows = rows[count:]


class Connector:
    """The same by pagelift: two plans, two launchers."""

    def __init__(self, backend, kv_caches, host_pool, slot_mapping, query_start_loc, accepted, stream=None):
        pages, tokens, width = next(iter(kv_caches.values())).shape
        blocks, layers = host_pool.shape[:2]
        item = host_pool.itemsize
        layout = pagelift.PagedLayout(tokens, [("kv", width * item)])
        self.memory, builder = pagelift.Registry(), pagelift.GeometryBuilder()
        host = self.memory.adopt(backend, "host", host_pool)
        caches = [self.memory.adopt(backend, "device", cache) for cache in kv_caches.values()]
        host_side = pagelift.SideSpec.packed(
            builder.pool("host", "host", blocks, [host]),
            [host],
            [layer * layout.page_bytes for layer in range(layers)],
            layers * layout.page_bytes,
            layout,
        )
        device_side = pagelift.SideSpec.layer_separate(
            builder.pool("kv", "device", pages, caches), caches, layout.page_bytes, layout
        )
        self.group = builder.group("kv", layers=layers, landing="host", lift="tail", host=host_side, device=device_side)
        geometry = builder.build()
        # `start_load_kv`: imports are reserved when they are admitted, and lifted by id.
        self.reservations = pagelift.Reservations(geometry, 256, jobs=4, list_entries=4)
        self.lift = pagelift.RestorePlan(geometry)
        self.lifts = pagelift.Launcher.bind(backend, self.memory, self.lift, stream=stream)
        # `save_kv_layer` of all layers.
        adopt = lambda tensor: self.memory.adopt(backend, "device", tensor)
        binding = pagelift.RowBinding(adopt(slot_mapping), query_starts=adopt(query_start_loc), accepted=adopt(accepted))
        self.mirror_plan = pagelift.MirrorPlan(geometry)
        self.mirror_plan.bind(self.group, binding)
        # A staged mirror runs in every step; only page-map changes are staged again. Its ticket is done after the first step: who
        # seals a block asks an event of the stream, from after the step that wrote its last row.
        self.mirrors = pagelift.Launcher.bind(backend, self.memory, self.mirror_plan, repeat=True, stream=stream)
        self.mirrors.stage(self.mirror_plan)

    def admit(self, tail):
        """Checks an import once, and holds its page. Returns its id."""
        groups = [pagelift.ImportGroup(self.group, tail.blocks, [tail.page])]
        return self.reservations.reserve(pagelift.Import(pagelift.PromptSpan(tail.prompt_tokens), groups), "exact")

    def map_page(self, page, block):
        """Rows of `page` are mirrored to `block` from the next step on."""
        self.mirror_plan.page_map.unmap(self.group, page)
        self.mirror_plan.page_map.map(self.group, page, block)

    def stage(self, import_ids):
        """Before a step: plans what it lifts, in microseconds and without lists. Returns the ticket."""
        self.lift.clear()
        for import_id in import_ids:
            self.lift.lift_reserved(self.reservations, import_id)
        if self.mirror_plan.page_map.pending:
            self.mirrors.stage(self.mirror_plan)
        return self.lifts.stage(self.lift)

    def finished(self, ticket, import_ids):
        """`get_finished`: whether a step's lifts are done; then their blocks may be used for others."""
        if not self.lifts.is_done(ticket):
            return False
        for import_id in import_ids:
            self.reservations.release(import_id)
        return True

    def close(self):
        self.lifts.close()
        self.mirrors.close()


LAYERS, PAGES, TOKENS, WIDTH, BLOCKS, BATCH = 4, 12, 16, 24, 40, 12


def steps(random, count):
    """Random steps: tails to restore, and what the step writes where."""
    mapped = dict(zip(random.permutation(PAGES)[:6].tolist(), random.permutation(BLOCKS)[:6].tolist(), strict=True))
    free = [block for block in range(BLOCKS) if block not in mapped.values()]
    unmapped = [page for page in range(PAGES) if page not in mapped]
    for _ in range(count):
        pages = random.permutation(unmapped)[:3].tolist()
        tails = []
        for page in pages:
            prompt = int(random.integers(1, 3 * TOKENS))
            blocks = random.permutation(free)[: -(-prompt // TOKENS)].tolist()
            tails.append(Tail(prompt, blocks, page))
        # Four requests with up to three tokens each; the last token or two of some are rejected drafts.
        lengths = random.integers(1, 4, 4)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        slots = np.full(BATCH, -1, np.int64)
        others = [page for page in range(PAGES) if page not in pages]
        # Each writes a third of a page's rows at most, where no other does.
        for start, length, place in zip(starts, lengths, random.permutation(5 * len(others)), strict=False):
            first = others[place // 5] * TOKENS + 3 * (place % 5)
            slots[start : start + length] = first + np.arange(length)
        yield mapped, tails, slots, starts, random.integers(1, lengths + 1).astype(np.int32)


def map_pages(mapped, *ways):
    """Says to each of the ways which block mirrors which page."""
    for page, block in mapped.items():
        for way in ways:
            way.map_page(page, block)


def compare(count=40, seed=0):
    """Plays the same steps both ways with NumPy; returns the copies that one of them made."""
    random = np.random.default_rng(seed)
    caches = {f"model.layers.{n}.self_attn": random.integers(0, 256, (PAGES, TOKENS, WIDTH), np.uint8) for n in range(LAYERS)}
    host = random.integers(0, 256, (BLOCKS, LAYERS, TOKENS, WIDTH), np.uint8)
    replaced = Copies({name: cache.copy() for name, cache in caches.items()}, host.copy())
    arrays = np.full(BATCH, -1, np.int64), np.zeros(5, np.int32), np.zeros(4, np.int32)
    connector = Connector(pagelift.Cpu(), caches, host, *arrays)
    for number, (mapped, tails, slots, starts, accepted) in enumerate(steps(random, count)):
        if number == 0:
            map_pages(mapped, connector, replaced)
        import_ids = [connector.admit(tail) for tail in tails]
        ticket = connector.stage(import_ids)
        for array, values in zip(arrays, (slots, starts, accepted), strict=True):
            array[:] = values
        connector.lifts.launch()
        replaced.restore(tails)
        # The forward writes the step's rows, the same in both.
        for slot in slots[slots >= 0]:
            rows = random.integers(0, 256, (LAYERS, WIDTH), np.uint8)
            for cache, other, row in zip(caches.values(), replaced.layers, rows, strict=True):
                cache[slot // TOKENS, slot % TOKENS] = other[slot // TOKENS, slot % TOKENS] = row
        connector.mirrors.launch()
        replaced.mirror(slots, starts, accepted)
        assert connector.finished(ticket, import_ids)
        for cache, other in zip(caches.values(), replaced.layers, strict=True):
            np.testing.assert_array_equal(cache, other)
        np.testing.assert_array_equal(host, replaced.host)
    connector.close()
    return replaced.copies


def on_gpu(count=40, seed=0):
    """The same steps with PyTorch, lift and mirror in one captured graph; compared with copies on the host."""
    import torch

    random = np.random.default_rng(seed)
    # Padding is written to a page of its own, behind the others.
    values = [random.integers(0, 256, (PAGES + 1, TOKENS, WIDTH), np.uint8) for _ in range(LAYERS)]
    host = random.integers(0, 256, (BLOCKS, LAYERS, TOKENS, WIDTH), np.uint8)
    replaced = Copies({str(n): value.copy() for n, value in enumerate(values)}, host.copy())
    caches = {str(n): torch.from_numpy(value).cuda() for n, value in enumerate(values)}
    pool = torch.from_numpy(host).pin_memory()
    slot_mapping = torch.full((BATCH,), -1, dtype=torch.int64, device="cuda")
    query_start_loc = torch.zeros(5, dtype=torch.int32, device="cuda")
    accepted_tokens = torch.zeros(4, dtype=torch.int32, device="cuda")
    rows = torch.zeros(BATCH, LAYERS, WIDTH, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    backend = pagelift.Cuda(torch.cuda.current_device())
    connector = Connector(backend, caches, pool, slot_mapping, query_start_loc, accepted_tokens, stream)

    def forward():
        at = slot_mapping.masked_fill(slot_mapping < 0, PAGES * TOKENS)
        for layer, cache in enumerate(caches.values()):
            cache.view(-1, WIDTH).index_copy_(0, at, rows[:, layer].contiguous())

    with torch.cuda.stream(stream):
        forward()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        connector.lifts.record()
        forward()
        connector.mirrors.record()
    for number, (mapped, tails, slots, starts, accepted) in enumerate(steps(random, count)):
        if number == 0:
            map_pages(mapped, connector, replaced)
        import_ids = [connector.admit(tail) for tail in tails]
        written = random.integers(0, 256, (BATCH, LAYERS, WIDTH), np.uint8)
        with torch.cuda.stream(stream):
            for tensor, array in [(slot_mapping, slots), (query_start_loc, starts), (accepted_tokens, accepted), (rows, written)]:
                tensor.copy_(torch.from_numpy(array))
            ticket = connector.stage(import_ids)
            graph.replay()
        connector.mirrors.wait()
        assert connector.finished(ticket, import_ids)
        replaced.restore(tails)
        for token, slot in enumerate(slots):
            if slot >= 0:
                for layer, cache in enumerate(replaced.layers):
                    cache[slot // TOKENS, slot % TOKENS] = written[token, layer]
        replaced.mirror(slots, starts, accepted)
        for cache, other in zip(caches.values(), replaced.layers, strict=True):
            np.testing.assert_array_equal(cache.cpu().numpy()[:PAGES], other[:PAGES])
        np.testing.assert_array_equal(pool.numpy(), replaced.host)
    del graph
    connector.close()
    return replaced.copies


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", action="store_true", help="with PyTorch on a GPU, captured")
    parser.add_argument("--steps", type=int, default=40, help="steps to play (40)")
    arguments = parser.parse_args()
    copies = (on_gpu if arguments.torch else compare)(arguments.steps)
    print(f"{arguments.steps} steps: {2 * arguments.steps} launches instead of {copies} copies, every byte the same")


if __name__ == "__main__":
    main()
