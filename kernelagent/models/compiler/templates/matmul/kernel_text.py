"""The text around a product's tiles: a kernel's definition, and what addresses are computed with."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.kernels.layout import folded


@dataclass(frozen=True)
class Stride:
    """An operand's strides as factors in the kernel: None for 0, an empty text for 1."""

    batch: str | None
    rows: str | None
    cols: str | None
    parameters: Mapping[str, str]
    """Those that are parameters of the kernel, with what the host passes."""

    @classmethod
    def of(cls, name: str, texts: Sequence[str], known: Mapping[str, Mapping[str, str]]) -> Stride:
        """`texts`: the host's for batch, rows and columns; `known`: the kernel's words by axis and text."""
        factors: list[str | None] = []
        parameters: dict[str, str] = {}
        for axis, text in zip(("batch", "row", "col"), texts, strict=True):
            if text in ("0", "1"):
                factors.append(None if text == "0" else "")
            elif text in known.get(axis, {}):
                factors.append(known[axis][text])
            else:
                parameters[f"{name}_{axis}_stride"] = text
                factors.append(f"{name}_{axis}_stride")
        batch, rows, cols = factors
        return cls(batch, rows, cols, parameters)


def function_of(
    name: str, parameters: Sequence[str], constants: Sequence[str], body: Sequence[str]
) -> str:
    given = ", ".join([*parameters, *(f"{constant}: tl.constexpr" for constant in constants)])
    head = ["@triton.jit", folded(f"def {name}({given}):")]
    return "\n".join([*head, textwrap.indent(folded("\n".join(body)), "    ")])


def times(index: str, stride: str | None) -> str:
    return f"{index} * {stride}" if stride else index
