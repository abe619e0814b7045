"""A whole result against the expected one: structure, shapes, dtypes, exact values, then the gate.

`gate` computes the errors of one floating output; `diagnosis` describes in words what went wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from kernelagent.domain.evaluation import Case, Disclosure, Reason
from kernelagent.tools.calls.complex_numbers import is_inexact, parts_first
from kernelagent.tools.calls.training_step import GRADIENTS
from kernelagent.tools.judge.verify.compare.exact import IndexRule, exact_difference
from kernelagent.tools.judge.verify.compare.fills import fills, without_fills
from kernelagent.tools.judge.verify.compare.form import (
    form_mismatch,
    layout,
    spelt,
    structure_mismatch,
)
from kernelagent.tools.judge.verify.compare.gate import GateResult
from kernelagent.tools.judge.verify.compare.measured_noise import with_measured_noise
from kernelagent.tools.judge.verify.compare.regions import (
    MeasureNoise,
    MeasureSpread,
    natural_rms,
)
from kernelagent.tools.judge.verify.compare.rounding_alone import rounding_alone
from kernelagent.tools.judge.verify.compare.single_elements import FarOff, far_off, first_off
from kernelagent.tools.judge.verify.compare.undetermined import gate_by_what_is_known
from kernelagent.tools.judge.verify.compare.within_budget.not_by_rounding import not_by_rounding

OtherAnswers = Callable[[Any], Iterator[tuple[Any, Any]]]
"""`(candidate's result) -> (eager, oracle64)`, each where the reference chooses otherwise among equal values."""
_NO_ERROR = (0.0, 0.0, 0.0, 0.0)
_SHOWN = 80
"""Characters of a value in a message."""


@dataclass(frozen=True)
class Expected:
    """What the reference says about one call; the three trees have one structure."""

    eager: Any
    oracle64: Any
    """The same in float64 (integers and booleans as they are)."""
    natural_rms: Mapping[str, float]
    """Scale of each floating output on the natural input, by name (see `scales_of`).

    An output that is not named is its own scale.
    """
    index_ok: IndexRule | None = None
    otherwise: OtherAnswers | None = None
    """Asked where a result was refused: other answers that are as right, each as a whole."""
    measure_noise: MeasureNoise | None = None
    measure_steps: MeasureSpread | None = None
    """Asked where a single element is far off by its own size."""
    by_slices: bool = False
    """Whether columns far smaller than their neighbours are held to their own size."""
    moved: Any = None
    """The float64 answer on inputs rounded once more, where single elements are held to their own size."""
    near: Any = None
    """The same, nearer, for what is told where it is no reason to refuse; None: `moved`."""
    natural64: Any = None
    """The float64 answer on natural inputs under the same weights: its rows and columns have sizes of their own."""


@dataclass(frozen=True)
class Failure:
    """The output that decided against the candidate, for `diagnosis`."""

    output: str
    candidate: torch.Tensor
    expected: torch.Tensor
    """In float64 where the output is floating."""
    gate: GateResult | None
    """None where the comparison was exact."""


@dataclass(frozen=True)
class Comparison:
    """The verdict on one call's result."""

    cases: tuple[Case, ...]
    """One per output that could be compared by value."""
    reason: Reason | None
    """The first failure; None: everything is as expected."""
    disclosures: tuple[Disclosure, ...] = ()
    failure: Failure | None = None
    """Present where values were compared and found wrong."""

    @property
    def passed(self) -> bool:
        return self.reason is None


def leaves(result: Any, name: str = "output") -> Iterator[tuple[str, Any]]:
    """Every tensor and plain value of a result with its name, for example `output[0]['mask']`."""
    if isinstance(result, list | tuple):
        for at, item in enumerate(result):
            yield from leaves(item, f"{name}[{at}]")
    elif isinstance(result, Mapping):
        for key, item in result.items():
            yield from leaves(item, f"{name}[{key!r}]")
    else:
        yield name, result


