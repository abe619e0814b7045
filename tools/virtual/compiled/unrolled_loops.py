"""How many rounds of the text's loop one round of the compiled loop is, as the compiled form shows it.

What a kernel asks for (`loop_unroll_factor`) is no evidence: the compiler leaves the unrolled loop out where there are too few
rounds for it. Its step is.
"""

from __future__ import annotations

import re

from kernelagent.tools.virtual.compiled.memory_operations import LOCATION_AT_END, places_of

FOR = re.compile(r"scf\.for %\S+ = (?P<begin>%\S+) to (?P<end>%\S+) step (?P<step>%\S+)")
_CONSTANT = re.compile(r"(%\S+) = arith\.constant (-?\d+) : (?:i\d+|index)")
_AS_ANOTHER_TYPE = re.compile(r"(%\S+) = arith\.(?:bitcast|extsi|index_cast) (%\S+) :")
_PRODUCT = re.compile(r"(%\S+) = arith\.muli (%[^\s,]+), (%\S+)")
_NO_LOOP = 0


class Counters:
    """What the loops of one function count to, where the text has it as a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._products: dict[str, tuple[str, str]] = {}

    def read(self, text: str) -> None:
        """A line, before those that use what it names."""
        if "tt.func" in text:
            self._numbers, self._products = {}, {}
        elif (constant := _CONSTANT.match(text)) is not None:
            self._numbers[constant[1]] = int(constant[2])
        elif (same := _AS_ANOTHER_TYPE.match(text)) is not None and same[2] in self._numbers:
            self._numbers[same[1]] = self._numbers[same[2]]
        elif (product := _PRODUCT.match(text)) is not None:
            self._products[product[1]] = product[2], product[3]

    def step(self, loop: re.Match[str]) -> int | None:
        return self._numbers.get(loop["step"])

    def rounds(self, loop: re.Match[str] | None) -> int | None:
        """None where they are no number, or it is no `for`."""
        ends = (
            [] if loop is None else [self._numbers.get(loop[n]) for n in ("begin", "end", "step")]
        )
        if not ends or None in ends:
            return None
        begin, end, step = (number or 0 for number in ends)
        return max(0, -((begin - end) // step)) if step > 0 else None

    def times(self, large: str, small: str) -> int:
        """How many of the `small` steps a `large` one is; 1 where that is not seen."""
        factors = self._products.get(large)
        if factors is not None and small in factors:
            other = factors[1] if factors[0] == small else factors[0]
            return max(1, self._numbers.get(other, 1))
        return quotient(self._numbers.get(large), self._numbers.get(small))


def quotient(large: int | None, small: int | None) -> int:
    return large // small if large and small and large > small > 0 and not large % small else 1


def steps_of(source: str, file: str) -> dict[int, int]:
    """By the line of a loop's head, by how much it counts in the form before any pass, where all of the line do."""
    lines_at, counters = places_of(source, file), Counters()
    around: list[int | None] = []
    result: dict[int, set[int | None]] = {}
    for raw in source.splitlines():
        text = raw.strip()
        counters.read(text)
        if text.startswith("}") and around:
            step, end = around.pop(), LOCATION_AT_END.search(text)
            lines = lines_at(end[1]) if end is not None and step != _NO_LOOP else None
            if lines:
                result.setdefault(lines[0], set()).add(step)
        if text.endswith("{"):
            loop = FOR.search(text)
            around.append(_NO_LOOP if loop is None else counters.step(loop))
    one = {line: next(iter(steps)) for line, steps in result.items() if len(steps) == 1}
    return {line: step for line, step in one.items() if step is not None}
