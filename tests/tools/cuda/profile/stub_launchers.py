"""Stands in for what compiles launchers, where this Triton has none: writes down what it was asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernelagent.tools.cuda.launchers import LAUNCHER


def compile_launchers(settings: dict[str, Any], fds: list[int]) -> None:
    """One entry for each signature, never twice the same."""
    for signature in settings["signatures"]:
        entry = Path(os.environ["TRITON_CACHE_DIR"]) / ",".join(signature)
        entry.mkdir(parents=True)
        (entry / f"{LAUNCHER}.so").write_text(os.urandom(8).hex(), encoding="utf-8")
