"""One method for any number of rows, from the method for many and the method for few.

Two programs for inputs that differ in one leading size differ only in numbers. Each that grew with
the size becomes a multiple of it; where anything else differs there is no common method.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelagent.models.compiler.capture import Captured, PolicyCannot

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
ROWS = "n"


def in_rows(
    many: Sequence[str], few: Sequence[str], captured: Captured, fewer: Captured, what: str
) -> list[str]:
    """The lines of `many` with the leading size as a variable; raises `PolicyCannot`."""
    tensor, was, now = _leading(captured, fewer, what)
    item, other = "\n".join(many), "\n".join(few)
    if _NUMBER.sub("#", item) != _NUMBER.sub("#", other):
        raise PolicyCannot(
            what,
            f"the compiler writes another program for the {now} rows that can be executed here "
            f"than for {was} (smaller inputs with --inputs may do)",
        )
    smaller = iter(_NUMBER.findall(other))

    def spelled(match: re.Match[str]) -> str:
        large, small = int(match[0]), int(next(smaller))
        if large == small:
            return match[0]
        times, rest = divmod(large, was)
        if rest or times * now != small:
            raise PolicyCannot(what, f"a size of {large} for {was} rows is {small} for {now}")
        return ROWS if times == 1 else f"{times} * {ROWS}"

    return [f"{ROWS} = {tensor}.shape[0]", *_NUMBER.sub(spelled, item).splitlines()]


def _leading(captured: Captured, fewer: Captured, what: str) -> tuple[str, int, int]:
    for large, small in zip(captured.values, fewer.values, strict=True):
        if large.tensor.shape != small.tensor.shape:
            return large.name, int(large.tensor.shape[0]), int(small.tensor.shape[0])
    raise PolicyCannot(what, "the inputs to execute are those it was given")
