"""What `benchmarks.opinfo` judges: PyTorch's own samples of its operations and of its modules.

Each comes as a reference, a sample of its arguments, and a candidate that computes the same: as it is,
or, for 16-bit types, as kernels do, in float32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernelagent.tools.calls.torch_dtypes import HALVES
from kernelagent.tools.judge.problem.load import Arguments

_LARGEST = 1 << 16
REFUSED = (RuntimeError, ValueError, TypeError, NotImplementedError)
"""What torch raises for a sample that is no problem."""


@dataclass(frozen=True)
class Form:
    """In which form each is judged."""

    dtype: torch.dtype = torch.float32
    train: bool = False
    modules: bool = False
    """Modules of `torch.nn` in the place of operations."""

    @property
    def name(self) -> str:
        """`float32`, `bfloat16, --train`, …."""
        flags = {"--train": self.train, "--modules": self.modules}
        given = [flag for flag, there in flags.items() if there]
        return ", ".join([str(self.dtype).removeprefix("torch."), *given])


@dataclass(frozen=True)
class Subject:
    """One operation or module."""

    name: str
    build: Callable[[], torch.nn.Module]
    """Makes the reference."""
    sample: Arguments | None
    """None: there is none with a floating tensor of moderate size."""
    candidate: Callable[[Any], torch.nn.Module]
    """Makes the candidate, of a result of the reference for its types."""


def subjects(form: Form) -> Iterator[Subject | tuple[str, str]]:
    """All of them in torch's order; in a subject's place its name and why torch makes no sample of it."""
    yield from _modules(form) if form.modules else _operations(form)


def _operations(form: Form) -> Iterator[Subject | tuple[str, str]]:
    from torch.testing._internal.common_methods_invocations import op_db

    seen: set[str] = set()
    for op in op_db:
        untrained = form.train and not op.supports_autograd
        if op.name in seen or untrained or not op.supports_dtype(form.dtype, "cpu"):
            continue
        seen.add(op.name)
        samples = op.sample_inputs("cpu", form.dtype, requires_grad=False)
        calls = (((s.input, *s.args), dict(s.kwargs)) for s in samples)
        try:
            sample = next((call for call in calls if _moderate(call)), None)
        except REFUSED as error:
            yield op.name, line_of(error)
            continue
        yield Subject(
            op.name,
            lambda op=op: _Operation(op.op),
            sample,
            lambda like, op=op: _Rounded(op.op, like),
        )


def _modules(form: Form) -> Iterator[Subject | tuple[str, str]]:
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        if torch.float32 not in info.dtypes or info.is_lazy:
            continue
        try:
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=form.train
            )
            made = next((i for i in inputs if i.forward_input and _moderate(_call_of(i))), None)
        except REFUSED as error:
            yield info.name, line_of(error)
            continue
        if made is None:
            yield Subject(info.name, torch.nn.Identity, None, lambda _: torch.nn.Identity())
            continue

        def build(info: Any = info, given: Any = made.constructor_input) -> torch.nn.Module:
            module: torch.nn.Module = info.module_cls(*given.args, **given.kwargs)
            return module.to(form.dtype)

        candidate = _raised_module if form.dtype in HALVES else _as_it_is
        yield Subject(
            info.name,
            build,
            tree_map(lambda v: _to(v, form.dtype), _call_of(made)),
            lambda like, make=candidate, build=build: make(build, like),
        )


def _to(value: Any, dtype: torch.dtype) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value


def _call_of(made: Any) -> Arguments:
    return tuple(made.forward_input.args), dict(made.forward_input.kwargs)


def _moderate(call: Arguments) -> bool:
    tensors = [v for v in tree_leaves(call) if isinstance(v, torch.Tensor)]
    return any(t.is_floating_point() and 1 < t.numel() < _LARGEST for t in tensors)


class _Operation(torch.nn.Module):
    def __init__(self, op: Callable[..., Any]) -> None:
        super().__init__()
        self.op = op

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)


class _Rounded(_Operation):
    """16-bit inputs are raised to float32, results rounded to what the reference returns."""

    def __init__(self, op: Callable[..., Any], like: Any) -> None:
        super().__init__(op)
        self.like = _types(like)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raised, named = tree_map(_raised, (args, kwargs))
        return _rounded(self.op(*raised, **named), self.like)


def _as_it_is(build: Callable[[], torch.nn.Module], like: Any) -> torch.nn.Module:
    del like
    return build()


def _raised_module(build: Callable[[], torch.nn.Module], like: Any) -> torch.nn.Module:
    """A module with the reference's weights, computing with them in float32."""
    module, inner, types = build(), build(), _types(like)

    def forward(*args: Any, **kwargs: Any) -> Any:
        inner.train(module.training)
        state: Mapping[str, torch.Tensor] = {
            name: _raised(tensor)
            for name, tensor in (*module.named_parameters(), *module.named_buffers())
        }
        raised, named = tree_map(_raised, (args, kwargs))
        return _rounded(torch.func.functional_call(inner, dict(state), raised, named), types)

    # On the instance, so that its weights keep their names.
    module.forward = forward
    return module


def _types(like: Any) -> list[torch.dtype | None]:
    leaves = tree_leaves(like)
    return [leaf.dtype if isinstance(leaf, torch.Tensor) else None for leaf in leaves]


def _raised(value: Any) -> Any:
    halved = isinstance(value, torch.Tensor) and value.dtype in HALVES
    return value.float() if halved else value


def _rounded(result: Any, types: list[torch.dtype | None]) -> Any:
    leaves, form = tree_flatten(result)
    if len(leaves) != len(types):
        return result
    pairs = zip(leaves, types, strict=True)
    return tree_unflatten([_rounded_leaf(leaf, dtype) for leaf, dtype in pairs], form)


def _rounded_leaf(value: Any, dtype: torch.dtype | None) -> Any:
    single = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.to(dtype) if single and dtype in HALVES else value


def line_of(error: BaseException) -> str:
    """Its last line."""
    lines = str(error).strip().splitlines()
    return (lines[-1] if lines else type(error).__name__)[:160]
