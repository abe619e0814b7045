"""Torch functions that would turn a variable size into a number, in words that leave it one."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental.sym_node import SymNode
from torch.nn import functional
from torch.overrides import TorchFunctionMode

CONVOLUTION = "torch.ops.kernelagent.convolution.default"
"""How Inductor spells a convolution whose sizes it does not fix."""


@torch.library.custom_op(
    "kernelagent::convolution",
    mutates_args=(),
    schema=(
        "(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"
    ),
)
def _convolution(*given: Any) -> Any:
    return torch.convolution(*given).contiguous()


@_convolution.register_fake
def _(*given: Any) -> Any:
    made = torch.ops.aten.convolution.default(*given)
    return made.new_empty(made.shape)


@torch.library.custom_op(
    "kernelagent::convolution_backward",
    mutates_args=(),
    schema=(
        "(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, "
        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[] output_mask) "
        "-> (Tensor, Tensor, Tensor)"
    ),
)
def _gradients(*given: Any) -> Any:
    made = torch.ops.aten.convolution_backward.default(*given)
    return tuple(given[0].new_empty(0) if part is None else part.contiguous() for part in made)


@_gradients.register_fake
def _(*given: Any) -> Any:
    gradient, images, weight, sizes, *_, mask = given
    shapes = (images.shape, weight.shape, sizes or ())
    return tuple(
        gradient.new_empty(shape if wanted else (0,))
        for shape, wanted in zip(shapes, mask, strict=True)
    )


def _opaque(*given: Any) -> Any:
    return _convolution(*given)


def _opaque_gradients(*given: Any) -> Any:
    return tuple(
        part if wanted else None for part, wanted in zip(_gradients(*given), given[-1], strict=True)
    )


def _if_plain(opaque: Callable[..., Any]) -> Callable[..., Any]:
    def replaced(*given: Any) -> Any:
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        plain = all(tensor.is_contiguous() for tensor in tensors)
        return opaque(*given) if plain else NotImplemented

    return replaced


OPAQUE: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.convolution.default: _opaque,
    torch.ops.aten.convolution_backward.default: _opaque_gradients,
}
"""What tracing puts in the place of convolutions: Inductor's own lowering wants numbers."""
AS_THEY_LIE: Mapping[Any, Callable[..., Any]] = {
    operator: _if_plain(opaque) for operator, opaque in OPAQUE.items()
}
"""The same where sizes are numbers. Inductor would have its CPU's channels-last copies around them; those
of the user's tensors that lie so already are left to it."""


def convolution_spelled_out(call: ast.Call) -> ast.expr:
    """The step in a candidate's own words."""
    given = ", ".join(ast.unparse(argument) for argument in call.args)
    name = "ops.aten.convolution_backward" if _is_backward(call) else "convolution"
    return ast.parse(f"torch.{name}({given})", mode="eval").body


def is_convolution(call: ast.Call) -> bool:
    """Whether it is a convolution, or its gradients, whose sizes Inductor does not fix."""
    return ast.unparse(call.func) == CONVOLUTION or _is_backward(call)


def _is_backward(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "torch.ops.kernelagent.convolution_backward.default"


@contextmanager
def plain_strides() -> Iterator[None]:
    """While a graph is traced and compiled, strides are products of sizes.

    torch's own allow for axes without elements, as `max(1, width - 2)`: two spellings of one number, by which
    a kernel's offsets are no longer recognised as those of neighbours in memory.
    """
    largest = SymNode.sym_max

    def size_or_largest(sym_node: SymNode, other: SymNode) -> SymNode:
        if other.maybe_as_int() == 1:
            return sym_node
        return other if sym_node.maybe_as_int() == 1 else largest(sym_node, other)

    SymNode.sym_max = size_or_largest  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        SymNode.sym_max = largest  # type: ignore[method-assign]


class SymbolicFunctions(TorchFunctionMode):
    """Entered while a module is traced with symbols for sizes."""

    def __enter__(self) -> Any:
        self._plain = plain_strides()
        self._plain.__enter__()
        self._root = math.sqrt
        math.sqrt = _root_of(self._root)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        math.sqrt = self._root
        self._plain.__exit__(*raised)
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        instead = _INSTEAD.get(func)
        return func(*args, **named) if instead is None else instead(*args, **named)


def _root_of(root: Callable[[Any], float]) -> Callable[[Any], Any]:
    """`math.sqrt`, which makes a number of a variable: scores of an attention are divided by one."""

    def sqrt(x: Any, /) -> Any:
        return torch._sym_sqrt(x) if isinstance(x, torch.SymInt | torch.SymFloat) else root(x)  # type: ignore[attr-defined]

    return sqrt


def _group_norm(
    input: torch.Tensor,  # noqa: A002 - as torch calls it
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    if not isinstance(num_groups, torch.SymInt):
        return functional.group_norm(input, num_groups, weight, bias, eps)
    rows, channels = input.shape[:2]
    grouped = input.reshape(rows, num_groups, -1)
    variance, mean = torch.var_mean(grouped, dim=2, correction=0, keepdim=True)
    normed = ((grouped - mean) * torch.rsqrt(variance + eps)).reshape(input.shape)
    across = (1, channels, *(1 for _ in input.shape[2:]))
    if weight is not None:
        normed = normed * weight.reshape(across)
    return normed if bias is None else normed + bias.reshape(across)


def _max_pool1d(
    input: torch.Tensor,  # noqa: A002 - as torch calls it
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    if return_indices:
        return functional.max_pool1d(
            input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
        )
    kernel, steps, border, apart = (
        (1, _scalar(size)) for size in (kernel_size, stride or kernel_size, padding, dilation)
    )
    pooled = functional.max_pool2d(
        input.unsqueeze(-2), kernel, steps, (0, border[1]), apart, ceil_mode
    )
    return pooled.squeeze(-2)


def _scalar(size: Any) -> Any:
    return size[0] if isinstance(size, tuple | list) else size


_INSTEAD: Mapping[Any, Callable[..., Any]] = {
    torch.group_norm: _group_norm,
    functional.group_norm: _group_norm,
    functional.max_pool1d: _max_pool1d,
}
