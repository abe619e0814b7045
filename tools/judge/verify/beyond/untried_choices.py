"""Conditions in kernels that came out one way in every call: what is behind the other way was not judged.

Attackers hide a wrong answer behind a condition that no ordinary input meets; an honest kernel has such
conditions too, for the rare case. A reader of the verdict sees both with their lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kernelagent.tools.virtual.kernel_text.choices import FALSE, TRUE, Choice

_SHOWN = 3


class UntriedChoices:
    """What was seen of the conditions so far; grows launch by launch."""

    def __init__(self) -> None:
        self._seen: dict[Choice, int] = {}

    def note(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of the executor's log."""
        for row in rows:
            for *reported, ways in row.get("choices", ()):
                choice = Choice(*reported)
                self._seen[choice] = self._seen.get(choice, 0) | int(ways)

    def note_of_torch(self, rows: Iterable[tuple[int, str, int]]) -> None:
        """Line, text and ways of conditions of data that the candidate computes beside its kernels."""
        for line, text, ways in rows:
            choice = Choice(line, text, True)
            self._seen[choice] = self._seen.get(choice, 0) | (ways & (TRUE | FALSE))

    def sentence(self, explained: Collection[float] = ()) -> str | None:
        """What to tell of them; None: every condition came out both ways.

        `explained`: constants of the reference's source; a bound at one of them is not disclosed.
        """
        untried = {c for c, ways in self._seen.items() if _is_untried(c, ways, explained)}
        alone = {c.text for c in untried if not c.operand}
        untried = {c for c in untried if not (c.operand and alone & {c.text, c.operand})}
        if not untried:
            return None
        return (
            f"{_shown(sorted(untried, key=lambda c: c[:2]), self._seen)} in every element of every call: what is answered where "
            f"it comes out otherwise was not judged"
        )


def _is_untried(choice: Choice, ways: int, explained: Collection[float]) -> bool:
    """Whether the condition is to be told of, given the values it had.

    A mask of indices and sizes is true everywhere where sizes are multiples of the block: it counts only if it never
    was. A condition on data counts if it had one value only; an operation if it never changed its operand; one of several
    conditions if it did not decide for either value.
    """
    if choice.operand:
        return ways != TRUE | FALSE
    if choice.equals:
        return ways == TRUE and (choice.bound is None or abs(choice.bound) not in explained)
    return ways == FALSE or (choice.by_data and ways == TRUE)


def _shown(untried: Sequence[Choice], seen: Mapping[Choice, int]) -> str:
    reported = [f"{_place(c)} {_outcome(c, seen[c])}" for c in untried[:_SHOWN]]
    return ", ".join([*reported, *more_at(choice.line for choice in untried[_SHOWN:])])


def more_at(lines: Iterable[int]) -> list[str]:
    """Others of a list, which nobody may hide behind its first ones: their lines, each once."""
    each = sorted(set(lines))
    if not each:
        return []
    return [f"likewise in line{'s' * (len(each) > 1)} {', '.join(map(str, each))}"]


def _place(choice: Choice) -> str:
    where = choice.called.replace(" ", ", ")
    return f"line {choice.line} `{choice.text}`{f' (called at {where})' if where else ''}"


def _outcome(choice: Choice, ways: int) -> str:
    if choice.equals:
        return f"equals `{choice.equals}`"
    if not ways:
        return f"is never decided by `{choice.operand}`"
    came = "is true" if ways == TRUE else "is false"
    return f"{came} wherever `{choice.operand}` decides it" if choice.operand else came
