"""The examples: the small model decodes the same with and without a hand-off, and a connector copies what plain copies would."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import small_model  # noqa: E402
import vllm_shaped  # noqa: E402


@pytest.mark.parametrize("prompt", small_model.PROMPTS.values(), ids=small_model.PROMPTS)
@pytest.mark.parametrize("kinds", small_model.KINDS.values(), ids=small_model.KINDS)
def test_logits_are_equal_bit_for_bit(kinds, prompt):
    decode, equal = small_model.serve(kinds, prompt, 300, seed=prompt)
    assert equal == 300 and decode.preempted == 1
    assert decode.sealed == (prompt + 298) // small_model.BLOCK - (prompt - 1) // small_model.BLOCK


@pytest.mark.parametrize("kinds", small_model.KINDS.values(), ids=small_model.KINDS)
def test_a_wrong_byte_is_noticed(kinds, monkeypatch):
    """Each thing that is handed over matters: without it, logits differ."""
    receive = small_model.Decode.receive
    for kind in set(kinds):

        def spoiled(self, *arguments, kind=kind):
            resume_at = receive(self, *arguments)
            for array in self.engine.pages[kind]:
                flat = array.view(np.uint32)
                flat ^= np.uint32(1 << 20)
            return resume_at

        monkeypatch.setattr(small_model.Decode, "receive", spoiled)
        _, equal = small_model.serve(kinds, 21, 8)
        assert equal < 8, kind


@pytest.mark.parametrize("seed", range(4))
def test_a_connector_copies_what_plain_copies_would(seed):
    assert vllm_shaped.compare(20, seed) > 20 * 2 * vllm_shaped.LAYERS
