"""Recurrent layers as the one library call that they are on CUDA; on meta torch unrolls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NAMES = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Gates of a unit, by torch's name of the function."""


def understood(args: tuple[Any, ...]) -> bool:
    """True for a call on a padded batch; calls on a packed sequence are not handled here."""
    return len(args) == 9 and isinstance(args[3], bool)


@dataclass(frozen=True)
class Layers:
    """One call: its sizes, and what it returns."""

    name: str
    x: torch.Tensor
    hidden: torch.Tensor
    cell: torch.Tensor | None
    hidden_size: int
    layers: int
    directions: int
    batch_first: bool
    projected: int
    """Size of the hidden state where it is projected, else 0."""
    dropped: bool
    """Whether what one layer hands to the next is dropped in part."""

    @classmethod
    def of(cls, name: str, args: tuple[Any, ...]) -> Layers:
        """Read the positional arguments of `torch.lstm`, `torch.gru`, `torch.rnn_tanh`."""
        x, state, weights, _, layers, dropout, training, bidirectional, batch_first = args
        hidden = state[0] if isinstance(state, list | tuple) else state
        size = int(weights[0].shape[0]) // GATES[name]
        projected = int(hidden.shape[-1]) if int(hidden.shape[-1]) != size else 0
        return cls(
            name,
            x,
            hidden,
            state[1] if isinstance(state, list | tuple) else None,
            size,
            int(layers),
            2 if bidirectional else 1,
            bool(batch_first),
            projected,
            bool(training) and dropout > 0 and layers > 1,
        )

    @property
    def steps(self) -> int:
        return int(self.x.shape[1 if self.batch_first and self.x.dim() == 3 else 0])

    @property
    def batch(self) -> int:
        return int(self.x.shape[0 if self.batch_first else 1]) if self.x.dim() == 3 else 1

    @property
    def flops(self) -> int:
        """Of the products with inputs and with hidden states."""
        gates, each = GATES[self.name], self.steps * self.batch * self.directions
        output = self.projected or self.hidden_size
        total = 0
        for layer in range(self.layers):
            given = int(self.x.shape[-1]) if layer == 0 else output * self.directions
            total += 2 * each * gates * self.hidden_size * (given + output)
        return total

    @property
    def special_functions(self) -> int:
        each = self.steps * self.batch * self.directions * self.layers
        return each * self.hidden_size * (GATES[self.name] + (self.name == "lstm"))

    @property
    def facts(self) -> dict[str, float]:
        return {
            "steps": self.steps,
            "batch": self.batch,
            "hidden": self.hidden_size,
            "layers": self.layers,
            "directions": self.directions,
            "gates": GATES[self.name],
        }

    def results(self) -> tuple[torch.Tensor, ...]:
        """Tensors of the right shapes that hold nothing."""
        width = (self.projected or self.hidden_size) * self.directions
        out = self.x.new_empty((*self.x.shape[:-1], width))
        last = torch.empty_like(self.hidden)
        if self.cell is None:
            return out, last
        return out, last, torch.empty_like(self.cell)


class AtOnce(TorchFunctionMode):
    """Answers a recurrent layer on meta tensors with its results' shapes, in one step instead of one per token.

    Unrolled, an LSTM over 512 tokens is 46,000 operations and ten seconds, to learn three shapes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        """Of the layers answered so."""
        self.steps = 0
        """The same: of all layers and directions, one after another."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in NAMES and understood(args) and args[0].device.type == "meta":
            layers = Layers.of(name, args)
            self.flops += layers.flops
            self.steps += layers.steps * layers.layers * layers.directions
            return layers.results()
        return func(*args, **(kwargs or {}))
