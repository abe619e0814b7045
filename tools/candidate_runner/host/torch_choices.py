"""Which way the conditions came out that a candidate computes by torch, beside its kernels, of data."""

from __future__ import annotations

import linecache
import sys
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

_CONDITIONS = frozenset(
    """eq ne lt le gt ge isin isclose any all logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor and or xor rand ror rxor less greater less_equal greater_equal not_equal
    isnan isinf isfinite isposinf isneginf signbit""".split()
)
"""Without the underscores that the names of operators have."""
_OF_NO_DATA = frozenset(
    """arange linspace full ones zeros eye tensor tril_indices triu_indices scalar_tensor""".split()
)
"""What these make depends on sizes and numbers of the text alone."""
_OTHERS = ("/triton/", "/kernelagent/", "/tools/virtual/", "/tools/candidate_runner/")
_HANDING_ON = "__torch_function__"
"""The method of modes, which stands between the one who asks and torch."""
_MOST = 64
_LONGEST = 60
_TRUE, _FALSE = 1, 2
Row = tuple[int, str, int]
"""Line, text, and the ways that were seen, as bits: 1 is true, 2 is false."""


class TorchChoices:
    """Notes conditions where the candidate's own text asks for them; it is no mode of torch's, so that nobody sees it."""

    def __init__(self, file: str) -> None:
        """`file`: of the candidate."""
        self._file = file
        self._seen: dict[tuple[int, int, str], tuple[str, int]] = {}
        self._of_no_data: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def rows(self) -> list[Row]:
        return [(line, text, ways) for (line, _, _), (text, ways) in self._seen.items()]

    def note(self, name: str, given: Any, result: Any) -> None:
        """A function of torch's that was called, what it was given, and what it returned."""
        name = name.strip("_")
        tensors = [t for t in tree_leaves(given) if isinstance(t, torch.Tensor)]
        known = all(t in self._of_no_data for t in tensors) if tensors else name in _OF_NO_DATA
        if known:
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    self._of_no_data[tensor] = True
        elif name in _CONDITIONS and isinstance(result, torch.Tensor):
            self._note(name, result)

    def _note(self, name: str, result: torch.Tensor) -> None:
        if result.dtype != torch.bool or not result.numel() or result.is_meta:
            return
        place = self._asked_at()
        if place is None or (len(self._seen) >= _MOST and (*place[:2], name) not in self._seen):
            return
        ways = _TRUE * bool(result.any()) | _FALSE * bool((~result).any())
        line, column, text = place
        _, before = self._seen.get((line, column, name), (text, 0))
        self._seen[line, column, name] = text, before | ways

    def _asked_at(self) -> tuple[int, int, str] | None:
        """Line, column and text of what asks for it in the candidate, itself or through torch's functions."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_filename == self._file:
                return self._place(frame)
            hands_on = code.co_name == _HANDING_ON or code.co_filename == __file__
            if not hands_on and any(part in code.co_filename for part in _OTHERS):
                return None
            frame = frame.f_back  # type: ignore[assignment]
        return None

    def _place(self, frame: Any) -> tuple[int, int, str]:
        positions = frame.f_code.co_positions()
        line, end, column, until = next(islice(positions, frame.f_lasti // 2, None))
        line, column = line or frame.f_lineno, column or 0
        text = linecache.getline(self._file, line).encode()
        shown = text[column : until if end == line else None].decode(errors="replace").strip()
        return line, column, shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