def scales_of(oracle64: Any) -> dict[str, float]:
    """`Expected.natural_rms` from the oracle's result on the natural input; what `fills` a place is no part of it."""
    return {
        name: natural_rms(without_fills(_raised(leaf)))
        for name, leaf in leaves(oracle64)
        if _is_floating(leaf)
    }


def compare(
    candidate: Any,
    expected: Expected,
    *,
    input_set: str,
    probe: str,
    devices: Mapping[str, str] | None = None,
) -> Comparison:
    """Judge one call's result against the reference's.

    `devices` tells, by output name, the kind of device the candidate's tensor lived on before it
    was brought here; without it the tensors are taken as they lie.
    """
    first = _compared(candidate, expected, input_set, probe, devices)
    # Of a wrong form there are no cases.
    if first.passed or not first.cases or expected.otherwise is None:
        return first
    for eager, oracle64 in expected.otherwise(candidate):
        other = replace(expected, eager=eager, oracle64=oracle64)
        again = _compared(candidate, other, input_set, probe, devices)
        if again.passed:
            return again
    return first


def _compared(
    candidate: Any,
    expected: Expected,
    input_set: str,
    probe: str,
    devices: Mapping[str, str] | None,
) -> Comparison:
    mismatch = structure_mismatch(candidate, expected.eager, "output")
    if mismatch is not None:
        return Comparison((), Reason("wrong_structure", mismatch))
    triples = _paired(candidate, expected)
    for name, got, eager, _ in triples:
        reason = form_mismatch(name, got, eager, (devices or {}).get(name))
        if reason is not None:
            return Comparison((), reason)
    judged = [_judge(*triple, expected) for triple in triples]
    failed = next((verdict for verdict in judged if verdict.reason is not None), None)
    result = [item for verdict in judged for item in verdict.disclosures]
    result += [item for name, got, eager, _ in triples for item in layout(name, got, eager)]
    if probe == "natural" and failed is None:
        result += [found for triple in triples if (found := _only_rounding(*triple)) is not None]
    return Comparison(
        cases=tuple(verdict.case(input_set, probe) for verdict in judged),
        reason=failed.reason if failed else None,
        disclosures=tuple(result),
        failure=failed.failure if failed else None,
    )


def _only_rounding(name: str, got: Any, eager: Any, oracle: Any) -> Disclosure | None:
    # A gradient that is zero in exact numbers, as of a bias before a norm, is rounding in every module.
    if not _is_floating(eager) or name.startswith(f"output[{GRADIENTS!r}]"):
        return None
    return rounding_alone(name, _as_tensor(got), _as_tensor(eager), _raised(oracle))


@dataclass(frozen=True)
class _Judged:
    output: str
    errors: tuple[float, float, float, float]
    """RMS error and budget, largest error and budget."""
    reason: Reason | None = None
    disclosures: tuple[Disclosure, ...] = ()
    failure: Failure | None = None

    def case(self, input_set: str, probe: str) -> Case:
        return Case(input_set, probe, self.output, *self.errors, passed=self.reason is None)


def _paired(candidate: Any, expected: Expected) -> list[tuple[str, Any, Any, Any]]:
    got = dict(leaves(candidate))
    oracle = dict(leaves(expected.oracle64))
    return [(name, got[name], eager, oracle[name]) for name, eager in leaves(expected.eager)]


def _judge(name: str, got: Any, eager: Any, oracle: Any, expected: Expected) -> _Judged:
    if _is_floating(eager):
        return _judge_by_gate(name, _as_tensor(got), _as_tensor(eager), _raised(oracle), expected)
    if isinstance(eager, torch.Tensor):
        return _judge_exactly(name, got, eager, oracle, expected.index_ok)
    if got == eager:
        return _Judged(name, _NO_ERROR)
    message = f"{name} {_apart(got, eager)}"
    return _Judged(name, (math.inf, 0.0, math.inf, 0.0), Reason("wrong_output", message))


