"""Which line of a candidate is executed now."""

from __future__ import annotations

import sys
from types import FrameType

NAME = "__logic"
"""What the globals of rewritten kernels have."""


def frame_now() -> FrameType | None:
    """Of the rewritten text."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and NAME not in frame.f_globals:
        frame = frame.f_back
    return frame


def line_now() -> str:
    """As text; empty where nothing of a candidate is executed."""
    frame = frame_now()
    return "" if frame is None else str(frame.f_lineno)
