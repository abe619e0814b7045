"""Is a problem checkable at all? Asked of the reference alone, before any candidate is judged.

The gate must refuse every automatic mutant on some probe, and the reference must respond to every
input and weight. Every mutant the gate accepts is disclosed with each acceptance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.judge.admission.mutants import (
    Checked,
    Mutant,
    Outputs,
    Reference,
    floating,
    mutants,
)
from kernelagent.tools.judge.admission.responses import REFUSALS, equal, identical, response
from kernelagent.tools.judge.problem.trials.input_domain import observe
from kernelagent.tools.judge.verify.compare.compare import judge_floating, leaves

_FAR = 4096.0
"""A mutant whose error is more than this many times its budget is refused at once. For any other the rounding noise
is measured first (a dozen forwards), because the budget is a multiple of eager's own error, a single sample of that noise."""


@dataclass(frozen=True)
class Admission:
    """What the judge can and cannot tell about candidates for this problem."""

    degenerate: bool
    """True: a constant is accepted as its answer; there is nothing to optimise."""
    survivors: tuple[str, ...]
    """Mutants the gate accepts on every probe."""
    insensitive_arguments: tuple[str, ...]
    """Inputs and weights that never change the reference's answer, whatever their values."""
    disclosures: tuple[Disclosure, ...]
    not_tried: tuple[str, ...] = ()
    """Inputs and weights for which the time was up before all was tried."""
    faint_arguments: tuple[str, ...] = ()
    """Inputs and weights that change it by less than the gate sees, while they stay as large as they are."""


class _TimeIsUp(Exception):
    pass


def admit(
    cases: Sequence[Checked],
    reference: Reference,
    generator: torch.Generator,
    late: Callable[[], bool] = lambda: False,
) -> Admission:
    """Try all mutants on all cases; the first case is on natural inputs.

    `reference` is the float64 reference on inputs and weights by name. Once it is `late`, no more is
    tried of single inputs and weights, and they are named; what concerns all of them always is.
    """
    candidates = [m for m in mutants(cases[0], reference) if len(cases) > 1 or not m.of_first]
    survivors = [m for m in candidates if m.tensor is None and _survives(m, cases)]
    silent: list[str] = []
    faint: list[str] = []
    not_tried: list[str] = []
    for name, tensor in cases[0].tensors.items():
        try:
            if _can_change(tensor):
                in_time = partial(_in_time, cases, late)
                found = response(name, in_time, reference, generator, _refused)
                silent += [name] if found == "none" else []
                faint += [name] if found == "faint" else []
            for mutant in candidates:
                if mutant.tensor == name and _survives(mutant, _in_time(cases, late)):
                    survivors.append(mutant)
        except _TimeIsUp:
            not_tried.append(name)
    degenerate = any(mutant.constant for mutant in survivors) or _never_changes(cases)
    # Of those that were named, every wrong kernel is accepted.
    named = {*silent, *faint}
    names = tuple(m.name for m in survivors if not m.constant and m.tensor not in named)
    reported = (*_disclosed(degenerate, names, silent, faint), *_repeated(cases))
    if not_tried:
        tried = {mutant.tensor for mutant in candidates}
        every = [n for n, t in cases[0].tensors.items() if n in tried or _can_change(t)]
        reported += (_left_out(not_tried, every),)
    return Admission(
        degenerate, names, tuple(silent), reported, tuple(not_tried), faint_arguments=tuple(faint)
    )


def _in_time(cases: Sequence[Checked], late: Callable[[], bool]) -> Iterator[Checked]:
    """The cases one after another; raises `_TimeIsUp` in place of the next one."""
    for case in cases:
        if late():
            raise _TimeIsUp
        yield case


def _survives(mutant: Mutant, cases: Iterable[Checked]) -> bool:
    """Whether the gate accepts it everywhere, though it differs from the right answer somewhere."""
    differs = False
    for case in cases:
        try:
            answer = mutant.answer(case)
        except REFUSALS:
            # The reference has no answer to the mutated inputs: no kernel could give it either.
            return False
        if answer is None:
            return False
        if _refused(answer, case):
            return False
        differs |= any(not identical(y, case.outputs[name]) for name, y in answer.items())
    return differs or mutant.constant


