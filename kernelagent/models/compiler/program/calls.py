"""Input sets that were captured, and which of them answers a call of the candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernelagent.models.compiler.capturing.capture import Captured
from kernelagent.models.compiler.capturing.capture_step import Pair
from kernelagent.models.compiler.kernels.naming import identifier
from kernelagent.models.compiler.module.constructor import arguments, passed, written_parameters
from kernelagent.models.compiler.module.host import local


@dataclass(frozen=True)
class Call:
    """One captured input set."""

    name: str
    captured: Captured | Mapping[bool, Pair]
    """By the module's flag for training, where it is to be trained."""

    @property
    def forward(self) -> Captured:
        """A program of the module's own tensors."""
        if isinstance(self.captured, Captured):
            return self.captured
        return by_module(self.captured[False])


def by_module(pair: Pair) -> Captured:
    """The forward of a pair, its tensors by the names that the module has for them."""
    made = (value for value in pair.forward.values if value.kind == "constant")
    return replace(pair.forward, values=(*made, *pair.values))


def variables_of(call: Call) -> set[str]:
    """What the methods and functions of a call name their tensors."""
    programs = [call.forward]
    if not isinstance(call.captured, Captured):
        pairs = call.captured.values()
        programs += [half for pair in pairs for half in (pair.forward, pair.backward)]
    return {
        name
        for captured in programs
        for name in (*(local(value.name) for value in captured.values), *captured.names)
    }


def dispatch(module: torch.nn.Module, calls: Sequence[Call]) -> str:
    """A forward that hands each call on to the method for its shapes."""
    names = arguments(module)
    lines = [f"def forward(self, {written_parameters(names)}):"]
    given = [(call, _same_shapes(call.forward)) for call in calls]
    others = [(call, _same_but_open(call.forward)) for call in calls if call.forward.grows]
    tried: list[list[str]] = []
    for call, tests in (*given, *others):
        if tests in tried:
            continue
        tried.append(tests)
        lines += [
            f"    if {' and '.join(tests)}:",
            f"        return self._{identifier(call.name)}({passed(names)})",
        ]
    lines.append('    raise ValueError("these shapes were not compiled for")')
    return "\n".join(lines)


def _same_shapes(captured: Captured) -> list[str]:
    """Tests of the arguments' shapes, one each."""
    return [
        f"{value.name}.shape == {tuple(value.tensor.shape)}"
        for value in captured.values
        if value.kind == "input"
    ]


def _same_but_open(captured: Captured) -> list[str]:
    """The same where some sizes are open."""
    return [
        f"{value.name}.dim() == {len(shape)}"
        + "".join(
            f" and {value.name}.shape[{axis}] == {size}"
            for axis, size in enumerate(shape)
            if size.isdigit()
        )
        for value, shape in zip(captured.values, captured.sizes.shapes, strict=True)
        if value.kind == "input"
    ]
