"""Whether a run has changed a tensor, told by its bits."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.reference.copies import same_bits
from kernelagent.tools.judge.problem.reference.expected import Expected
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.same import changes_state


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.int8], ids=str)
def test_a_tensor_has_the_bits_of_itself_and_of_its_copy_and_of_no_other(
    dtype: torch.dtype,
) -> None:
    x = torch.arange(1, 9).to(dtype)
    assert same_bits(x, x)
    assert same_bits(x, x.clone())
    assert not same_bits(x, torch.arange(8, 0, -1).to(dtype))


@pytest.mark.parametrize("value", [2.0, float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn], ids=str)
def test_a_call_that_leaves_the_weights_themselves_changes_no_state(
    dtype: torch.dtype, value: float
) -> None:
    weight, out = torch.full((4,), value).to(dtype), torch.zeros(4)
    left = Expected(out, out.double(), ((), {}), {"weight": weight}, {})
    compared = compare.Expected(eager=out, oracle64=out.double(), natural_rms={})
    trial = Trial("default", "natural", ((), {}), left, compared, lambda _: out)
    assert not changes_state(trial, {"weight": weight})
    assert changes_state(trial, {"weight": torch.ones(4).to(dtype)})
