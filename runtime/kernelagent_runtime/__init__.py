"""The drop-in for files that `kernelagent optimize --runtime package` wrote."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
_SECTION = Path(__file__).with_name("section.py")
if not _SECTION.is_file():
    # A checkout, where nothing is built: the file it is built from.
    _SECTION = Path(__file__).parents[2] / "kernelagent" / "dropin" / "template" / "dropin.py"
_bound: dict[int, tuple[Any, ModuleType]] = {}
_numbers = itertools.count()


def dropin_of(
    name: str,
    envelope: dict[str, Any],
    construct: Callable[[Any], Any],
    assembled: Callable[..., Any],
) -> ModuleType:
    """The drop-in of one emitted file: `optimized`, `OutsideEnvelopeWarning` and `build`.

    `name`: the file's module. `envelope`: its `ENVELOPE_VERIFIED`. `construct`: makes a `ModelNew`.
    `assembled`: the file's own function that calls `build`, under whose name copies are pickled.
    """
    known = _bound.get(id(envelope))
    if known is not None:
        return known[1]
    # A module of its own for each file: what it was verified for is read as a global, which Dynamo
    # guards, and a compiled graph finds the module again under this name.
    own = f"{__name__}.of_{name.replace('.', '_')}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(own, _SECTION)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_SECTION} cannot be imported; install kernelagent-runtime again")
    section: Any = importlib.util.module_from_spec(spec)
    section.ENVELOPE_VERIFIED = envelope
    section._construct = construct
    sys.modules[own] = section
    spec.loader.exec_module(section)
    section.build = section._assembled
    section._assembled = assembled
    _bound[id(envelope)] = envelope, section
    return section
