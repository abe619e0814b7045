"""Calls with integers unlike the user's: larger, closer to one another, smaller, as far as the module takes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.boundaries import can_be_halved, either_side
from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, share_nonfinite
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order
from kernelagent.tools.judge.problem.trials.unlike_integers import (
    INTEGERS,
    close_integers,
    larger_integers,
    smaller_integers,
)
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, with_changed
from kernelagent.tools.judge.verify.beyond.unlike_calls import UnlikeCalls, stop_after
from kernelagent.tools.judge.verify.compare.compare import leaves

_FACTORS = (
    1.1,
    1.25,
    1.5,
    *(2.0**octaves for octaves in (1, 2, 3, 4, 6, 8, 11, 14, 17, 20, 24, 30)),
)
"""Integers become so much larger, as long as the module takes them and answers in the same form."""
_TIMES_LOWER = 1 << 40, 1 << 20, 1 << 10, 4
"""By how much negative integers become smaller, as far as the module takes them."""
_ENDS = 6
"""Draws between which a row's answer may change."""
_TIMES_HALVED = 3
"""Of many neighbours of a change only a few may be near enough to it."""
_MOST_INTEGERS = 6
"""Inputs of integers that are tried, in a drawn order."""


@dataclass(frozen=True)
class OtherIntegers(UnlikeCalls):
    """Inputs of integers, one at a time."""

    def about(self, source: InputSource, usual: float) -> None:
        """The largest that the module takes, and some in between; close ones; the smallest."""
        every = named_tensors(draw(source)).items()
        names = [n for n, t in every if t.dtype in INTEGERS]
        for name in in_drawn_order(names, self.generator)[:_MOST_INTEGERS]:
            if self._at_changes(source, name, usual):
                return
            taken = self._taken(source, name, usual)
            for factor in {*taken[-1:], *taken[len(taken) // 2 :][:1]}:
                arguments = self._larger(source, name, factor)
                if arguments is not None and self._differs_on(
                    source, name, arguments, "larger", usual
                ):
                    return
            close = bool(taken) and self._close(source, name, taken[-1], usual)
            self._smaller(source, name, usual)
            if close:
                return

    def _differs_on(
        self,
        source: InputSource,
        name: str,
        arguments: Arguments,
        how: str,
        usual: float,
        which: str = "",
    ) -> bool | None:
        """Whether other integers are answered otherwise, which is told then; None: the reference does not take them."""
        asked = self._ask(source, arguments, f"{how}_integers", usual)
        if asked is None:
            return None
        if asked.wrong is not None:
            held = f"holds no {how} integers than your draws"
            tried = f"{how} ones{which}, which your module takes,"
            self._tell(source, f"{how}_integers", name, held, tried, asked)
            stop_after(asked)
        return asked.wrong is not None

    def _close(self, source: InputSource, name: str, factor: float, usual: float) -> bool:
        """Whether it was told of integers that differ in their high bits alone, or by one."""
        tensors = named_tensors(draw(source))
        tensor = tensors[name]
        others = [n for n, t in tensors.items() if n != name and _holds_the_like(t, tensor)]
        others.sort(key=lambda n: tensors[n].shape != tensor.shape)
        beside = tensors[others[0]] if others else tensor
        limit = torch.iinfo(tensor.dtype).max // 2
        for most in (limit, min(limit, int(max(int(tensor.max()), 1) * factor))):
            made = close_integers(tensor, beside, most, self.generator)
            if made is None:
                return False
            changed = {name: made[0]} | ({others[0]: made[1]} if others else {})
            arguments = with_changed(draw(source), changed)
            which = " that differ by one or in their high bits alone"
            differs = self._differs_on(source, name, arguments, "larger", usual, which)
            if differs is not None:
                return differs
        return False

    def _smaller(self, source: InputSource, name: str, usual: float) -> None:
        """Down to zero, or to one where the module has no finite answer to that; where some are negative far below them."""
        drawn = named_tensors(draw(source))[name]
        lowest = int(drawn.min()) if drawn.numel() else 0
        for least in [lowest * times for times in _TIMES_LOWER] if lowest < 0 else [0, 1]:
            natural = draw(source)
            changed = smaller_integers(named_tensors(natural)[name], least, self.generator)
            if changed is None:
                continue
            arguments = with_changed(natural, {name: changed})
            if self._differs_on(source, name, arguments, "smaller", usual) is not None:
                return

    def _at_changes(self, source: InputSource, name: str, usual: float) -> bool:
        """Whether it was told of integers next to which the answer changes."""
        drawn = draw(source)
        try:
            able = can_be_halved(named_tensors(drawn)[name], self.context.oracle.eager(drawn))
        except NO_ANSWER:
            return False
        return able and any(
            self._next_to_changes(source, name, usual) for _ in range(_TIMES_HALVED)
        )

    def _next_to_changes(self, source: InputSource, name: str, usual: float) -> bool:
        """The same, of those between one draw and some others."""
        drawn = draw(source)
        one = named_tensors(drawn)[name]
        others = [named_tensors(draw(source))[name] for _ in range(_ENDS)]
        if any(other.shape != one.shape for other in others):
            return False
        answer = partial(_answer_with, self.context.oracle, drawn)
        try:
            sides = list(either_side(name, one, others, answer))
        except NO_ANSWER:
            return False
        for values in sides:
            asked = self._ask(source, with_changed(drawn, {name: values}), "changes", usual)
            if asked is not None and asked.wrong is not None:
                held = "is nowhere next to where your module's answer changes"
                self._tell(source, "changes", name, held, "numbers that are", asked)
                stop_after(asked)
                return True
        return False

    def _taken(self, source: InputSource, name: str, usual: float) -> list[float]:
        """By how much they may grow, smallest first."""
        form = _form(self.context.oracle.eager(draw(source)))
        result: list[float] = []
        for factor in _FACTORS:
            arguments = self._larger(source, name, factor)
            if arguments is None:
                break
            try:
                answer = self.context.oracle.eager(arguments)
            except NO_ANSWER:
                break
            if _form(answer) != form or share_nonfinite(answer) > usual:
                break
            result.append(factor)
        return result

    def _larger(self, source: InputSource, name: str, factor: float) -> Arguments | None:
        natural = draw(source)
        changed = larger_integers(named_tensors(natural)[name], factor, self.generator)
        return None if changed is None else with_changed(natural, {name: changed})


def _answer_with(oracle: Oracle, drawn: Arguments, tensors: Tensors) -> Any:
    return oracle.eager(with_changed(drawn, tensors))


def _holds_the_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.numel() > 0


def _form(answer: Any) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for _, t in leaves(answer) if isinstance(t, torch.Tensor)]
