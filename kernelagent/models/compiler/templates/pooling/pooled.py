"""A step that pools, read: its tensor, its window, and the sizes of its result."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.pooling import POOL
from kernelagent.models.compiler.program.program import Step, called


@dataclass(frozen=True)
class Call:
    """The arguments of one pooling; numbers by pooled axis, the tensor's last ones."""

    out: str
    x: ast.expr
    kind: str
    """`max` or `avg`."""
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    divisor: int


def pool_of(step: Step) -> Call | None:
    """The pooling that a step is; None for any other step."""
    found = called(step, POOL, 7)
    if found is None:
        return None
    out, arguments = found
    x, *others = arguments
    kind, window, stride, padding, dilation, divisor = map(ast.literal_eval, others)
    return Call(
        out, x, kind, tuple(window), tuple(stride), tuple(padding), tuple(dilation), divisor
    )


def result_shape(call: Call, x: Sequence[ast.expr]) -> tuple[ast.expr, ...]:
    """The shape of the result."""
    first = len(x) - len(call.window)
    return (*x[:first], *(_size(call, axis, size) for axis, size in enumerate(x[first:])))


def _size(call: Call, axis: int, size: ast.expr) -> ast.expr:
    reach = call.dilation[axis] * (call.window[axis] - 1)
    step = call.stride[axis]
    lost = 2 * call.padding[axis] - reach - 1
    if isinstance(size, ast.Constant) and isinstance(size.value, int):
        return ast.Constant((size.value + lost) // step + 1)
    text = ast.unparse(size)
    if step == 1:
        return _plus(text, lost + 1)
    return ast.parse(f"({ast.unparse(_plus(text, lost))}) // {step} + 1", mode="eval").body


def _plus(text: str, number: int) -> ast.expr:
    sign = "+" if number > 0 else "-"
    shown = text if number == 0 else f"{text} {sign} {abs(number)}"
    return ast.parse(shown, mode="eval").body
