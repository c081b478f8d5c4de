"""Prompts that go from P to D, and what must be equal: the logits of every token, bit for bit, to those without a hand-off."""

from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from cache import EACH
from engine import Engine
from model import BLOCK, VOCABULARY, Model

KINDS = {"attention": ["mla", "gqa", "mla"], "hybrid": ["gdn", "mla", "gdn", "gqa"]}
PROMPTS = {"aligned": 2 * BLOCK, "unaligned": 2 * BLOCK + 5, "one more": BLOCK + 1, "sub-block": 5, "one token": 1}


@dataclass
class Result:
    """What came of one prompt, and of a second one that begins with the same tokens."""

    tokens: int  # generated for each of the two
    equal: list  # of those, how many have equal logits
    sealed: int  # pages
    preempted: int
    found: int  # blocks that the second found
    landed: int  # blocks that the second's import read
    drafts: int
    rejected: int


def serve(arrays, kinds, prompt_tokens, tokens, seed=0):
    """Generates `tokens` tokens for a prompt of so many, and for one that begins with it and with what was generated."""
    random, blocks = np.random.default_rng(seed), 3 * EACH
    prompt = [int(token) for token in random.integers(0, VOCABULARY, prompt_tokens)]
    with arrays.current(), ExitStack() as stack:
        model = Model(arrays, kinds, seed)
        engine = lambda **options: stack.enter_context(closing(Engine(arrays, model, blocks=blocks, **options)))
        # Of P and of the engine without a hand-off every page stays where it was written.
        without, prefill = (engine(pages=blocks, keep=blocks) for _ in range(2))
        decode = engine(pages=8)

        first, expected = admit(decode, prefill, without, prompt, tokens)
        # Two pages that were generated are sealed, and published: of a prompt that goes on behind them only the end is read.
        cut = (prompt_tokens // BLOCK + 2) * BLOCK
        decode.until(lambda: len(first.tokens) > cut + BLOCK)
        second, expected_too = admit(decode, prefill, without, first.tokens[:cut] + [1, 2, 3], tokens, lane=1)
        # Preempted, all of its pages are others'. Resumed, it goes on where it was.
        decode.until(lambda: len(first.tokens) > prompt_tokens + tokens // 2)
        decode.tell(first, "preempt")
        decode.until(lambda: decode.stage(first) == "preempted")
        spoil(decode, first)
        decode.tell(first, "resume")
        pairs = [(first, expected), (second, expected_too)]
        for request, other in pairs:
            decode.until(lambda: decode.stage(request) == "ended")
            without.until(lambda: without.stage(other) == "ended")
        counters = decode.lifecycle.counters()
        return Result(
            tokens=tokens,
            equal=[equal(decode.logits_of(request), without.logits_of(other)) for request, other in pairs],
            sealed=counters["sealed"],
            preempted=counters["preempted"],
            found=second.found,
            landed=second.landed,
            drafts=first.drafts + second.drafts,
            rejected=first.rejected + second.rejected,
        )


def admit(decode, prefill, without, prompt, tokens, lane=0):
    """The same prompt to D, by way of P, and to the engine without a hand-off."""
    end = len(prompt) - 1 + tokens
    # Of a prompt that is imported, the last token is computed again; but a state must not absorb it twice.
    imported = len(prompt) - ("gdn" in prefill.model.kinds)
    # Preempted, a request has all of its rows and states in host blocks: so others may read them there.
    computed = prefill.admit(prompt, imported, lane=lane, then="preempt")
    prefill.until(lambda: prefill.stage(computed) == "preempted")
    handed = decode.admit(prompt, end, lane=lane, producer=(prefill, computed), name=True)
    return handed, without.admit(prompt, end, lane=lane)


def spoil(engine, request):
    """Others have used its pages meanwhile."""
    free = [page for page in range(engine.pages) if engine.lifecycle.holder(page) is None]
    slot = request.id["slot"]
    own = {"mla": free, "gqa": range(slot * EACH, (slot + 1) * EACH), "gdn": [slot]}
    for kind, regions in engine.cache.device.items():
        for page in own[kind]:
            for region in regions:
                region[:, page] = float("nan")


def equal(found, expected):
    """How many tokens have the same logits, bit for bit."""
    pairs = zip(found, expected, strict=True)
    return sum(bool(np.isfinite(one).all()) and one.tobytes() == other.tobytes() for one, other in pairs)
