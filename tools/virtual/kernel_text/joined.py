"""What a condition was joined of, so that each operand is a choice of its own where it decides the result.

`rare | harmless` comes out both ways by the harmless one alone. So a value keeps what it was made of, by operators, casts,
`tl.where`, `tl.maximum` and sums, in whatever names and functions; where it is asked, it is computed again with one operand
forced to either side. In the elements where the two differ the operand decides, and what came out there is what was tried
of it (modified condition/decision coverage: every operand decides at least one element each way).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.kernel_text.choices import Choice

Handle = Any
_MADE_OF = "made of"
"""Where a handle keeps what it was made of."""
_ASKED = "asked"
"""What a handle carries whose operands have been looked at."""
_DEEPEST = 100
"""Operations behind one another, after which what came before them is forgotten."""
_LARGE, _LARGE_HALF = 1e30, 3e4
_NOT_BY_ELEMENT = tuple(
    f"create_{name}"
    for name in (
        "load", "store", "masked_", "atomic_", "descriptor_", "tensor_pointer", "make_", "get_", "barrier", "print",
        "assert", "assume", "dot", "histogram", "gather", "split", "cat", "addptr", "advance", "int_to_ptr",
        "ptr_to_int", "inline_asm", "extern_elementwise",
    )
)  # fmt: skip
"""What reads or changes memory, puts several elements into one, or makes addresses."""
_numbers = itertools.count()
Place = tuple[int, str, str]
"""Line, text and where its function was called."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A comparison, or a number that `tl.maximum` or `tl.minimum` may take."""

    line: int
    text: str
    called: str
    number: int = field(default_factory=lambda: next(_numbers))
    depth: int = 0

    @property
    def operands(self) -> Mapping[Place, Operand]:
        return {(self.line, self.text, self.called): self}


@dataclass(frozen=True, eq=False)
class _Join:
    method: Callable[..., Handle]
    """Of the builder's class: what is around it there, as what counts, is left out."""
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    operands: Mapping[Place, Operand]
    """Of several from one place in the text, as in a loop, the last."""
    depth: int


def following_joins(builder: Any) -> Any:
    """A class of builders whose operations, element by element, pass on what conditions they joined."""
    for name in dir(builder):
        if name.startswith("create_") and not name.startswith(_NOT_BY_ELEMENT):
            method = getattr(builder, name)
            if not hasattr(method, "follows_joins"):
                setattr(builder, name, _following(method, selects=name == "create_select"))
    return builder


def _following(method: Callable[..., Any], *, selects: bool) -> Callable[..., Any]:
    @wraps(method)
    def followed(self: Any, *args: Any, **named: Any) -> Any:
        made = method(self, *args, **named)
        if self.choices is not None:
            _keep(method, args, named, made, selects=selects)
        return made

    followed.follows_joins = True  # type: ignore[attr-defined]
    return followed


def follow(
    builder: Any, made: Handle, given: tuple[Handle, ...], again: Callable[..., Handle]
) -> None:
    """`made` is what `again` makes of those given, element by element, by no operation of the builder's."""
    made.attr.pop(_MADE_OF, None)
    if builder.choices is not None:
        _keep(lambda _, *handles: again(*handles), given, {}, made, selects=False)


def _keep(
    method: Callable[..., Any],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    made: Any,
    *,
    selects: bool,
) -> None:
    given = [item for item in args if isinstance(item, stock.TensorHandle)]
    if not any(_MADE_OF in item.attr for item in given) or any(made is item for item in given):
        return
    if not all(_MADE_OF in item.attr or _joins(item.data) for item in given):
        # Arithmetic on data: which of two numbers is taken is looked at where it is taken.
        return
    if selects and not all(_joins(item.data) for item in given[1:]):
        given = given[1:]
    operands: dict[Place, Operand] = {}
    depth = 0
    for item in given:
        how = item.attr.get(_MADE_OF)
        if how is not None:
            depth = max(depth, how.depth + 1)
            for key, single in how.operands.items():
                if key not in operands or operands[key].number < single.number:
                    operands[key] = single
    if operands and depth <= _DEEPEST:
        made.attr[_MADE_OF] = _Join(method, args, named, operands, depth)
        if len(given) == 1 and _ASKED in given[0].attr:
            # The same in another shape, or its opposite.
            made.attr[_ASKED] = True


