"""Which way the conditions came out that a candidate computes by torch, beside its kernels, of data."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from kernelagent.tools.candidate_runner.host.asking_line import OTHERS, Place, frame_of, place_of

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
_MOST = 64
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
        if place is None:
            return
        key = place.line, place.column, name
        if len(self._seen) >= _MOST and key not in self._seen:
            return
        ways = _TRUE * bool(result.any()) | _FALSE * bool((~result).any())
        _, before = self._seen.get(key, ("", 0))
        self._seen[key] = place.text, before | ways

    def _asked_at(self) -> Place | None:
        frame = frame_of(self._file, sys._getframe(3), OTHERS)
        return None if frame is None else place_of(frame)
