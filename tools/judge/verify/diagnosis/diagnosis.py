"""What is wrong with a wrong output, in words a model can act on; never the expected tensor itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.judge.verify.compare.compare import Failure
from kernelagent.tools.judge.verify.compare.gate import GateResult, unit_roundoff
from kernelagent.tools.judge.verify.diagnosis.look import (
    LOOKED_AT,
    Close,
    Evidence,
    Found,
    Look,
    plain,
    wide,
)
from kernelagent.tools.judge.verify.diagnosis.patterns import SEARCHES


@dataclass(frozen=True)
class Diagnosis:
    """One sentence, and the same as data for `Reason.detail`."""

    sentence: str
    detail: dict[str, Any]

    @property
    def pattern(self) -> str | None:
        """Code of the recognised pattern, None when there is none."""
        result = self.detail.get("pattern")
        return str(result) if result is not None else None


def diagnose(
    failure: Failure,
    *,
    inputs: Mapping[str, torch.Tensor] | None = None,
    without: Mapping[str, torch.Tensor] | None = None,
    instead: Mapping[str, torch.Tensor] | None = None,
    shortened: Iterable[tuple[str, torch.Tensor]] = (),
    vectors: Mapping[str, torch.Tensor] | None = None,
    previous: torch.Tensor | None = None,
    poison: tuple[float, ...] = (),
    only_on: str | None = None,
) -> Diagnosis:
    """Describe how a wrong output differs from the expected one.

    What it may turn out to be: one of `inputs`; the reference's answer `without` an operand, by
    that one's name, or what it is `instead`, by the words for it; a `previous` call's output on other inputs; `poison` that
    fresh memory was filled with. `shortened` is the same with a part of an operand
    left out, asked for only where nothing else explains the error. Errors by index may be those of `vectors`. `only_on` names the input set or probe when every other one passed.
    """
    candidate, expected = failure.candidate, failure.expected
    evidence = Evidence(
        inputs or {}, without or {}, instead or {}, shortened, vectors or {}, previous, poison
    )
    close = _tolerance(candidate, failure.gate)
    wrong = _wrong_elements(failure, close)
    count, total = int(wrong.sum()), wrong.numel()
    which, at = _shown_element(failure, wrong)
    got, want = candidate[at].item(), expected[at].item()
    detail: dict[str, Any] = {
        "output": failure.output,
        "index": list(at),
        "got": plain(got),
        "expected": plain(want),
        "share_wrong": count / total,
    }
    looked = Look(candidate, expected, wrong, close, evidence)
    result = next((hit for search in SEARCHES for hit in search(looked)), None)
    if only_on is not None:
        detail["only_on"] = only_on
    if result is not None:
        detail |= {"pattern": result.pattern, **result.detail}
    element = f"{which} at {list(at)}: got {_shown(got)}, expected {_shown(want)}"
    sentence = _sentence(failure.output, element, (count, total), result, only_on)
    return Diagnosis(sentence, detail)


def _sentence(
    name: str,
    element: str,
    wrong: tuple[int, int],
    outcome: Found | None,
    only_on: str | None,
) -> str:
    count, total = wrong
    share = f"{count / total:.1%}" if count / total >= 0.001 else f"{count}"
    fact = f"{name} is wrong in {share} of {total} elements"
    where = f", on {only_on} only" if only_on is not None else ""
    return f"{fact}{where}; {outcome.words}; {element}" if outcome else f"{fact}{where}; {element}"


def _tolerance(candidate: torch.Tensor, result: GateResult | None) -> Close:
    if result is None:
        return lambda left, right: left == right
    half_ulp = unit_roundoff(candidate.dtype)
    largest = torch.finfo(candidate.real.dtype).max
    budget = result.rms_budget

    def close(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        value, target = wide(left), wide(right)
        error = (value - target).abs()
        both_odd = ~value.isfinite() & ~target.isfinite() & ((value == target) | value.isnan())
        near = (error <= budget + 8 * half_ulp * target.abs()) & target.isfinite()
        # What no number of the type is as large as is an infinity in it, here as in the user's own result.
        beyond = value.isinf() & (target.abs() > largest)
        # Complex numbers have a direction each: `sgn` of an infinite one is NaN, which is alike to none.
        return near | both_odd | (beyond & (value.sgn() == target.sgn()))

    return close


def _wrong_elements(failure: Failure, close: Close) -> torch.Tensor:
    if failure.gate is not None and failure.gate.refused is not None:
        return failure.gate.refused
    wrong = _wrong(failure.candidate, failure.expected, close)
    return wrong if bool(wrong.any()) else _furthest(failure.candidate, failure.expected)


def _wrong(candidate: torch.Tensor, expected: torch.Tensor, close: Close) -> torch.Tensor:
    left, right = candidate.reshape(-1), expected.reshape(-1)
    pieces = [
        ~close(left[first : first + LOOKED_AT], right[first : first + LOOKED_AT])
        for first in range(0, left.numel(), LOOKED_AT)
    ]
    return torch.cat(pieces).reshape(candidate.shape)


def _furthest(candidate: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """For an output whose elements each pass but whose RMS does not: elements with at least half the largest error."""
    error = (wide(candidate) - wide(expected)).abs().nan_to_num(posinf=torch.inf)
    return error >= error.amax() / 2


def _shown_element(failure: Failure, wrong: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    """The first that is wrong, or the furthest, where elements were refused each by itself; and which of the two."""
    if failure.gate is not None and failure.gate.refused is not None:
        return "furthest", failure.gate.worst_index or ()
    return "first", _first(wrong)


def _first(wrong: torch.Tensor) -> tuple[int, ...]:
    place = int(wrong.reshape(-1).to(torch.uint8).argmax())
    index: list[int] = []
    for size in reversed(wrong.shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)
