"""Control flow that may diverge between programs: inactive ones are masked while the others continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.elementwise import Handle, make
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.batched.accesses import NotBatchable
from kernelagent.tools.virtual.batched.blocks import BlockPointer, Descriptor
from kernelagent.tools.virtual.batched.builder import BatchedBuilder, together
from kernelagent.tools.virtual.interpreter.loops import Logic, Unset, bounds_of, is_counted
from kernelagent.tools.virtual.kernel_text.joined import follow

_MANY_ROUNDS = 4096
"""A while loop that goes on for longer may wait for what another program does."""


class Control(Logic):
    """What the rewritten kernel asks; the active programs are the memory's."""

    def __init__(self, builder: BatchedBuilder, semantic: Any) -> None:
        super().__init__(semantic)
        self.builder = builder

    def decide(self, test: Any) -> Decision:
        """For an `if`: who takes it."""
        return Decision(self, test)

    def loop(self, line: int, text: str, kind: Any, *arguments: Any, **options: Any) -> Loop:
        """For a `for` over a range; `line`, `text`: of the loop, 0 in Triton's own functions."""
        return Loop(self, (line, text), kind, arguments, options)

    def loop_while(self) -> WhileLoop:
        """For a `while`."""
        return WhileLoop(self)

    def is_split(self, loop: Any) -> bool:
        """Whether programs have left this loop; never over what is no range."""
        return isinstance(loop, Loop) and loop.split

    def choose(self, test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """`body() if test else orelse()`."""
        decision = Decision(self, test)
        if not decision.split:
            value = body() if decision.yes else orelse()
            return self.semantic.to_tensor(value) if isinstance(test, tl.tensor) else value
        decision.take()
        left = self.semantic.to_tensor(body())
        decision.leave()
        right = self.semantic.to_tensor(orelse())
        return decision.join((left,), (right,))[0]

    def require(self, test: Any) -> None:
        """For an `assert`."""
        if isinstance(test, tl.tensor):
            self.builder.create_assert(test.handle, "")
        elif not test:
            raise NotBatchable("an assertion fails")

    def printed(self, *values: Any, **options: Any) -> None:
        raise NotBatchable("programs print one after the other", always=True)

    def unused(self, on: bool) -> None:
        """Whether the result of the statement that follows is dropped."""
        self.builder.memory.result_unused = on

    @property
    def active(self) -> Array:
        memory = self.builder.memory
        return np.ones(memory.programs, bool) if memory.active is None else memory.active

    def select(self, where: Array, new: Any, old: Any) -> Any:
        """`new` for the programs `where`, `old` for the others."""
        if new is old or isinstance(old, Unset):
            return new
        if isinstance(new, Unset):
            return old
        if isinstance(new, tuple | tl.tuple) and isinstance(old, tuple | tl.tuple):
            parts = [self.select(where, a, b) for a, b in zip(new, old, strict=True)]
            return tl.tuple(parts, new.type) if isinstance(new, tl.tuple) else _remade(new, parts)
        known = not isinstance(new, tl.tensor) and not isinstance(old, tl.tensor)
        if known and _equal(_plain(new), _plain(old)):
            return new
        if type(new) is type(old) and hasattr(new, "__aggregate_fields__"):
            return self._fields(where, new, old)
        if new is None or old is None or isinstance(getattr(new, "handle", None), Descriptor):
            raise NotBatchable("the values of diverged programs cannot be merged", always=True)
        new, old = self.semantic.to_tensor(new), self.semantic.to_tensor(old)
        if new.type != old.type:
            raise NotBatchable("programs go on with values of different types", always=True)
        return tl.tensor(self._handle(where, new.handle, old.handle), new.type)

    def _fields(self, where: Array, new: Any, old: Any) -> Any:
        """Of two aggregates; a block pointer is one in Triton 3.8."""
        made = object.__new__(type(new))
        for name in type(new).__aggregate_fields__:
            value = self.select(where, getattr(new, name), getattr(old, name))
            # Outside its constructor an aggregate refuses to be changed.
            object.__setattr__(made, name, value)
        object.__setattr__(made, "_aggregate_init_complete", True)
        return made

    def _handle(self, where: Array, new: Handle, old: Handle) -> Handle:
        if new is old:
            return new
        if isinstance(new, BlockPointer):
            parts = {
                name: [
                    self._handle(where, a, b)
                    for a, b in zip(getattr(new, name), getattr(old, name), strict=True)
                ]
                for name in ("shape", "strides", "offsets")
            }
            return replace(new, base=self._handle(where, new.base, old.base), **parts)
        left, right = together(new.data, old.data)
        keep = where.reshape((-1,) + (1,) * (left.ndim - 1))
        made = make(np.where(keep, left, right), new.dtype)
        self.builder.flow.select(where, new, old, made)
        follow(self.builder, made, (new, old), lambda a, b: self._handle(where, a, b))
        return made


class Decision:
    """An `if`: all programs take one side, or some take each."""

    def __init__(self, control: Control, test: Any) -> None:
        self._memory = control.builder.memory
        self._control = control
        self.split = False
        if not isinstance(test, tl.tensor):
            self.yes = bool(test)
            self.no = not self.yes
            return
        if test.type.is_block():
            raise NotBatchable("a decision on a block", always=True)
        control.builder.flow.waits_for(test.handle)
        holds = test.handle.data != 0
        self._before = self._memory.active
        if holds.shape[0] > 1:
            self._holds = holds
            mine = holds if self._before is None else holds[self._before]
            self.yes, self.no = bool(mine.any()), not bool(mine.all())
            self.split = self.yes and self.no
        else:
            self.yes = bool(holds[0])
            self.no = not self.yes

    def take(self) -> None:
        """Before the `if` side."""
        if self.split:
            before = self._before
            self._memory.active = self._holds if before is None else before & self._holds

    def leave(self) -> None:
        """Before the `else` side."""
        if self.split:
            before = self._before
            self._memory.active = ~self._holds if before is None else before & ~self._holds

    def join(self, taken: tuple[Any, ...], left: tuple[Any, ...]) -> tuple[Any, ...]:
        """All go on together, each with the values of its side."""
        self._memory.active = self._before
        return tuple(
            self._control.select(self._holds, a, b) for a, b in zip(taken, left, strict=True)
        )


class _Rests:
    """Common base of loops: variables of programs that have left the loop keep their values."""

    split = False

    def __init__(self, control: Control) -> None:
        self._control = control
        self._memory = control.builder.memory

    def frozen(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, ...]:
        """Values after one round, of which some programs had no part."""
        where = self._control.active
        return tuple(
            self._control.select(where, new, old) for new, old in zip(after, before, strict=True)
        )


class Loop(_Rests):
    """A `for`; where bounds differ, it goes on until the last program is through."""

    def __init__(
        self, control: Control, place: tuple[int, str], kind: Any, arguments: Any, options: Any
    ) -> None:
        super().__init__(control)
        self._place = place
        self._kind, self._arguments, self._options = kind, arguments, options

    def __iter__(self) -> Iterator[Any]:
        if not is_counted(self._kind):
            indices = self._kind(*self._arguments, **self._options)
            yield from self._control.rounds(*self._place, indices)
            return
        parts, dtype = bounds_of(self._control.semantic, *self._arguments, **self._options)
        held = self._control.bounds_held(self._arguments, self._options)
        self._control.builder.goes_round_by(*held)
        start, stop, step = (np.asarray(item, dtype=np.int64) for item in parts)
        if max(item.size for item in (start, stop, step)) == 1:
            indices = range(int(start[0]), int(stop[0]), int(step[0]))
            for value in self._control.rounds(*self._place, indices):
                self._control.builder.step("round")
                yield self._index(np.array([value]), dtype)
            return
        before = self._memory.active
        everybody = self._control.active
        count = np.where(step > 0, -(-(stop - start) // step), -(-(start - stop) // -step))
        count = np.maximum(np.broadcast_to(count, everybody.shape), 0)
        start, count = self._control.rounds_of_each(*self._place, start, step, count)
        mine = count[everybody]
        for number in range(int(mine.max(initial=0))):
            goes_on = everybody & (count > number)
            self.split = int(mine.min()) <= number
            self._memory.active = goes_on if self.split else before
            self._control.builder.step("round")
            values = np.broadcast_to(start + number * step, everybody.shape)
            yield self._index(values, dtype)
        self._memory.active = before

    def _index(self, value: Array, dtype: Any) -> Any:
        width = stock._get_np_dtype(dtype)
        return tl.tensor(make(value.astype(width), dtype), dtype)


class WhileLoop(_Rests):
    """A `while`; programs whose condition fails rest until the last one is through."""

    def __init__(self, control: Control) -> None:
        super().__init__(control)
        self._before = self._memory.active
        self._memory.in_while_loop += 1
        self._rounds = 0

    def test(self, condition: Any) -> bool:
        """Whether any program does another round."""
        self._rounds += 1
        if self._rounds > _MANY_ROUNDS:
            raise NotBatchable("a while loop goes on for very long", always=True)
        goes_on = True
        if isinstance(condition, tl.tensor):
            self._control.builder.flow.waits_for(condition.handle)
            holds = condition.handle.data != 0
            active = self._control.active
            now = active & holds
            goes_on = bool(now.any())
            if goes_on and int(now.sum()) < int(active.sum()):
                self.split = True
                self._memory.active = now
        else:
            goes_on = bool(condition)
        if not goes_on:
            self._memory.active = self._before
            self._memory.in_while_loop -= 1
        return goes_on


def _remade(like: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    """Named tuples take their items one by one."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _equal(left: Any, right: Any) -> bool:
    return left is right or (type(left) is type(right) and bool(left == right))
