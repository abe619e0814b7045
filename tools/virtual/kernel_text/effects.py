"""What rewritten kernels ask for operations that may leave an operand as it is: whether they did, in all elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import triton.language as tl

from kernelagent.tools.virtual.arithmetic import numerics
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.kernel_text import joined
from kernelagent.tools.virtual.kernel_text.choices import FALSE, Choice

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}
_ZERO_STAYS = frozenset({"Mult", "Div", "FloorDiv", "LShift", "RShift"})
"""Whatever a zero is combined with by these: that it stays tells nothing of the other operand."""
_BEGUN = "begun"
"""What a handle carries that no data have reached yet."""
_THIRD = 2
_OPERANDS = ("x", "y", "min", "max")
Operand = tuple[str, float | None, bool]
"""Its text, its number where it is one in the text, and whether it may be a size."""


class Effects:
    """Notes what the operations of the programs that run leave as it is."""

    semantic: Any

    def begun(self, value: Any) -> Any:
        """What a variable holds before the loop that adds to it: that it changes nothing is known."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = self.semantic.to_tensor(value)
        if isinstance(value, tl.tensor):
            value.handle.attr[_BEGUN] = True
        return value

    def combined(
        self, line: int, text: str, kind: str, first: str, second: str, left: Any, right: Any
    ) -> Any:
        """`left + right` or the like; `first`, `second`: the operands that may stay as they are, by their texts."""
        result = _OPERATIONS[kind](left, right)
        if self.semantic.builder.choices is None or not isinstance(result, tl.tensor):
            return result
        if kind == "Mult" and any(map(_is_begun_with_zeros, (left, right))):
            result.handle.attr[_BEGUN] = True
        for named, kept, other in ((first, left, right), (second, right, left)):
            if named and not _is_begun(other):
                choice = Choice(line, text, True, named)
                self._note(choice, result, kept, zero_stays=kind in _ZERO_STAYS)
        return result

    def selected(
        self,
        line: int,
        text: str,
        first: str,
        second: str,
        function: Callable[..., Any],
        *args: Any,
        **named: Any,
    ) -> Any:
        """`tl.where`: where the elements that it chooses are those that it leaves out, it does not matter."""
        result = function(*args, **named)
        builder = self.semantic.builder
        if builder.choices is None or not isinstance(result, tl.tensor):
            return result
        parts = [*args, *(named[name] for name in ("condition", "x", "y") if name in named)]
        for place, equals in ((1, second), (2, first)):
            choice = Choice(line, text, True, equals)
            if not self._differed(choice):
                chosen = self._values(parts[0], result) != 0
                where = chosen if place == 1 else ~chosen
                self._note(choice, result, parts[3 - place], where=where)
        return result

    def bounded(
        self,
        line: int,
        text: str,
        operands: tuple[Operand, ...],
        function: Callable[..., Any],
        *args: Any,
        **named: Any,
    ) -> Any:
        """`tl.maximum` and the like: where it is one operand everywhere, the others were never the larger."""
        texts = iter(operands)
        args = tuple(self._taken(line, next(texts)[0], value) for value in args)
        for name in (name for name in _OPERANDS if name in named):
            named[name] = self._taken(line, next(texts)[0], named[name])
        result = function(*args, **named)
        if self.semantic.builder.choices is None or not isinstance(result, tl.tensor):
            return result
        values = [*args, *(named[name] for name in _OPERANDS if name in named)]
        for place, (equals, _, _) in enumerate(operands):
            others = [i for i in range(len(operands)) if i != place]
            if not all(_is_known(operands[i], values[i], result) for i in others):
                numbers = [operands[i][1] for i in others if operands[i][1] != 0]
                number = None if None in numbers else numbers[0]
                self._note(Choice(line, text, True, equals, number), result, values[place])
        return result

    def added(
        self,
        line: int,
        text: str,
        equals: str,
        keyword: str,
        function: Callable[..., Any],
        *args: Any,
        **named: Any,
    ) -> Any:
        """`tl.dot` and `tl.fma` with something that they add to."""
        result = function(*args, **named)
        if self.semantic.builder.choices is not None and isinstance(result, tl.tensor):
            kept = named[keyword] if keyword in named else args[_THIRD]
            if isinstance(kept, tl.tensor):
                self._note(Choice(line, text, True, equals), result, kept)
        return result

    def called(
        self,
        line: int,
        text: str,
        kept: tuple[str, ...],
        function: Callable[..., Any],
        *args: Any,
        **named: Any,
    ) -> Any:
        """Any function of several numbers; `kept`: the texts of the operands that may stay as they are, else empty."""
        result = function(*args, **named)
        if self.semantic.builder.choices is None or not isinstance(result, tl.tensor):
            return result
        kind = result.dtype
        if not (kind.is_floating() or kind.is_int()) or kind.is_bool():
            return result
        values = [*args, *named.values()]
        for at, (equals, value) in enumerate(zip(kept, values, strict=True)):
            others = [other for place, other in enumerate(values) if place != at]
            begun = any(map(_is_begun, others))
            if equals and not begun and _is_operand_of(value, result):
                self._note(Choice(line, text, True, equals), result, value, zero_stays=True)
        return result

    def exchanged(
        self, line: int, text: str, function: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        """`tl.atomic_cas`: told where no element ever held what it is compared with."""
        result = function(*args, **named)
        builder = self.semantic.builder
        if builder.choices is not None and isinstance(result, tl.tensor):
            wanted = named["cmp"] if "cmp" in named else args[1]
            same = self._values(result, result) == self._values(wanted, result)
            told = Choice(line, text, False)
            builder.choices.note(told, holds=bool(same.any()), fails=bool((~same).any()))
        return result

    def _taken(self, line: int, text: str, value: Any) -> Any:
        """An operand that is the result in some elements, and decides there what is asked of it."""
        if not isinstance(value, tl.tensor):
            return value
        handle = joined.taken(self.semantic.builder, value.handle, line, text)
        return value if handle is value.handle else tl.tensor(handle, value.type)

    def _differed(self, choice: Choice) -> bool:
        return bool(self.semantic.builder.choices.ways(choice) & FALSE)

    def _note(
        self,
        choice: Choice,
        result: Any,
        kept: Any,
        *,
        zero_stays: bool = False,
        where: Array | bool = True,
    ) -> None:
        """Whether an operand is the result, in each element that could show that it is not."""
        if self._differed(choice):
            return
        made = self._values(result, result)
        own = self._values(kept, result)
        tells = where
        if made.dtype.kind == "f":
            tells = tells & np.isfinite(own) & ~np.isnan(made)
        if zero_stays:
            tells = tells & (own != 0)
        same = made == own
        fails = bool((tells & ~same).any())
        if fails or bool((tells & same).any()):
            self.semantic.builder.choices.note(choice, holds=not fails, fails=fails)

    def _values(self, value: Any, result: Any) -> Array:
        """Numbers of the programs that run, with as many axes as the result has."""
        if not isinstance(value, tl.tensor):
            return _rounded(getattr(value, "value", value), result)
        kind, builder = value.dtype.scalar, self.semantic.builder
        data: Array = builder.running(value.handle.data)
        if kind in (tl.bfloat16, *numerics.FP8):
            data = numerics.to_fp32(data, kind)
        missing = builder.running(result.handle.data).ndim - data.ndim
        return data.reshape((data.shape[0], *(1,) * missing, *data.shape[1:]))


def _is_operand_of(value: Any, result: Any) -> bool:
    """Whether it is a number, or as many as the result has, of its kind."""
    value = getattr(value, "value", value) if isinstance(value, tl.constexpr) else value
    if not isinstance(value, tl.tensor):
        return isinstance(value, int | float) and not isinstance(value, bool)
    same_kind = value.dtype.is_floating() == result.dtype.is_floating()
    return same_kind and not value.dtype.is_ptr() and value.shape in ([], (), result.shape)


def _is_begun(value: Any) -> bool:
    return isinstance(value, tl.tensor) and _BEGUN in value.handle.attr


def _is_begun_with_zeros(value: Any) -> bool:
    return _is_begun(value) and not value.handle.data.any()


def _is_known(operand: Operand, value: Any, result: Any) -> bool:
    """Whether nobody asks what would be if the operand had been the result: a zero, the end of an index, a start."""
    _, number, may_be_size = operand
    return number == 0 or (may_be_size and result.dtype.is_int()) or _is_begun(value)


def _rounded(value: Any, result: Any) -> Array:
    """A number of Python's as the operation takes it."""
    kind = result.dtype.scalar
    if kind in (tl.bfloat16, *numerics.FP8):
        held = numerics.convert(np.full(1, value, np.float32), tl.float32, kind)
        return numerics.to_fp32(held, kind)
    return np.full(1, value, result.handle.data.dtype if kind.is_floating() else None)
