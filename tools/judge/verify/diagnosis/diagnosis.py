"""What is wrong with a wrong output, in words a model can act on; never the expected tensor itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernelagent.tools.candidate_runner.unwritten import NAN
from kernelagent.tools.judge.verify.compare.by_index import by_index
from kernelagent.tools.judge.verify.compare.compare import Failure
from kernelagent.tools.judge.verify.compare.gate import GateResult, unit_roundoff
from kernelagent.tools.judge.verify.compare.tiles import only_diagonal_right
from kernelagent.tools.judge.verify.diagnosis.error_locations import Along, restrictions

_LOOKED_AT = 1 << 22
"""Elements that fits and shifts are tried on; where errors lie is found over all of them."""
_ROUNDING = (("TF32 or float16", 2.0**-13, 2.0**-10), ("bfloat16", 2.0**-10, 2.0**-6))
_EVERYWHERE = 0.2
_FEWEST_ROUNDED = 32
"""Wrong elements from which on their size tells a rounding: a few are as far off by chance."""
_OFFSET_SPREAD = 1e-3
"""Products of positive operands that are cut off, as TF32 does, err by nearly the same too: by 1 %."""
_MUCH_NEARER = 0.05
"""A result is another answer, up to rounding, if its distance to it is below this share of the error."""


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


@dataclass(frozen=True)
class _Found:
    pattern: str
    words: str
    detail: dict[str, Any] = field(default_factory=dict)


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
    evidence = _Evidence(
        inputs or {}, without or {}, instead or {}, shortened, vectors or {}, previous, poison
    )
    close = _tolerance(candidate, failure.gate)
    wrong = _wrong(candidate, expected, close)
    if not bool(wrong.any()):
        wrong = _furthest(candidate, expected)
    count, total = int(wrong.sum()), wrong.numel()
    at = _first(wrong)
    got, want = candidate[at].item(), expected[at].item()
    detail: dict[str, Any] = {
        "output": failure.output,
        "index": list(at),
        "got": _plain(got),
        "expected": _plain(want),
        "share_wrong": count / total,
    }
    looked = _Look(candidate, expected, wrong, close, evidence)
    result = next((hit for search in _SEARCHES for hit in search(looked)), None)
    if only_on is not None:
        detail["only_on"] = only_on
    if result is not None:
        detail |= {"pattern": result.pattern, **result.detail}
    sentence = _sentence(failure.output, at, (got, want), (count, total), result, only_on)
    return Diagnosis(sentence, detail)


@dataclass(frozen=True)
class _Evidence:
    inputs: Mapping[str, torch.Tensor]
    without: Mapping[str, torch.Tensor]
    instead: Mapping[str, torch.Tensor]
    shortened: Iterable[tuple[str, torch.Tensor]]
    vectors: Mapping[str, torch.Tensor]
    previous: torch.Tensor | None
    poison: tuple[float, ...]


def _sentence(
    name: str,
    at: tuple[int, ...],
    values: tuple[Any, Any],
    wrong: tuple[int, int],
    outcome: _Found | None,
    only_on: str | None,
) -> str:
    count, total = wrong
    share = f"{count / total:.1%}" if count / total >= 0.001 else f"{count}"
    fact = f"{name} is wrong in {share} of {total} elements"
    where = f", on {only_on} only" if only_on is not None else ""
    first = f"first at {list(at)}: got {_shown(values[0])}, expected {_shown(values[1])}"
    return f"{fact}{where}; {outcome.words}; {first}" if outcome else f"{fact}{where}; {first}"


_Origin = Literal["computed", "fresh", "either"]
Close = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""`(candidate, expected) -> bool per element`: equal up to rounding."""


@dataclass(frozen=True)
class _Look:
    candidate: torch.Tensor
    expected: torch.Tensor
    wrong: torch.Tensor
    close: Close
    evidence: _Evidence

    def same(self, left: torch.Tensor, right: torch.Tensor) -> bool:
        """Equal up to rounding in nearly all of the elements looked at."""
        if left.shape != right.shape or left.numel() == 0:
            return False
        near = self.close(_some(left), _some(right))
        return float(near.to(torch.float32).mean()) > 0.999

    def is_instead(self, other: torch.Tensor) -> bool:
        """Whether the candidate equals `other` and the right answer does not; with few wrong elements both would."""
        return self.same(self.candidate, other) and not self.same(self.expected, other)

    def answers(self, other: torch.Tensor) -> bool:
        """Whether the candidate computes `other` instead of what is expected.

        Elements much nearer to `other` count as equal too: the tolerance is that of the block of rows that
        failed, and a row with hardly any variance rounds far worse. That holds only while the distance to `other`
        is at most the RMS of `other`: else an output that is merely far too small would pass for all zeros.
        """
        if self.candidate.shape != other.shape or self.candidate.numel() == 0:
            return False
        got, want, answer = (_some(t) for t in (self.candidate, self.expected, other))
        missed = (_wide(got) - _wide(answer)).abs()
        nearer = missed <= _MUCH_NEARER * (_wide(got) - _wide(want)).abs()
        typical = _wide(answer).abs().square().nan_to_num().mean().sqrt()
        near = self.close(got, answer) | (nearer & (missed <= typical))
        wrong = _some(self.wrong)
        shares = (near, near[wrong]) if bool(wrong.any()) else (near,)
        return all(float(share.to(torch.float32).mean()) > 0.99 for share in shares)


