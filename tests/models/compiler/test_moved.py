"""Algebra as the policy's hypothesis: named in the first reply, and taken back in a turn of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.policy import Past
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests import evaluations
from tests.models.compiler.templates.interpreted import answer
from tests.models.compiler.test_policy import policy_for, source_of

pytestmark = pytest.mark.long


class Pooled(nn.Module):
    """Tokens projected and averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 8192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.project(x).mean(1)
        return y


def test_the_reply_names_the_algebra_and_its_kernels_compute_the_same(tmp_path: Path) -> None:
    module, x = Pooled().eval(), torch.randn(4, 1024, 64)
    reply = policy_for(module, (x,)).reply([])
    assert reply is not None
    assert "The mean over rows of a product is taken before it" in reply
    with torch.no_grad():
        expected = module(x)
    got = answer(BatchedInterpreter(), source_of(reply), tmp_path, module, x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_a_refused_reply_is_followed_by_one_without_the_algebra() -> None:
    module, x = Pooled().eval(), torch.randn(4, 1024, 64)
    policy = policy_for(module, (x,))
    history: list[Past] = []
    replies = []
    while (reply := policy.reply(history)) is not None and len(history) < 12:
        replies.append(reply)
        history.append(Past(source_of(reply), evaluations.rejected("wrong_output")))
    without = [reply for reply in replies if "moved reduction 0 is taken where the module" in reply]
    assert len(without) == 1
    # All tokens are projected again.
    assert "n_inner" in source_of(without[0])
    assert source_of(without[0]) != source_of(replies[0])