def _joins(data: Array) -> bool:
    """Whether it is a truth, or one number everywhere, as the ones and zeros are that truths are made."""
    if data.dtype == np.bool_ or data.size <= 1:
        return True
    first = data.flat[0]
    return bool((data.flat[:16] == first).all()) and bool((data == first).all())


def begin(builder: Any, handle: Handle, line: int, text: str) -> None:
    """This comparison of data is what others are joined of."""
    known = builder.choices is None or _MADE_OF in handle.attr
    if not known and handle.data.dtype == np.bool_:
        handle.attr[_MADE_OF] = Operand(line, text, builder.choices.called)


def taken(builder: Any, handle: Handle, line: int, text: str) -> Handle:
    """The same number, which `tl.maximum` or the like may take or leave: then it decides what is asked of the result."""
    kind = handle.dtype.scalar
    plain = kind.is_floating() or kind.is_int()
    native = not numerics.is_convertible(kind) or handle.data.dtype.kind == "f"
    if builder.choices is None or not plain or not native or handle.data.dtype.kind not in "fiu":
        return handle
    if _MADE_OF in handle.attr or _joins(handle.data):
        return handle
    copied = stock.TensorHandle(handle.data, handle.dtype)
    copied.attr.update(handle.attr)
    copied.attr[_MADE_OF] = Operand(line, text, builder.choices.called)
    return copied


def look(builder: Any, line: int, text: str, handle: Handle) -> None:
    """Note which operands decide a condition, and which way it came out where they do."""
    how = handle.attr.get(_MADE_OF)
    if builder.choices is None or not isinstance(how, _Join) or _ASKED in handle.attr:
        return
    handle.attr[_ASKED] = True
    result = handle.data != 0
    for operand in how.operands.values():
        shown = f"{operand.text} ({operand.called})" if operand.called else operand.text
        choice = Choice(line, text, True, operand=shown)
        if builder.choices.came_out_both_ways(choice):
            continue
        with _unheard(builder):
            high, low = (_forced(builder, handle, operand, upwards=up) != 0 for up in (True, False))
        decides, own = np.broadcast_arrays(high != low, result)
        decides, own = builder.running(decides), builder.running(own)
        builder.choices.note(
            choice, holds=bool((decides & own).any()), fails=bool((decides & ~own).any())
        )


def _forced(builder: Any, handle: Handle, operand: Operand, *, upwards: bool) -> Array:
    """What a handle would hold, were the operand true or very large, or else false or very small, in all elements."""
    known: dict[int, Handle] = {}

    def again(single: Any) -> Any:
        how = single.attr.get(_MADE_OF) if isinstance(single, stock.TensorHandle) else None
        if how is operand:
            return stock.TensorHandle(_extreme(single.data, upwards=upwards), single.dtype)
        if not isinstance(how, _Join) or operand not in how.operands.values():
            return single
        if id(single) not in known:
            known[id(single)] = how.method(builder, *map(again, how.args), **how.named)
        return known[id(single)]

    data: Array = again(handle).data
    return data


def _extreme(data: Array, *, upwards: bool) -> Array:
    if data.dtype == np.bool_:
        return np.full_like(data, upwards)
    if data.dtype.kind == "f":
        size = _LARGE if data.dtype.itemsize > 2 else _LARGE_HALF
        return np.full_like(data, size if upwards else -size)
    limits = np.iinfo(data.dtype)
    return np.full_like(data, limits.max // 4 if upwards else limits.min // 4)


@contextlib.contextmanager
def _unheard(builder: Any) -> Iterator[None]:
    """What is computed inside is none of the kernel's work."""
    kept = (
        builder.choices, builder.count, builder.approximates, builder.foreign_nans, builder.flow.on,
    )  # fmt: skip
    builder.choices = builder.count = builder.approximates = None
    builder.flow.on = False
    try:
        yield
    finally:
        (
            builder.choices, builder.count, builder.approximates, builder.foreign_nans, builder.flow.on,
        ) = kept  # fmt: skip
