"""A tensor that held the same values in every verified call is compared when the emitted module is called."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.verify.beyond.beyond import digest_of
from tests.dropin.emitted import X, facts_of, imported, text_for, warnings_as_errors

MASKED = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, x, mask):
        CALLS[0] += 1
        return x.tril()
"""
MASK = torch.ones(4, 8, dtype=torch.bool).tril()


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x * mask


@pytest.fixture
def dropin(tmp_path):
    mask = {"dtype": "bool", "shape": [4, 8], "strides": [8, 1], "values": digest_of(MASK)}
    sets = [{"name": "default", "args": [X, mask]}]
    module = imported(text_for(MASKED, facts_of(Masked(), "()"), input_sets=sets), tmp_path)
    with torch.no_grad(), warnings_as_errors(DeprecationWarning):
        yield module, module.optimized(Masked().eval())


@pytest.mark.long
def test_the_verified_values_run_the_kernel_in_any_tensor(dropin):
    module, fast = dropin
    x = torch.randn(4, 8)
    for mask in (MASK, MASK.clone(), MASK):
        assert torch.equal(fast(x, mask), x * mask)
    assert module.CALLS == [3]


def test_other_values_run_the_original(dropin):
    module, fast = dropin
    x, other = torch.randn(4, 8), ~MASK
    with pytest.warns(module.OutsideEnvelopeWarning, match=r"\(values\)"):
        assert torch.equal(fast(x, other), x * other)
    assert module.CALLS == [0]


def test_a_tensor_that_is_written_to_is_looked_at_again(dropin):
    module, fast = dropin
    x, mask = torch.randn(4, 8), MASK.clone()
    fast(x, mask)
    mask[0, 7] = True
    with pytest.warns(module.OutsideEnvelopeWarning, match=r"\(values\)"):
        assert torch.equal(fast(x, mask), x * mask)
    assert module.CALLS == [1]


@pytest.mark.long
def test_a_graph_cannot_compare_and_calls_the_original(dropin):
    module, fast = dropin
    x = torch.randn(4, 8)
    compiled = torch.compile(fast, backend="eager")
    with pytest.warns(module.OutsideEnvelopeWarning, match=r"\(values\)"):
        assert torch.equal(compiled(x, MASK), x * MASK)
    assert module.CALLS == [0]
