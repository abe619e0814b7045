"""Which line of a certain file asks torch for something, itself or through functions of others."""

from __future__ import annotations

import linecache
from itertools import islice
from types import FrameType
from typing import NamedTuple

OTHERS = ("/triton/", "/kernelagent/", "/tools/virtual/", "/tools/candidate_runner/")
"""Parts of paths of files whose questions are their own, whoever called them."""
_HANDING_ON = frozenset({"__torch_function__", "__torch_dispatch__"})
"""Methods of modes, which stand between the one who asks and torch."""
_LONGEST = 60


class Place(NamedTuple):
    """Where in the file, and what stands there."""

    line: int
    column: int
    text: str


def frame_of(file: str, start: FrameType | None, besides: tuple[str, ...] = ()) -> FrameType | None:
    """The innermost frame of `file` from `start` outwards; None where there is none.

    `besides`: parts of paths; what a function in such a file asks for is its own, whoever called it.
    """
    frame = start
    while frame is not None:
        code = frame.f_code
        if code.co_filename == file:
            return frame
        if code.co_name not in _HANDING_ON and any(part in code.co_filename for part in besides):
            return None
        frame = frame.f_back
    return None


def place_of(frame: FrameType) -> Place:
    """Line, column and text of what the frame is at, as far as they stand in one line."""
    code = frame.f_code
    line, end, column, until = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    line, column = line or frame.f_lineno, column or 0
    text = linecache.getline(code.co_filename, line).encode()
    shown = text[column : until if end == line else None].decode(errors="replace").strip()
    return Place(line, column, shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")