def _tolerance(candidate: torch.Tensor, result: GateResult | None) -> Close:
    if result is None:
        return lambda left, right: left == right
    half_ulp = unit_roundoff(candidate.dtype)
    budget = result.rms_budget

    def close(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        value, target = _wide(left), _wide(right)
        error = (value - target).abs()
        both_odd = ~value.isfinite() & ~target.isfinite() & ((value == target) | value.isnan())
        near = (error <= budget + 8 * half_ulp * target.abs()) & target.isfinite()
        return near | both_odd

    return close


def _wrong(candidate: torch.Tensor, expected: torch.Tensor, close: Close) -> torch.Tensor:
    left, right = candidate.reshape(-1), expected.reshape(-1)
    pieces = [
        ~close(left[first : first + _LOOKED_AT], right[first : first + _LOOKED_AT])
        for first in range(0, left.numel(), _LOOKED_AT)
    ]
    return torch.cat(pieces).reshape(candidate.shape)


def _furthest(candidate: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """For an output whose elements each pass but whose RMS does not: elements with at least half the largest error."""
    error = (_wide(candidate) - _wide(expected)).abs().nan_to_num(posinf=torch.inf)
    return error >= error.amax() / 2


def _first(wrong: torch.Tensor) -> tuple[int, ...]:
    place = int(wrong.reshape(-1).to(torch.uint8).argmax())
    index: list[int] = []
    for size in reversed(wrong.shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))


def _unwritten(look: _Look) -> Iterator[_Found]:
    values = _wide(look.candidate[look.wrong])
    item = values[0]
    if bool(look.candidate.isnan().all()):
        # Without a place that says so, nothing tells fresh memory from what inf - inf left.
        yield _Found(
            "all_nan",
            "the whole output is NaN: made by arithmetic (as inf - inf), or never written",
        )
        return
    if values.numel() < 2 or not bool(((values == item) | (values.isnan() & item.isnan())).all()):
        return
    poison = torch.tensor(look.evidence.poison).to(look.candidate.dtype).to(values)
    poisoned = bool((poison == item).any())
    if bool(item.isnan()):
        yield _found_nan(_origin_of_nan(look.candidate[look.wrong]), _where(look))
    elif poisoned:
        yield _never_written(_where(look), _plain(item.item()))
    elif float(item) == 0:
        if bool((look.candidate == 0).all()):
            yield _Found("all_zero", "the whole output is zero")
        elif where := _where(look):
            yield _Found("unwritten", f"zero in {where}", {"value": 0})
    elif bool((look.candidate == look.candidate.reshape(-1)[0]).all()):
        yield _Found("constant", f"the whole output is {float(item):.6g}")


def _never_written(where: str | None, value: Any) -> _Found:
    words = f"never written: {where}" if where else "those elements were never written"
    return _Found("unwritten", words, {"value": value})


def _found_nan(origin: _Origin, where: str | None) -> _Found:
    if origin == "computed":
        words = "the NaN comes from arithmetic"
        return _Found("computed_nan", f"{words}: {where}" if where else words)
    if origin == "fresh":
        return _never_written(where, "nan")
    words = "NaN made by arithmetic (as inf - inf), or never written"
    return _Found("nan_of_either", f"{words}: {where}" if where else words)


def _origin_of_nan(values: torch.Tensor) -> _Origin:
    """Whether NaN was computed or lay in fresh memory, by its bits: a computed one has a sign, or all bits but the sign.

    Fresh memory holds torch's own NaN on `virtual` and 0x7fff repeated on `cuda`; in 16 bits the latter is the NaN that a
    GPU computes, and eight bits have only one.
    """
    size = values.element_size()
    if size == 1 or values.is_complex():
        return "either"
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bits = values.contiguous().view(kind)
    of_torch = torch.tensor(math.nan, dtype=values.dtype).view(kind)
    repeated = torch.full((size // 2,), NAN, dtype=torch.int16).view(kind)[0]
    if size == 2 and bool((bits == repeated).all()):
        return "either"
    fresh = (bits == of_torch) | (bits == repeated)
    return "fresh" if bool(fresh.all()) else "computed"


def _exchanged(look: _Look) -> Iterator[_Found]:
    for words, answer in look.evidence.instead.items():
        if look.answers(answer):
            yield _Found("operands_exchanged", f"it is the right answer if {words}", {"if": words})


def _partly_unwritten(look: _Look) -> Iterator[_Found]:
    """Beside other errors, a region that holds the NaN of fresh memory."""
    if not look.candidate.is_floating_point():
        return
    odd = look.candidate.isnan() & ~look.expected.isnan()
    if not bool(odd.any()) or _origin_of_nan(look.candidate[odd]) != "fresh":
        return
    if where := " and ".join(along.named(odd.dim()) for along in restrictions(odd)):
        words = f"never written: {where}; the others are wrong as well"
        yield _Found("unwritten", words, {"value": "nan"})


def _something_else(look: _Look) -> Iterator[_Found]:
    previous = look.evidence.previous
    if previous is not None and look.is_instead(previous):
        yield _Found("stale", "it equals the output of an earlier call, whose inputs differed")
    for name, answer in look.evidence.without.items():
        if look.answers(answer):
            words = f"it is the right answer if {name} is ignored"
            yield _Found("operand_ignored", words, {"ignored": name})
    for name, tensor in look.evidence.inputs.items():
        if look.is_instead(tensor):
            yield _Found("equals_input", f"it equals the input {name}", {"input": name})


def _moved(look: _Look) -> Iterator[_Found]:
    got, want = look.candidate, look.expected
    if got.numel() > 4 * _LOOKED_AT:
        return
    if got.dim() >= 2 and not look.same(want, want.mT.reshape(want.shape)):
        flipped = want.mT.reshape(want.shape)
        if look.same(got, flipped):
            yield _Found("transposed", "it is transposed in its last two dimensions")
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
                yield _Found("shifted", words, {"dim": dim, "by": by})


def _scaled(look: _Look) -> Iterator[_Found]:
    if look.candidate.is_complex() or look.candidate.dtype == torch.bool:
        return
    got, want = _wide(_some(look.candidate)), _wide(_some(look.expected))
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
        yield _Found(code, words, {"factor": factor})
        return
    offset = float((got - want).median())
    spread = float((got - want - offset).abs().median())
    if offset != 0 and spread <= _OFFSET_SPREAD * abs(offset):
        yield _Found("offset", f"it is off by {offset:.6g} everywhere", {"offset": offset})


def _placed(look: _Look) -> Iterator[_Found]:
    result = restrictions(look.wrong)
    if not result:
        if where := _off_the_diagonal(look):
            yield _Found("off_diagonal", f"wrong: {where}")
        return
    words = "all of them in " + " and ".join(a.named(look.wrong.dim()) for a in result)
    yield _Found(_pattern_of(result), words, {"where": [_as_data(along) for along in result]})


def _by_index(look: _Look) -> Iterator[_Found]:
    outcome = by_index(look.candidate, look.expected, look.close, look.evidence.vectors)
    if outcome is not None:
        detail: dict[str, Any] = {"dim": outcome.dim, "varies": outcome.kind}
        detail |= {} if outcome.lanes is None else {"lanes": outcome.lanes}
        detail |= {} if outcome.tensor is None else {"tensor": outcome.tensor, "how": outcome.times}
        yield _Found(
            f"{outcome.kind}_by_{'index' if outcome.lanes is None else 'lane'}",
            outcome.words,
            detail,
        )


def _shortened(look: _Look) -> Iterator[_Found]:
    for words, answer in look.evidence.shortened:
        if look.answers(answer):
            yield _Found("part_left_out", f"it is the right answer if {words}", {"if": words})


def _rounded(look: _Look) -> Iterator[_Found]:
    if not look.candidate.is_floating_point() or look.candidate.dtype == torch.float64:
        return
    if float(look.wrong.to(torch.float32).mean()) < _EVERYWHERE:
        return
    if int(look.wrong.sum()) < _FEWEST_ROUNDED:
        return
    got, want = _wide(_some(look.candidate)), _wide(_some(look.expected))
    relative = float((got - want).square().mean().sqrt() / want.square().mean().sqrt())
    for kind, low, high in _ROUNDING:
        if low <= relative < high and unit_roundoff(look.candidate.dtype) < low:
            words = (
                f"the error is everywhere and {relative:.1e} of the values, as from {kind} inside"
            )
            yield _Found("low_precision", words, {"relative_error": relative, "as_from": kind})


_SEARCHES: tuple[Callable[[_Look], Iterator[_Found]], ...] = (
    _exchanged,
    _unwritten,
    _partly_unwritten,
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


def _where(look: _Look) -> str:
    places = " and ".join(along.named(look.wrong.dim()) for along in restrictions(look.wrong))
    return places or _off_the_diagonal(look)


def _off_the_diagonal(look: _Look) -> str:
    tile = only_diagonal_right(look.wrong)
    if tile is None:
        return ""
    return f"all but the tiles of {tile[0]} rows by {tile[1]} columns on the diagonal"


def _as_data(along: Along) -> dict[str, Any]:
    return {
        "dim": along.dim,
        "size": along.size,
        "first": along.first,
        "last": along.last,
        "step": along.step,
    }


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """The leading elements, enough to recognise a pattern by."""
    return tensor.reshape(-1)[:_LOOKED_AT]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _plain(value: Any) -> Any:
    """A JSON value; NaN, infinities and complex numbers as text."""
    if isinstance(value, complex) or (isinstance(value, float) and value - value != 0):
        return str(value)
    return value


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)
