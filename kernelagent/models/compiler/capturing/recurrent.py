"""torch's recurrent layers while a module is traced: one operation, for which a template has a kernel.

Products with the inputs, of all steps at once, stay products of the graph. What that kernel does not do is written out
step by step, if the steps are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from kernelagent.models.compiler.capturing.refusal import PolicyCannot
from kernelagent.tools.estimates.recurrent import GATES, understood

MOST_STEPS = 48
"""Steps of all layers together that are written out, each with a product and a kernel for its gates."""
RECURRENCE = "torch.ops.kernelagent.recurrence.default"
"""How Inductor spells the steps of layers that a template takes over."""
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_WITHOUT = "optimize a part without it with --submodule (`kernelagent scan` lists the parts)"


# Chains go on step by step beside each other: the layers of a stack, each a step behind the one below
# it, or the two directions of one layer. `gates` has the inputs' part of the first layer, (steps, rows,
# gates x units), `back` that of the other direction; `weight` and `bias` are the states' part of each
# chain, `weight_below` and `bias_below` that of each layer but the first for the layer below. Of `hidden` and
# `cell` the chains have those from `first` on. The result is (chain, step, row, unit): the given states,
# those after each step, and an LSTM's last cells.
@torch.library.custom_op(
    "kernelagent::recurrence",
    mutates_args=(),
    schema=(
        "(Tensor gates, Tensor? back, Tensor hidden, Tensor? cell, Tensor[] weight, Tensor[] bias, "
        "Tensor[] weight_below, Tensor[] bias_below, int first, str kind) -> Tensor"
    ),
)
def _recurrence(*given: Any) -> Any:
    raise NotImplementedError("a graph with it is only ever written as source")


@_recurrence.register_fake
def _(gates: Any, back: Any, hidden: Any, cell: Any, weight: Any, *_: Any) -> Any:
    slots = gates.shape[0] + 1 + (cell is not None)
    return hidden.new_empty((len(weight), slots, *hidden.shape[1:]))


@contextmanager
def few_steps(many: Callable[[nn.RNNBase, torch.dtype], bool] | None = None) -> Iterator[None]:
    """While it is entered, LSTM, GRU and RNN become their steps; raises `PolicyCannot` where there are too many.

    `many`: which may have as many as they like.
    """

    def require(part: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(part, nn.RNNBase) and given:
            _require_few(part, given[0], many)

    hook = register_module_forward_pre_hook(require)
    # With oneDNN an LSTM would become one call of its, which no GPU has.
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
        hook.remove()


@contextmanager
def as_recurrences() -> Iterator[None]:
    """The same, but layers become one operation where a template can have them."""
    with few_steps(_has_a_template), _Recurrences():
        yield


def _require_few(
    part: nn.RNNBase, sequence: Any, many: Callable[[nn.RNNBase, torch.dtype], bool] | None
) -> None:
    if isinstance(sequence, nn.utils.rnn.PackedSequence):
        raise PolicyCannot(
            "this module", f"torch's {part.mode} is given a packed sequence", _WITHOUT
        )
    if many is not None and many(part, sequence.dtype):
        return
    axis = 1 if part.batch_first and sequence.dim() == 3 else 0
    length = int(sequence.shape[axis])
    steps = length * part.num_layers * (2 if part.bidirectional else 1)
    if steps > MOST_STEPS:
        kind = "RNN" if part.mode.startswith("RNN") else part.mode
        raise PolicyCannot(
            "this module",
            f"torch's {kind} is one library call (cuDNN's on a GPU), and its {steps} steps, a product and a kernel for each, "
            f"are more than the {MOST_STEPS} that are written out",
            _WITHOUT,
        )


def _has_a_template(part: nn.RNNBase, dtype: torch.dtype) -> bool:
    drops = part.training and part.dropout > 0 and part.num_layers > 1
    return not part.proj_size and not drops and dtype in _FLOATS


class _Recurrences(TorchFunctionMode):
    """Layers as products and `kernelagent::recurrence`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in GATES and Layers.are_in(name, args):
            return Layers.of(name, args).answer()
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Layers:
    """One call of `torch.lstm` and its like on a padded batch."""

    name: str
    x: torch.Tensor
    hidden: torch.Tensor
    cell: torch.Tensor | None
    weights: tuple[tuple[torch.Tensor, ...], ...]
    """By layer and direction: for the input and for the state, then the biases where there are any."""
    directions: int
    batch_first: bool

    @classmethod
    def of(cls, name: str, args: tuple[Any, ...]) -> Layers:
        """Read the positional arguments."""
        x, state, weights, has_biases, _, _, _, both, batch_first = args
        hidden, cell = state if isinstance(state, tuple | list) else (state, None)
        each = 4 if has_biases else 2
        rows = tuple(tuple(weights[at : at + each]) for at in range(0, len(weights), each))
        return cls(name, x, hidden, cell, rows, 2 if both else 1, batch_first)

    @classmethod
    def are_in(cls, name: str, args: tuple[Any, ...]) -> bool:
        """Whether it is a padded batch of what the template has: nothing dropped, no projected states."""
        if not understood(args):
            return False
        x, state, weights, _, layers, dropout, training, *_ = args
        hidden = state[0] if isinstance(state, tuple | list) else state
        drops = training and dropout > 0 and layers > 1
        whole = hidden.shape[-1] * GATES[name] == weights[0].shape[0]
        return bool(whole) and not drops and x.dtype in _FLOATS

    def answer(self) -> tuple[torch.Tensor, ...]:
        """The outputs of the last layer, the last states, and the last cells."""
        out, *last = self._stacked() if self.directions == 1 else self._both_ways()
        out = out.transpose(0, 1) if self.batch_first else out
        return (out, *(states.contiguous() for states in last))

    def _stacked(self) -> list[torch.Tensor]:
        first, *later = self.weights
        gates = self._gates(self.x, first, self.batch_first)
        states = self._steps((gates, None), 0, self.weights, later)
        steps = gates.shape[0]
        return [states[-1].narrow(0, 1, steps), *self._ends(states, steps)]

    def _both_ways(self) -> list[torch.Tensor]:
        x, batch_first = self.x, self.batch_first
        ends: list[list[torch.Tensor]] = []
        for at in range(0, len(self.weights), 2):
            pair = self.weights[at : at + 2]
            gates, back = (self._gates(x, weights, batch_first) for weights in pair)
            states = self._steps((gates, back), at, pair, ())
            steps = gates.shape[0]
            there, from_end = (states[chain].narrow(0, 1, steps) for chain in (0, 1))
            x, batch_first = torch.cat([there, from_end.flip(0)], -1), False
            ends.append(self._ends(states, steps))
        return [x, *map(torch.cat, zip(*ends, strict=True))]

    def _ends(self, states: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """After the last step: the states, and the cells."""
        slots = [steps] if self.cell is None else [steps, steps + 1]
        return [states.select(1, slot) for slot in slots]

    def _gates(
        self, x: torch.Tensor, weights: tuple[torch.Tensor, ...], batch_first: bool
    ) -> torch.Tensor:
        """The inputs' part of the gates, (steps, rows, gates x units)."""
        gates = functional.linear(x, weights[0], weights[2] if len(weights) == 4 else None)
        return gates.transpose(0, 1) if batch_first else gates

    def _steps(
        self,
        gates: tuple[torch.Tensor, torch.Tensor | None],
        first: int,
        rows: Sequence[tuple[torch.Tensor, ...]],
        later: Sequence[tuple[torch.Tensor, ...]],
    ) -> torch.Tensor:
        biases = len(rows[0]) == 4
        states: torch.Tensor = torch.ops.kernelagent.recurrence.default(
            *gates,
            self.hidden,
            self.cell,
            [row[1] for row in rows],
            [row[3] for row in rows] if biases else [],
            [row[0] for row in later],
            [row[2] for row in later] if biases else [],
            first,
            self.name,
        )
        return states
