"""Lines of the candidate, as remarks on it name them, in the emitted file that holds its text further down."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kernelagent.domain.evaluation import Disclosure

_QUOTED = re.compile(r"(`[^`]*`)")
_LINE = re.compile(r"(?<!\.py, )(?<!\.py )\bline (\d+)\b")
_CALLED = re.compile(r"\(called at (\d+(?:, \d+)*)\)")
"""As `untried_choices` writes where a function with a condition is called."""


def moved(disclosures: Iterable[Disclosure], by: int, most: int) -> tuple[Disclosure, ...]:
    """The remarks with each line number `by` further down; `most`: how many lines the candidate has.

    What is quoted, and a line of a named file (`model.py, line 3`), stays as it is.
    """

    def later(number: str) -> str:
        return str(int(number) + by) if 1 <= int(number) <= most else number

    def plain(text: str) -> str:
        text = _LINE.sub(lambda found: f"line {later(found[1])}", text)
        return _CALLED.sub(
            lambda found: f"(called at {re.sub(r'[0-9]+', lambda n: later(n[0]), found[1])})", text
        )

    return tuple(
        replace(
            item,
            message="".join(
                part if part.startswith("`") else plain(part)
                for part in _QUOTED.split(item.message)
            ),
        )
        for item in disclosures
    )