def _apart(got: Any, eager: Any) -> str:
    """How two unlike values differ, in words that are never the same on both sides."""
    ours, theirs = repr(got), repr(eager)
    if ours == theirs:
        return f"is another {type(eager).__name__} than the reference's, and both are written {ours:.80}"
    pairs = zip(ours, theirs, strict=False)
    place = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    if place < _SHOWN:
        return f"is {ours:.{_SHOWN}}; the reference returns {theirs:.{_SHOWN}}"
    begin = place - _SHOWN // 2
    return (
        f"is written with {ours[begin : begin + _SHOWN]!r} from character {begin} on; the reference's with "
        f"{theirs[begin : begin + _SHOWN]!r}"
    )


def judge_floating(
    name: str, got: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor, expected: Expected
) -> GateResult:
    """The gate on one output; where it refuses, once more with the noise measured for that output."""
    scale = expected.natural_rms.get(name)
    filled = fills(oracle)
    if scale is None:
        scale = natural_rms(oracle if filled is None else oracle[~filled])
    judge = partial(gate_by_what_is_known, got, eager, oracle, scale, filled)
    result = judge()
    if result.passed or result.nonfinite or expected.measure_noise is None:
        return result
    noise = expected.measure_noise(name, lambda so_far: judge(so_far).passed)
    return with_measured_noise(judge, name, noise, (got, eager, oracle))


def _judge_by_gate(
    name: str, got: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor, expected: Expected
) -> _Judged:
    result = judge_floating(name, got, eager, oracle, expected)
    errors = (result.rms_error, result.rms_budget, result.max_error, result.max_budget)
    parts = (parts_first(got), parts_first(eager), parts_first(oracle))
    if result.passed and expected.moved is None:
        measured = expected.measure_noise
        found = not_by_rounding(
            f"{name} (real and imaginary parts as its first dimension)"
            if got.is_complex()
            else name,
            *parts,
            natural=expected.by_slices,
            measure_noise=None if measured is None else _of_output(measured, name),
        )
        if found.refused is not None:
            return _Judged(name, errors, found.refused)
        result = replace(result, disclosures=(*result.disclosures, *found.told))
    if expected.moved is not None and not result.nonfinite:
        result = _by_single_elements(name, result, *parts, expected, of_parts=got.is_complex())
    if result.passed:
        return _Judged(name, errors, disclosures=result.disclosures)
    failure = Failure(name, got, oracle, result)
    return _Judged(name, errors, _gate_reason(failure, eager), failure=failure)


def _by_single_elements(
    name: str,
    result: GateResult,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    expected: Expected,
    *,
    of_parts: bool,
) -> GateResult:
    """The gate's result, decided by whether any element is far off by itself.

    Where sizes differ by powers of ten, sums in another order lose digits that no budget of eager's
    shows: such inputs ask whether it is the same function, the others how exact it is. Of a complex output the three
    tensors have the parts as their first dimension (`of_parts`).
    """
    moved = dict(leaves(expected.moved)).get(name)
    if not isinstance(moved, torch.Tensor) or moved.shape != oracle.shape:
        return result
    # Errors below the gate's floor were accepted by the gate, and are not looked at again.
    scale = expected.natural_rms.get(name, 0.0) if result.passed else 0.0
    judge = partial(far_off, got, eager, oracle, moved, scale)
    found = judge()
    if found is not None and expected.measure_steps is not None:
        found = judge(_by_parts(expected.measure_steps(name), oracle))
    if found is None:
        off = _off(name, got, eager, oracle, expected, of_parts=of_parts)
        return replace(result, passed=True, disclosures=(*result.disclosures, *off))
    return _refused(result, found, of_parts=of_parts)


