"""The whole model's answers with a part replaced, each against its answer as given, on inputs drawn for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.evaluation import Case
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.copies import same_bits
from kernelagent.tools.judge.problem.reference.in_float64 import double
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.form import structure_mismatch
from kernelagent.tools.judge.whole_model.held import Opened, holds_foreign, mapped, opened
from kernelagent.tools.judge.whole_model.submodules import Whole

_TRIALS = 3
"""Calls on each input set."""
_UNSTEADY = "(another in each run of the model as it is)"


@dataclass(frozen=True)
class Answers:
    """What came of all calls."""

    cases: tuple[Case, ...]
    trials: int
    inputs: int
    """How many of them had inputs that no other had."""
    why: str | None = None
    """What was wrong in the last; None: nothing."""
    left_out: tuple[str, ...] = ()
    """Parts of the answers that could not be compared."""


def answers(whole: Whole, as_given: Callable[[], AbstractContextManager[None]]) -> Answers:
    """With the part replaced; in `as_given()` the model is without it."""
    cases: list[Case] = []
    seen: list[Any] = []
    left_out: dict[str, None] = {}
    trials, why = 0, None
    for name, call in _calls(whole, as_given):
        got = opened(whole.oracle.eager(call.arguments()))
        result = compare.compare(got.nest, call.expected(), input_set=name, probe="natural")
        if result.reason is not None and call.answer.foreign:
            with as_given():
                again = opened(whole.oracle.eager(call.arguments()))
            unsteady = _unsteady(call.answer, again)
            left_out |= dict.fromkeys(unsteady)
            result = compare.compare(
                _without(got.nest, unsteady),
                call.expected(unsteady),
                input_set=name,
                probe="natural",
            )
        cases += result.cases
        left_out |= dict.fromkeys(call.answer.left_out)
        if not any(_same(call.given, other) for other in seen):
            seen.append(call.given)
        trials += 1
        if result.reason is not None:
            why = f"{result.reason.code}: {result.reason.message}"
            break
    return Answers(tuple(cases), trials, len(seen), why, tuple(left_out))


@dataclass(frozen=True)
class _Call:
    """One call of the model as it is."""

    given: Arguments
    answer: Opened
    exact: Any
    """The answer in float64, as a nest of the same structure."""

    def arguments(self) -> Arguments:
        """For one more run, which may write into a cache."""
        return _for_a_run(self.given)

    def expected(self, unsteady: Collection[str] = ()) -> compare.Expected:
        nest, exact = _without(self.answer.nest, unsteady), _without(self.exact, unsteady)
        return compare.Expected(nest, exact, compare.scales_of(exact))


def _calls(
    whole: Whole, as_given: Callable[[], AbstractContextManager[None]]
) -> Iterator[tuple[str, _Call]]:
    for name in whole.inputs:
        with as_given():
            # The user's own example comes first where there is no function that draws.
            first = _asked(whole, whole.draw(name))
        yield name, first
        for _ in range(_TRIALS - 1):
            with as_given():
                call = _another(whole, name, first)
            yield name, call


def _another(whole: Whole, name: str, first: _Call) -> _Call:
    """On inputs as fresh as the model takes them: integers that were drawn may be none that it was made for."""
    if not whole.problem.constant_inputs:
        return _asked(whole, whole.draw(name))
    for fresh in (_any_tensor, torch.Tensor.is_floating_point):
        try:
            call = _asked(whole, whole.draw_like(name, fresh))
        except ProblemError:
            continue
        if _finite(call.answer.nest) or not _finite(first.answer.nest):
            return call
    return first


def _any_tensor(_: torch.Tensor) -> bool:
    return True


def _asked(whole: Whole, given: Arguments) -> _Call:
    answer = opened(whole.oracle.eager(_for_a_run(given)))
    exact = opened(_in_float64(whole, given)).nest
    if structure_mismatch(exact, answer.nest, "output") is not None:
        # What it does depends on the type of its numbers: its answer as given is all there is to compare with.
        exact = tree_map(double, answer.nest)
    return _Call(given, answer, exact)


def _in_float64(whole: Whole, given: Arguments) -> Any:
    """The float64 answer; where a given cache cannot be raised to float64, the answer as given."""
    if not holds_foreign(given):
        return whole.oracle.in_float64_or_eager(given)
    try:
        return whole.oracle.in_float64_or_eager(mapped(given, lambda tensor: tensor, double))
    except ProblemError:
        return mapped(whole.oracle.eager(_for_a_run(given)), double)


def _for_a_run(given: Arguments) -> Arguments:
    if not holds_foreign(given):
        return given
    args, kwargs = mapped(given, lambda tensor: tensor, torch.clone)
    return args, kwargs


def _unsteady(first: Opened, second: Opened) -> tuple[str, ...]:
    """Plain values in objects that differ between two runs of the model as it is, such as a time or a number of its own."""
    after = dict(compare.leaves(second.nest))
    return tuple(
        name
        for name, value in compare.leaves(first.nest)
        if not isinstance(value, torch.Tensor)
        and any(name.startswith(place) for place in first.foreign)
        and name in after
        and not (type(value) is type(after[name]) and value == after[name])
    )


def _without(nest: Any, names: Collection[str], name: str = "output") -> Any:
    """The nest with one text in all these places."""
    if name in names:
        return _UNSTEADY
    if not names or isinstance(nest, torch.Tensor):
        return nest
    if isinstance(nest, Mapping):
        return {key: _without(item, names, f"{name}[{key!r}]") for key, item in nest.items()}
    if isinstance(nest, list | tuple):
        items = [_without(item, names, f"{name}[{at}]") for at, item in enumerate(nest)]
        return items if isinstance(nest, list) else tuple(items)
    return nest


def _finite(nest: Any) -> bool:
    return all(
        bool(torch.isfinite(leaf.float()).all())
        for leaf in tree_leaves(nest)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )


def _same(one: Arguments, other: Arguments) -> bool:
    first, second = (tree_leaves(opened(given).nest) for given in (one, other))
    return len(first) == len(second) and all(map(_same_leaf, first, second))


def _same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return same_bits(one, other)
    return type(one) is type(other) and bool(one == other)
