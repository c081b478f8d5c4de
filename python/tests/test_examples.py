"""The examples: the small model decodes the same with and without a hand-off, the others copy what plain copies would.

Those over PyTorch run where it is installed, and on a GPU where there is one.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "small_model")]

import engine  # noqa: E402
import serve  # noqa: E402
import vllm_shaped  # noqa: E402
from arrays import NumPy, PyTorch  # noqa: E402
from model import BLOCK  # noqa: E402


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


def has_gpu():
    return has("torch") and __import__("torch").cuda.is_available()


without_torch = pytest.mark.skipif(not has("torch"), reason="needs PyTorch")
without_gpu = pytest.mark.skipif(not has_gpu(), reason="needs PyTorch with a GPU")
KINDS_OF_ARRAYS = [
    pytest.param(NumPy, id="numpy"),
    pytest.param(lambda: PyTorch("cpu"), id="torch-cpu", marks=without_torch),
    pytest.param(lambda: PyTorch("cuda"), id="torch-cuda", marks=without_gpu),
]


@pytest.mark.parametrize("arrays", KINDS_OF_ARRAYS)
@pytest.mark.parametrize("prompt", serve.PROMPTS.values(), ids=serve.PROMPTS)
@pytest.mark.parametrize("kinds", serve.KINDS.values(), ids=serve.KINDS)
def test_logits_are_equal_bit_for_bit(kinds, prompt, arrays):
    result = serve.serve(arrays(), kinds, prompt, 300, seed=prompt)
    assert result.equal == [300, 300] and result.preempted == 1
    # A second prompt finds all of its full blocks, two of which the first has generated, and has the rest imported.
    found = prompt // BLOCK + 2
    assert (result.found, result.landed) == (found, 1)
    # Every page that became full, but those that were found.
    last = prompt + 299, found * BLOCK + 3 + 299
    assert result.sealed == last[0] // BLOCK + last[1] // BLOCK - found
    assert 0 < result.rejected < result.drafts


@pytest.mark.parametrize("arrays", KINDS_OF_ARRAYS)
@pytest.mark.parametrize("kinds", serve.KINDS.values(), ids=serve.KINDS)
def test_a_wrong_byte_is_noticed(kinds, arrays, monkeypatch):
    """Each thing that is handed over matters: where it is another, logits are others."""
    land = engine.Engine.land
    for kind in set(kinds):

        def spoiled(self, request, first, end, kind=kind):
            land(self, request, first, end)
            for position in range(first, end):
                block = self.cache.host[kind][self.view(request)["blocks"][position]]
                block.view(np.uint32)[...] ^= np.uint32(1 << 20)

        monkeypatch.setattr(engine.Engine, "land", spoiled)
        assert serve.serve(arrays(), kinds, 21, 100).equal[0] < 100, kind


@pytest.mark.parametrize("seed", range(4))
def test_a_connector_copies_what_plain_copies_would(seed):
    assert vllm_shaped.compare(20, seed) > 20 * 2 * vllm_shaped.LAYERS


@without_torch
def test_a_decode_step_of_pytorchs():
    import torch_decode

    assert torch_decode.decode(cpu=True, steps=120) == 119 + 79


@without_gpu
@pytest.mark.parametrize("branch", [False, True], ids=["in-order", "branch"])
def test_a_decode_step_in_a_graph(branch):
    import torch_decode

    assert torch_decode.decode(branch=branch, steps=280) == 279 + 239
