"""`int` and `float` in a forward whose sizes are variables: a share of one stays a variable instead of becoming a number.

`int(windows.shape[0] / (H * W / size / size))` is how batches are counted where pictures are cut into windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from sympy import Expr  # type: ignore[import-untyped]
from torch.nn import functional
from torch.utils._sympy.functions import FloatTrueDiv, IntTrueDiv, ToFloat


def _stand_in(kind: type, made: Callable[[Any], Any]) -> type:
    """A class that is `kind` to whoever asks, and makes of one value what `made` does."""

    class Kind(type):
        def __call__(cls, *given: Any, **named: Any) -> Any:
            return made(given[0]) if len(given) == 1 and not named else kind(*given, **named)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

        def __eq__(cls, other: object) -> bool:
            return other is kind or other is cls

        def __hash__(cls) -> int:
            return hash(kind)

    return Kind(kind.__name__, (kind,), {})


@contextmanager
def shares_as_variables(module: torch.nn.Module) -> Iterator[None]:
    """While it is entered, `int` and `float` keep variables in the files of the module's own classes.

    `float` also where torch scales the queries of an attention that returns its weights.
    """
    every = [getattr(type(part).forward, "__globals__", {}) for part in module.modules()]
    own = {id(names): names for names in every if not _of_torch(names)}
    changed = [(names, name) for names in own.values() for name in ("int", "float")]
    changed = [
        (names, name)
        for names, name in (*changed, (vars(functional), "float"))
        if name not in names
    ]
    for names, name in changed:
        names[name] = _INSTEAD[name]
    try:
        yield
    finally:
        for names, name in changed:
            del names[name]


def _of_torch(names: dict[str, Any]) -> bool:
    return str(names.get("__name__", "")).split(".")[0] == "torch"


def whole(value: Any) -> Any:
    """`int(value)`, a variable where the value is one."""
    if isinstance(value, torch.SymInt):
        return value
    if not isinstance(value, torch.SymFloat):
        return int(value)
    share = _share(value.node.expr)
    if share is None:
        return math.trunc(value)
    size, divisor = share
    env = value.node.shape_env
    hint = int(size.xreplace(env.backed_var_to_val))
    return env.create_symintnode(size, hint=hint) // divisor


def _share(expr: Expr) -> tuple[Expr, int] | None:
    """A whole number and by what it is divided, where that is what it is: truncated, both are the same in floats."""
    if isinstance(expr, ToFloat):
        return expr.args[0], 1
    if not isinstance(expr, FloatTrueDiv | IntTrueDiv):
        return None
    above, below = expr.args
    if not below.is_number or not float(below).is_integer() or below < 1:
        return None
    if isinstance(above, ToFloat):
        above = above.args[0]
    return (above, int(below)) if above.is_integer else None


def _real(value: Any) -> Any:
    """`float(value)`, a variable where the value is one."""
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return torch.sym_float(value)  # type: ignore[no-untyped-call]
    return float(value)


_INSTEAD: Mapping[str, type] = {"int": _stand_in(int, whole), "float": _stand_in(float, _real)}