def _refused(answer: Outputs, case: Checked) -> bool:
    return _beyond(answer, case, _FAR) or _beyond(answer, case, None)


def _beyond(answer: Outputs, case: Checked, far: float | None) -> bool:
    """Whether the gate refuses an output; with `far`: by more than `far` times its budget, without measuring the noise."""
    eager = floating(case.expected.eager)
    expected = case.expected if far is None else replace(case.expected, measure_noise=None)
    results = (
        judge_floating(name, y.to(eager[name].dtype), eager[name], case.outputs[name], expected)
        for name, y in answer.items()
    )
    return any(not result.passed and (far is None or result.ratio > far) for result in results)


def _repeated(cases: Sequence[Checked]) -> tuple[Disclosure, ...]:
    """Discloses inputs whose last dimension holds each number twice: the judge keeps that in all inputs it makes,
    because kernels may rely on it."""
    names = [
        name
        for name, tensor in cases[0].tensors.items()
        if tensor.is_floating_point()
        and all(observe(case.tensors[name]).repeats != "none" for case in cases)
    ]
    if not names:
        return ()
    message = (
        f"{', '.join(names)}: the last dimension holds each number twice (equal halves or pairs) in the inputs "
        "given, and did in all that were tried; a call where it does not was not judged"
    )
    return (Disclosure("inputs_repeat", message),)


def _never_changes(cases: Sequence[Checked]) -> bool:
    """True when an answer without floating outputs is the same on every case."""
    first = dict(leaves(cases[0].expected.eager))
    if floating(cases[0].expected.eager) or len(cases) < 2 or not first:
        return False
    return all(
        equal(value, first[name])
        for case in cases[1:]
        for name, value in leaves(case.expected.eager)
    )


def _can_change(tensor: torch.Tensor) -> bool:
    """False for constant integers: they may be sizes or counts, and other valid values are unknown."""
    return tensor.numel() > 0 and (
        is_inexact(tensor) or bool((tensor != tensor.reshape(-1)[0]).any())
    )


def _disclosed(
    degenerate: bool, survivors: Sequence[str], silent: Sequence[str], faint: Sequence[str]
) -> list[Disclosure]:
    result = []
    if degenerate:
        message = (
            "a constant is accepted as the answer to this problem: there is nothing to compute"
        )
        result.append(Disclosure("degenerate", message))
    if survivors:
        message = f"the judge cannot tell a right kernel from one with: {'; '.join(survivors)}"
        result.append(Disclosure("weakly_checkable", message))
    if silent:
        message = f"the reference does not respond to: {', '.join(silent)}"
        result.append(Disclosure("insensitive_argument", message))
    if faint:
        message = (
            f"other values of these, about as large as those given, move the answer by less than may be rounded "
            f"away, so the judge cannot tell a kernel that ignores them: {', '.join(faint)}"
        )
        result.append(Disclosure("faint_argument", message))
    return result


def _left_out(names: Sequence[str], every: Sequence[str]) -> Disclosure:
    message = (
        f"the time for it was up before all wrong kernels were tried for {len(names)} of {len(every)} inputs "
        f"and weights, so whether the judge tells a kernel that ignores or shortens one of these is not "
        f"known: {', '.join(_together(names, every))}"
    )
    return Disclosure("mutants_not_tried", message)


def _together(names: Sequence[str], every: Sequence[str]) -> tuple[str, ...]:
    """The names in order; all below one module as `layer4.*`."""
    meant = set(names)
    result: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts)):
            prefix = ".".join(parts[:length]) + "."
            below = [other for other in every if other.startswith(prefix)]
            if len(below) > 1 and meant.issuperset(below):
                result[prefix + "*"] = None
                break
        else:
            result[name] = None
    return tuple(result)
