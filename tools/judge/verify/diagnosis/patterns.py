"""The patterns that a wrong output is searched for, in the order of what they explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelagent.tools.judge.verify.compare.by_index import by_index
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff
from kernelagent.tools.judge.verify.diagnosis.error_locations import Along, restrictions
from kernelagent.tools.judge.verify.diagnosis.look import (
    LOOKED_AT,
    Found,
    Look,
    off_the_diagonal,
    some,
    wide,
)
from kernelagent.tools.judge.verify.diagnosis.never_written import partly_unwritten, unwritten

_ROUNDING = (("TF32 or float16", 2.0**-13, 2.0**-10), ("bfloat16", 2.0**-10, 2.0**-6))
_EVERYWHERE = 0.2
_FEWEST_ROUNDED = 32
"""Wrong elements from which on their size tells a rounding: a few are as far off by chance."""
_OFFSET_SPREAD = 1e-3
"""Products of positive operands that are cut off, as TF32 does, err by nearly the same too: by 1 %."""


def _exchanged(look: Look) -> Iterator[Found]:
    for words, answer in look.evidence.instead.items():
        if look.answers(answer):
            yield Found("operands_exchanged", f"it is the right answer if {words}", {"if": words})


def _something_else(look: Look) -> Iterator[Found]:
    previous = look.evidence.previous
    if previous is not None and look.is_instead(previous):
        yield Found("stale", "it equals the output of an earlier call, whose inputs differed")
    for name, answer in look.evidence.without.items():
        if look.answers(answer):
            words = f"it is the right answer if {name} is ignored"
            yield Found("operand_ignored", words, {"ignored": name})
    for name, tensor in look.evidence.inputs.items():
        if look.is_instead(tensor):
            yield Found("equals_input", f"it equals the input {name}", {"input": name})


def _moved(look: Look) -> Iterator[Found]:
    got, want = look.candidate, look.expected
    if got.numel() > 4 * LOOKED_AT:
        return
    if got.dim() >= 2 and not look.same(want, want.mT.reshape(want.shape)):
        flipped = want.mT.reshape(want.shape)
        if look.same(got, flipped):
            yield Found("transposed", "it is transposed in its last two dimensions")
    for dim in reversed(range(got.dim())):
        size = got.shape[dim]
        if size < 3:
            continue
        for by in (1, -1):
            here, there = (0, 1) if by > 0 else (1, 0)
            shifted = got.narrow(dim, 1 - here, size - 1), want.narrow(dim, 1 - there, size - 1)
            unmoved = want.narrow(dim, 1 - here, size - 1), want.narrow(dim, 1 - there, size - 1)
            if look.same(*shifted) and not look.same(*unmoved):
                words = f"it is shifted by {by:+d} along dimension {dim}"
                yield Found("shifted", words, {"dim": dim, "by": by})


def _scaled(look: Look) -> Iterator[Found]:
    if look.candidate.is_complex() or look.candidate.dtype == torch.bool:
        return
    got, want = wide(some(look.candidate)), wide(some(look.expected))
    finite = got.isfinite() & want.isfinite()
    got, want = got[finite], want[finite]
    if got.numel() < 4 or not bool(want.any()):
        return
    factor = float((got * want).sum() / want.square().sum())
    rest = got - factor * want
    if float(rest.abs().median()) <= 1e-3 * float((got - want).abs().median()) and factor != 0:
        words = (
            "its sign is flipped" if abs(factor + 1) < 1e-3 else f"it is {factor:.6g} times right"
        )
        code = "sign_flipped" if abs(factor + 1) < 1e-3 else "constant_factor"
        yield Found(code, words, {"factor": factor})
        return
    offset = float((got - want).median())
    spread = float((got - want - offset).abs().median())
    if offset != 0 and spread <= _OFFSET_SPREAD * abs(offset):
        yield Found("offset", f"it is off by {offset:.6g} everywhere", {"offset": offset})


def _placed(look: Look) -> Iterator[Found]:
    result = restrictions(look.wrong)
    if not result:
        if where := off_the_diagonal(look):
            yield Found("off_diagonal", f"wrong: {where}")
        return
    words = "all of them in " + " and ".join(a.named(look.wrong.dim()) for a in result)
    yield Found(_pattern_of(result), words, {"where": [_as_data(along) for along in result]})


def _by_index(look: Look) -> Iterator[Found]:
    outcome = by_index(look.candidate, look.expected, look.close, look.evidence.vectors)
    if outcome is not None:
        detail: dict[str, Any] = {"dim": outcome.dim, "varies": outcome.kind}
        detail |= {} if outcome.lanes is None else {"lanes": outcome.lanes}
        detail |= {} if outcome.tensor is None else {"tensor": outcome.tensor, "how": outcome.times}
        yield Found(
            f"{outcome.kind}_by_{'index' if outcome.lanes is None else 'lane'}",
            outcome.words,
            detail,
        )


def _shortened(look: Look) -> Iterator[Found]:
    for words, answer in look.evidence.shortened:
        if look.answers(answer):
            yield Found("part_left_out", f"it is the right answer if {words}", {"if": words})


def _rounded(look: Look) -> Iterator[Found]:
    if not look.candidate.is_floating_point() or look.candidate.dtype == torch.float64:
        return
    if float(look.wrong.to(torch.float32).mean()) < _EVERYWHERE:
        return
    if int(look.wrong.sum()) < _FEWEST_ROUNDED:
        return
    got, want = wide(some(look.candidate)), wide(some(look.expected))
    relative = float((got - want).square().mean().sqrt() / want.square().mean().sqrt())
    for kind, low, high in _ROUNDING:
        if low <= relative < high and unit_roundoff(look.candidate.dtype) < low:
            words = (
                f"the error is everywhere and {relative:.1e} of the values, as from {kind} inside"
            )
            yield Found("low_precision", words, {"relative_error": relative, "as_from": kind})


SEARCHES: tuple[Callable[[Look], Iterator[Found]], ...] = (
    _exchanged,
    unwritten,
    partly_unwritten,
    _something_else,
    _moved,
    _scaled,
    _placed,
    _by_index,
    _shortened,
    _rounded,
)


def _pattern_of(places: tuple[Along, ...]) -> str:
    if len(places) > 1 and all(along.count == 1 for along in places):
        return "one_element"
    if len(places) > 1 and all(along.shape != "scattered" for along in places):
        return "tile"
    shapes = {"periodic": "every_kth", "scattered": "some_rows", "tail": "tail", "head": "head"}
    return shapes.get(places[0].shape, "range")


def _as_data(along: Along) -> dict[str, Any]:
    return {
        "dim": along.dim,
        "size": along.size,
        "first": along.first,
        "last": along.last,
        "step": along.step,
    }
