"""How many instructions a function of libdevice is, at least: `libdevice_costs.toml`, as `benchmarks/libdevice_costs.py`
counted them in machine code."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

FP64_OF_SPECIAL = 20
"""fp64 instructions of exp, log and the like, for which no unit exists in fp64 (assumption: a polynomial of ten to
twenty terms, and its reduction)."""
_FILE = Path(__file__).with_name("libdevice_costs.toml")


def instructions_of(symbol: str) -> int:
    """Of `__nv_lgammaf` and the like, for one element."""
    return _table().get(symbol, {}).get("all", 1)


def fp64_beyond_special(symbol: str) -> int:
    """Instructions in fp64 beyond those that every special function is charged with."""
    return max(0, _table().get(symbol, {}).get("fp64", 0) - FP64_OF_SPECIAL)


@functools.cache
def _table() -> Mapping[str, Mapping[str, int]]:
    table: Mapping[str, Mapping[str, int]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return table
