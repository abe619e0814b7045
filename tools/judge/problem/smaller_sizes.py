"""A problem at smaller sizes: sizes are replaced where its functions ask for them, never in its text.

Inputs come from factories (`torch.rand(batch, n)`), weights from constructor arguments: the sizes in
these calls are replaced, one number by another, wherever they occur. Whether the module accepts that
is tried on meta tensors. A size that is hard-coded in the module does not
change with the others; then its forward refuses, and that size stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem

Scope = Callable[[], AbstractContextManager[Any]]
_FACTORIES = frozenset(
    "rand randn randint empty zeros ones full normal arange linspace randperm eye tensor".split()
)
_SIZED_BY_FIRST = frozenset({"arange", "linspace", "randperm", "eye", "tensor"})
_MADE_FOR_REAL = 1 << 14
"""Elements of a tensor that is made with its contents where the rest has none: tables, schedules."""


@dataclass(frozen=True)
class Sizes:
    """Which sizes are replaced, and where."""

    leading: tuple[int, int] | None = None
    """The first dimension of what factories make: from, to."""
    only: int | None = None
    """The one factory call, by number, in which the leading dimension changes; None: in all."""
    inner: Mapping[int, int] = field(default_factory=dict)
    """Any dimension of what factories make."""
    arguments: Mapping[int, int] = field(default_factory=dict)
    """Integers among the constructor's arguments."""

    def __bool__(self) -> bool:
        return self.leading is not None or bool(self.inner) or bool(self.arguments)

    def shape(self, shape: Any, call: int) -> Any:
        """The smaller shape of the `call`-th factory."""
        sizes = tuple(self.inner.get(n, n) if isinstance(n, int) else n for n in shape)
        if not sizes or self.leading is None or self.only not in (None, call):
            return sizes
        was, now = self.leading
        return (now, *sizes[1:]) if shape[0] == was else sizes


class SmallerFactories(TorchFunctionMode):
    """Makes torch's factories give what `sizes` says in place of what they are asked for."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self._sizes = sizes
        self.calls = 0
        """Factory calls so far."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name not in _FACTORIES or name in _SIZED_BY_FIRST:
            return func(*args, **named)
        call = self.calls
        self.calls += 1
        if name == "randint":
            args, named = self._labels(args, named)
        if "size" in named:
            named["size"] = self._sizes.shape(named["size"], call)
        elif args and all(isinstance(value, int) for value in args) and name != "full":
            args = self._sizes.shape(args, call) if name != "randint" else args
        else:
            args = tuple(
                self._sizes.shape(value, call) if isinstance(value, list | tuple) else value
                for value in args
            )
        return func(*args, **named)

    def _labels(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Reduce the bounds of `randint` with the constructor arguments, so that indices stay in range."""
        fewer = self._sizes.arguments
        args = tuple(fewer.get(v, v) if isinstance(v, int) else v for v in args)
        if isinstance(named.get("high"), int):
            named["high"] = fewer.get(named["high"], named["high"])
        return args, named


class WithoutLargeContents(TorchFunctionMode):
    """Large tensors are made on the meta device; small ones hold values, which code may read."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if getattr(func, "__name__", "") not in _FACTORIES:
            return func(*args, **named)
        hollow = func(*args, **{**named, "device": "meta"})
        if not isinstance(hollow, torch.Tensor) or hollow.numel() > _MADE_FOR_REAL:
            return hollow
        return func(*args, **named)


def module_without_contents(problem: LoadedProblem, scope: Scope) -> torch.nn.Module | None:
    """The module on the meta device, its weights never made; None where its constructor needs them."""
    for hollow in (WithoutLargeContents, lambda: torch.device("meta")):
        try:
            with scope(), hollow():
                return problem.build().to("meta")
        except ProblemError:
            continue
    return None


def inputs_without_contents(
    problem: LoadedProblem, scope: Scope, sizes: Sizes | None = None
) -> Mapping[str, Arguments] | None:
    """The input sets as meta tensors, without their memory; None where the generator needs values."""
    for hollow in (lambda: torch.device("meta"), WithoutLargeContents):
        try:
            with scope(), hollow(), SmallerFactories(sizes or Sizes()):
                made = problem.input_sets()
        except ProblemError:
            continue
        return {name: on_meta(arguments) for name, arguments in made.items()}
    return None


def with_sizes(problem: LoadedProblem, sizes: Sizes) -> LoadedProblem:
    """The problem with its inner sizes and its constructor's arguments replaced."""
    construct = problem.construct
    if construct is None:
        raise ValueError("a module that is already built has no other sizes")

    def init_args() -> Arguments:
        args, kwargs = problem.init_args()
        return tree_map(lambda v: _renamed(v, sizes.arguments), (args, kwargs))  # type: ignore[no-any-return]

    def input_sets() -> Mapping[str, Arguments]:
        with SmallerFactories(Sizes(inner=sizes.inner, arguments=sizes.arguments)):
            return problem.input_sets()

    return replace(
        problem,
        build=lambda: construct(init_args()),
        init_args=init_args,
        input_sets=input_sets,
    )


def on_meta(value: Any) -> Any:
    """Tensors of the same form that hold nothing, in containers that a forward may write to."""
    return tree_map(lambda v: _hollow(v) if isinstance(v, torch.Tensor) else v, value)


def _hollow(tensor: torch.Tensor) -> torch.Tensor:
    """`to` alone closes gaps and writes out what is expanded."""
    made = tensor.to("meta")
    if made.stride() == tensor.stride():
        return made
    laid_out = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return laid_out.requires_grad_(tensor.requires_grad)


def _renamed(value: Any, sizes: Mapping[int, int]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return sizes.get(value, value)
    return value
