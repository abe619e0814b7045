"""Kernels whose compiled code was executed beside their text as Python (`tools/virtual/compiled_ir`), and those not.

A launch in which the two store different values is refused in the executor; here is what remains to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kernelagent.domain.evaluation import Disclosure

_SHOWN = 3


class CompiledCode:
    """What was seen of the compiled kernels so far; grows launch by launch."""

    def __init__(self) -> None:
        self._compared: set[str] = set()
        self._not_compared: dict[str, str] = {}
        self._rounds: dict[str, str] = {}
        self._short_sums: dict[str, str] = {}
        self._float_places: dict[str, str] = {}
        self._whole_sums: dict[str, None] = {}

    def note(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of the executor's log."""
        for row in rows:
            name = str(row["kernel"])
            if row.get("compared"):
                self._compared.add(name)
            elif why := row.get("not_compared"):
                self._not_compared.setdefault(name, str(why))
            if short := row.get("short_sums"):
                self._short_sums.setdefault(name, str(short))
            if (line := row.get("float_places")) is not None:
                self._float_places.setdefault(name, str(line))
            if row.get("whole_sums"):
                self._whole_sums[name] = None
            if told := row.get("rounds_otherwise"):
                self._rounds.setdefault(name, str(told))

    def disclosures(self, *, smaller: bool) -> Iterator[Disclosure]:
        """What to tell of them; `smaller`: the user's own sizes were not executed."""
        left = {k: why for k, why in self._not_compared.items() if k not in self._compared}
        if left:
            shown = ", ".join(f"`{name}` ({why})" for name, why in list(left.items())[:_SHOWN])
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            yield Disclosure(
                "compiled_not_compared",
                f"what Triton's compiler made of {shown}{more} was not executed beside the kernel's text as Python: "
                f"where the compiler reads that text otherwise, a GPU computes something else than was judged",
            )
        if self._short_sums:
            shown = "; ".join(f"`{n}` adds up {what}" for n, what in self._short_sums.items())
            yield Disclosure(
                "sums_in_16_bits",
                f"{shown}, where torch adds up rows in float32, and of whole numbers in int64: sums longer than those that were "
                f"judged, and of like signs, lose digits, and beyond 65504 float16 has none, beyond 32767 int16",
            )
        if self._float_places and smaller:
            shown = ", ".join(
                f"`{n}`{f' (line {line})' if line else ''}"
                for n, line in self._float_places.items()
            )
            yield Disclosure(
                "places_by_floats",
                f"{shown} computes places in memory by floating point numbers: float32 has not every whole number beyond "
                f"16,777,216, and a quotient may come out one too small, so that some places may be wrong at your sizes "
                f"which are right at those that were executed",
            )
        if self._whole_sums and smaller:
            shown = ", ".join(f"`{name}`" for name in self._whole_sums)
            yield Disclosure(
                "whole_sums_in_floats",
                f"{shown} adds up whole numbers in floating point and gives whole numbers back: float32 has not every one "
                f"beyond 16,777,216, which sums at your sizes may reach and those that were executed do not",
            )
        if self._rounds:
            yield Disclosure("compiled_rounds", "; ".join(list(self._rounds.values())[:_SHOWN]))