def _by_parts(spread: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """How far each element is moved; either part of a complex one may be moved by all of it."""
    return None if spread is None else spread.expand(like.shape)


def _refused(result: GateResult, found: FarOff, *, of_parts: bool) -> GateResult:
    index = tuple(int(i) for i in np.unravel_index(found.place, tuple(found.elements.shape)))
    if of_parts:
        index, elements = index[1:], found.elements.any(0)
    else:
        elements = found.elements
    return replace(result, passed=False, worst_index=index, worst_block=None, refused=elements)


def _off(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    expected: Expected,
    *,
    of_parts: bool,
) -> tuple[Disclosure, ...]:
    """What is told of an element that is further off than rounding explains, and not so far that it is refused."""
    near = expected.moved if expected.near is None else expected.near
    moved = dict(leaves(near))[name]
    natural = dict(leaves(expected.natural64)).get(name)
    natural = parts_first(natural) if isinstance(natural, torch.Tensor) else None
    like = natural if natural is not None and natural.shape == oracle.shape else None
    place = first_off(got, eager, oracle, moved, expected.natural_rms.get(name, 0.0), like)
    if place is None:
        return ()
    index = tuple(int(i) for i in np.unravel_index(place, tuple(oracle.shape)))
    is_, right = got[index].item(), oracle[index].item()
    if of_parts:
        name, index = f"the {('real', 'imaginary')[index[0]]} part of {name}", index[1:]
    return (
        Disclosure(
            "off_on_special_values",
            f"{name} is {is_:.4g} in the place of {right:.4g} at {list(index)} of a call with special values (numbers of "
            f"the sources in inputs and weights, rows in order or alike, masks of one form, very large or small numbers), "
            f"further off than rounding explains there",
        ),
    )


def _of_output(measure: MeasureNoise, name: str) -> MeasureNoise:
    """Of this one, whatever it is called where it is told about."""
    return lambda _, enough=None: measure(name, enough)


def _gate_reason(failure: Failure, eager: torch.Tensor) -> Reason:
    result = failure.gate
    assert result is not None
    at = result.worst_index or ()
    got, want = failure.candidate[at].item(), failure.expected[at].item()
    where = f"{failure.output}{list(at)}" if at else failure.output
    detail: dict[str, Any] = {
        "output": failure.output,
        "index": list(at),
        "got": str(got),
        "expected": str(want),
    }
    if result.nonfinite:
        message = f"{where} is {got:.6g}; the reference has {want:.6g} there"
        return Reason("nonfinite", message, detail)
    detail |= {
        "rms_error": result.rms_error,
        "rms_budget": result.rms_budget,
        "max_error": result.max_error,
        "max_budget": result.max_budget,
    }
    if result.refused is not None:
        message = f"{where} is {got:.6g} in the place of {want:.6g}, further off than rounding explains there"
        return Reason("wrong_output", message, detail)
    over = f"{result.ratio:.3g} times" if math.isfinite(result.ratio) else "beyond"
    message = (
        f"{failure.output} is wrong: its error is {over} the budget for {spelt(eager.dtype)}; "
        f"worst at {list(at)}: got {got:.6g}, expected {want:.6g}"
    )
    return Reason("wrong_output", message, detail)


def _judge_exactly(
    name: str, got: torch.Tensor, eager: torch.Tensor, oracle: torch.Tensor, rule: IndexRule | None
) -> _Judged:
    difference = exact_difference(name, got, eager, oracle, rule)
    if difference is None:
        return _Judged(name, _NO_ERROR)
    failure = Failure(name, got, eager, None)
    reason = Reason("wrong_output", difference.message, difference.detail)
    return _Judged(name, (difference.rms, 0.0, difference.largest, 0.0), reason, failure=failure)


def _is_floating(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return is_inexact(value)
    return isinstance(value, float | complex)


def _as_tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    # A Python number of a reference is some tensor's `.item()`: single precision.
    return torch.tensor(
        value, dtype=torch.complex64 if isinstance(value, complex) else torch.float32
    )


def _raised(oracle: Any) -> torch.Tensor:
    tensor = oracle if isinstance(oracle, torch.Tensor) else torch.tensor(oracle)
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
