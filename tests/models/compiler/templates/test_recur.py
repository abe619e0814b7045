"""Recurrent layers: all layers, or both directions, a launch a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelagent.models.compiler.capturing.capture import Smaller
from kernelagent.models.compiler.module.constructor import ORIGINAL
from kernelagent.models.compiler.module.constructor_sizes import of_the_original
from kernelagent.models.compiler.module.writing import Written
from kernelagent.models.compiler.policy import Policy
from kernelagent.models.compiler.templates.recurrent.recur import KIND
from kernelagent.tools.judge.source_reading.reading import disclosures
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.judges import verdict_on
from tests.models.compiler.templates.interpreted import answer, loaded

pytestmark = pytest.mark.long

Made = tuple[nn.Module, tuple[Any, ...]]
LAYERS: dict[str, Callable[[], Made]] = {
    "LSTM of three layers, batch first": lambda: (nn.LSTM(24, 40, 3, batch_first=True), (torch.randn(5, 9, 24),)),
    "LSTM of one layer with a state": lambda: (nn.LSTM(8, 16), (torch.randn(12, 3, 8), (torch.randn(1, 3, 16), torch.randn(1, 3, 16)))),
    "LSTM of one step": lambda: (nn.LSTM(8, 16, 2), (torch.randn(1, 3, 8),)),
    "LSTM of two layers both ways": lambda: (nn.LSTM(24, 40, 2, bidirectional=True), (torch.randn(9, 18, 24), (torch.randn(4, 18, 40), torch.randn(4, 18, 40)))),
    "GRU without biases": lambda: (nn.GRU(24, 40, 2, bias=False), (torch.randn(9, 5, 24),)),
    "GRU with a state": lambda: (nn.GRU(24, 40, 2), (torch.randn(9, 5, 24), torch.randn(2, 5, 40))),
    "GRU both ways, batch first": lambda: (nn.GRU(8, 16, batch_first=True, bidirectional=True), (torch.randn(3, 11, 8),)),
    "RNN of one layer": lambda: (nn.RNN(24, 40), (torch.randn(12, 5, 24),)),
    "RNN of rectified units, no batch": lambda: (nn.RNN(24, 40, 2, nonlinearity="relu"), (torch.randn(12, 24),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def interpreter() -> BatchedInterpreter:
    return BatchedInterpreter()


def written(module: nn.Module, args: tuple[Any, ...]) -> Written:
    return Policy(module, "from_reference", {"default": (args, {})}).first()


def lengths(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Sizes and strides of the axes that have more than one element."""
    return [pair for pair in zip(tensor.shape, tensor.stride(), strict=True) if pair[0] != 1]


@pytest.mark.parametrize("name", LAYERS)
def test_steps_are_right_and_lie_in_memory_as_torchs(
    interpreter: BatchedInterpreter, tmp_path: Path, name: str
) -> None:
    torch.manual_seed(0)
    module, args = LAYERS[name]()
    made = written(module.eval(), args)
    assert KIND in made.kinds.values()
    assert list(disclosures(made.source)) == []
    got = tree_leaves(answer(interpreter, made.source, tmp_path, module, *args))
    for ours, theirs in zip(got, tree_leaves(module(*args)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        assert lengths(ours) == lengths(theirs)
        assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_of_16_bits_are_added_up_in_32(
    interpreter: BatchedInterpreter, tmp_path: Path, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    module, x = nn.LSTM(16, 32, 2).to(dtype), torch.randn(12, 4, 16).to(dtype)
    got, _ = answer(interpreter, written(module, (x,)).source, tmp_path, module, x)
    exact, _ = module.double()(x.double())
    assert float((got.double() - exact).abs().max()) < 20 * torch.finfo(dtype).eps


def test_other_lengths_and_batches_are_answered_by_the_same_kernels(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = nn.GRU(8, 16, 2)
    source = written(module, (torch.randn(9, 4, 8),)).source
    new = loaded(interpreter, source, tmp_path, module)
    for steps, rows in ((1, 1), (7, 20), (20, 3)):
        x = torch.randn(steps, rows, 8)
        with torch.no_grad():
            got, last = new(x)
            right, right_last = module(x)
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(last, right_last, rtol=1e-5, atol=1e-6)


def test_both_directions_hold_where_fewer_units_are_executed(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, small = (nn.GRU(8, units, 2, bidirectional=True) for units in (32, 16))
    args = (torch.randn(9, 3, 8),)
    state = of_the_original(module, small, ORIGINAL)
    smaller = {"default": Smaller(small.to("meta"), (args[0].to("meta"),), {})}
    policy = Policy(module, "from_reference", {"default": (args, {})}, smaller, state=state)
    source = policy.first().source
    executed = nn.GRU(8, 16, 2, bidirectional=True)
    got = answer(interpreter, source, tmp_path, executed, *args)
    for ours, theirs in zip(tree_leaves(got), tree_leaves(executed(*args)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_what_comes_after_the_layers_reads_their_states_where_they_lie(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 16, 2, batch_first=True)
            self.fc = nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out, _ = self.lstm(x)
            return self.fc(out[:, -1]).relu()  # type: ignore[no-any-return]

    torch.manual_seed(0)
    module, x = Last().eval(), torch.randn(3, 11, 8)
    made = written(module, (x,))
    assert ".clone()" not in made.source
    got = answer(interpreter, made.source, tmp_path, module, x)
    torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-6)


def test_weights_that_the_forward_computes_and_states_that_are_a_part_are_read_as_they_are(
    interpreter: BatchedInterpreter, tmp_path: Path
) -> None:
    class Computed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.states = (nn.Parameter(torch.randn(8, n) / 4) for n in (8, 32))

        def forward(self, x: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
            weights = [self.inputs, self.states.t()[:8].exp() / 8]
            first = states.transpose(0, 1)[1:2]
            return torch.rnn_tanh(x, first, weights, False, 1, 0.0, False, False, False)[0]

    torch.manual_seed(0)
    module, args = Computed(), (torch.randn(12, 3, 8), torch.randn(3, 2, 8))
    got = answer(interpreter, written(module, args).source, tmp_path, module, *args)
    torch.testing.assert_close(got, module(*args), rtol=1e-5, atol=1e-6)


def test_long_sequences_are_estimated_faster_than_one_launch_a_layer_and_step() -> None:
    made = written(nn.LSTM(64, 128, 4).eval(), (torch.randn(256, 8, 64),))
    (remark,) = [text for text in made.remarks if "256 steps of 4 layers of the LSTM" in text]
    assert "slower than the library" not in remark
    assert not any(key.startswith(KIND) for key in made.sites)


def test_an_lstm_of_two_layers_is_accepted_by_the_judge(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    torch.manual_seed(0)
    module, args = nn.LSTM(8, 16, 2), (torch.randn(9, 3, 8),)
    source = written(module, args).source
    result = verdict_on(source, module, args, tmp_path / "bundle", fork_server)
    assert result.accepted, f"{result.reason}\n{source}"
