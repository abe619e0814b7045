"""Calls with whole numbers for which what the module divides or compares comes out at a boundary.

`(a * b + c) % p` leaves nothing, or one less than `p`, in one of a thousand million draws; a quotient in floating point, a
reduction without its last step or a carry that is told by `<` is wrong there alone. The reference is followed: an input
that enters a dividend alone is moved by what was left, and the call is made if that came out as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.calls.torch_dtypes import holds_integers
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.input_domain import Tensors, laid_out_like, observe
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.one_trial import pair, trial_on
from kernelagent.tools.judge.problem.trials.planting.beside_multiples import (
    beside_multiples,
    end_of_range,
)
from kernelagent.tools.judge.problem.trials.planting.literals import Literals
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial, in_rounds
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order
from kernelagent.tools.judge.verify.compare import compare

PROBE = "solved"
_QUOTIENTS = frozenset("remainder fmod floor_divide div bitwise_and".split())
_SHIFTS = frozenset("bitwise_right_shift __rshift".split())
_ORDERS = frozenset("lt le gt ge eq ne minimum maximum sign".split())
_MOST_STEPS = 24
"""Of the reference's steps so many are looked at."""
_MOST_ELEMENTS = 1 << 20
_MOST_INPUTS = 3
_HARDLY = 2.0**-20
"""Of what is usual: float32 takes some of these for equal."""
_LEAST_SPAN = 16
"""Between the smallest and the largest number of an input, or all of it comes in any draw."""
_CALLS = 2
_MOST_BESIDE = 4096
Kind = Literal["quotient", "order"]


@dataclass(frozen=True)
class Step:
    """One step of the reference on whole numbers."""

    kind: Kind
    values: torch.Tensor
    """The dividends, or the differences of what is compared; int64."""
    divisor: torch.Tensor
    """int64; of one element or as the values are. Of a comparison nothing depends on it."""

    def at_boundaries(self) -> int:
        """How many of the values leave nothing, or one less than the divisor, or differ by hardly anything."""
        if self.kind == "order":
            apart = self.values.double().abs()
            return int((apart <= (_HARDLY * apart.mean()).clamp_min(1.0)).sum())
        left = self.values.remainder(self.divisor)
        return int(((left == 0) | (left == self.divisor - 1)).sum())


class _Following(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, notes the steps, in their order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = str(func.overloadpacket).partition(".")[2].rstrip("_")
        if len(self.steps) < _MOST_STEPS and (len(args) > 1 or name == "sign"):
            step = _step(name, args[0], 0 if name == "sign" else args[1])
            if step is not None:
                self.steps.append(step)
        return func(*args, **(kwargs or {}))


def followed(call: Callable[[], Any]) -> list[Step]:
    """The first steps of the call that divide or compare whole numbers."""
    following = _Following()
    with following:
        call()
    return following.steps


def _step(name: str, left: Any, right: Any) -> Step | None:
    if not holds_integers(left) or not (holds_integers(right) or _is_number(right)):
        return None
    shape = torch.broadcast_shapes(left.shape, getattr(right, "shape", ()))  # type: ignore[no-untyped-call]
    if not 0 < shape.numel() <= _MOST_ELEMENTS:
        return None
    values = left.long().expand(shape)
    other = torch.as_tensor(right).to(left.device).long()
    if name in _ORDERS:
        return Step("order", values - other, torch.ones_like(other))
    if name == "bitwise_and":
        other = other + 1
        if bool(((other & (other - 1)) != 0).any()):
            return None
    if name in _SHIFTS:
        if bool(((other < 1) | (other > 62)).any()):
            return None
        other = torch.ones_like(other) << other
    if name not in _QUOTIENTS | _SHIFTS or bool((other < 2).any()):
        return None
    # What the reference goes on to write to must not change them.
    divisor = other.clone().expand(shape) if other.numel() > 1 else other.clone().reshape(())
    return Step("quotient", values.clone(), divisor)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@in_rounds
def solved_rounds(
    oracle: Oracle, sources: tuple[InputSource, ...], *, literals: Literals
) -> Iterator[Trial | Round]:
    """One round with the given weights; none where no step of the reference can be moved to a boundary."""
    generator = torch.Generator().manual_seed(fresh_seed())
    oracle.use_weights(oracle.given_weights)
    trials: list[Trial] = []
    for source in sources:
        if not _usable(named_tensors(draw(source))):
            continue
        for made in _CALLS * (solved_inputs, beside_inputs):
            try:
                trial = _trial(oracle, source, literals, made, generator)
            except REFUSALS:
                trial = None
            if trial is not None:
                trials.append(trial)
                yield trial
    if trials:
        yield Round(oracle.given_weights, tuple(trials), ())


def _trial(
    oracle: Oracle,
    source: InputSource,
    literals: Literals,
    make: Callable[..., dict[str, torch.Tensor] | None],
    generator: torch.Generator,
) -> Trial | None:
    arguments = draw(source)
    natural = named_tensors(arguments)

    def steps_of(tensors: Tensors) -> list[Step]:
        legal = source.writes.legal(tensors, natural)
        return followed(lambda: oracle.eager(pair(with_tensors(arguments, legal))))

    changed = make(natural, literals, steps_of, generator)
    if changed is None:
        return None
    moved = pair(with_tensors(arguments, source.writes.legal(changed, natural)))
    scales = compare.scales_of(oracle.in_float64_or_eager(arguments))
    return trial_on(oracle, source.name, PROBE, moved, scales, generator)


def beside_inputs(
    natural: Tensors,
    literals: Literals,
    steps_of: Callable[[Tensors], list[Step]],
    generator: torch.Generator,
) -> dict[str, torch.Tensor] | None:
    """The inputs of integers, with most numbers beside multiples, squares and powers; None without any."""
    usable = _usable(natural)
    if not usable:
        return None
    made = dict(natural)
    steps = [step for step in steps_of(natural) if step.kind == "quotient"]
    met = list(dict.fromkeys(int(s.divisor) for s in steps if s.divisor.numel() == 1))
    for name, tensor in usable.items():
        values = tensor.detach().long().reshape(-1).clone()
        low, high = int(observe(tensor).low), end_of_range(tensor, literals)
        count = min(values.numel(), _MOST_BESIDE)
        numbers = beside_multiples(met or literals.whole, low, high, count, generator)
        places = torch.randperm(values.numel(), generator=generator)[: len(numbers)]
        values[places.to(values.device)] = torch.tensor(numbers).to(values)
        made[name] = laid_out_like(values.reshape(tensor.shape).to(tensor.dtype), tensor)
    return made


def solved_inputs(
    natural: Tensors,
    literals: Literals,
    steps_of: Callable[[Tensors], list[Step]],
    generator: torch.Generator,
) -> dict[str, torch.Tensor] | None:
    """The inputs of integers with some numbers moved; None where that brings no step of the reference to a boundary."""
    usable = _usable(natural)
    if not usable:
        return None
    before = steps_of(natural)
    if not before:
        return None
    made = dict(natural)
    for name in in_drawn_order(list(usable), generator)[:_MOST_INPUTS]:
        made[name] = _moved(name, natural, literals, steps_of, before, generator)
    reached = sum(step.at_boundaries() for step in steps_of(made))
    return made if reached > sum(step.at_boundaries() for step in before) else None


def _usable(natural: Tensors) -> dict[str, torch.Tensor]:
    """Integers of any value within a range."""
    return {
        name: tensor
        for name, tensor in natural.items()
        if holds_integers(tensor) and 1 < tensor.numel() <= _MOST_ELEMENTS
        if observe(tensor).kind == "integer"
        if observe(tensor).high - observe(tensor).low >= _LEAST_SPAN
    }


def _moved(
    name: str,
    natural: Tensors,
    literals: Literals,
    steps_of: Callable[[Tensors], list[Step]],
    before: list[Step],
    generator: torch.Generator,
) -> torch.Tensor:
    """One input, with some numbers moved to where a step of the reference, one of few that they enter alone, is at a boundary."""
    tensor = natural[name]
    low, high = int(observe(tensor).low), end_of_range(tensor, literals)
    own = tensor.detach().long().reshape(-1)
    offsets = _distinct(own, low, high, generator)
    beside = laid_out_like((own + offsets).reshape(tensor.shape).to(tensor.dtype), tensor)
    after = steps_of({**natural, name: beside})
    ranks = offsets.abs().sort()
    found = [
        (step, places, index, factors)
        for step, moved in zip(before, after, strict=False)
        for places, index, factors in _entered(step, moved, offsets, ranks, generator)
    ]
    # Each step moves some of the numbers, so that the others have some as well.
    turns = torch.randint(max(1, len(found)), own.shape, generator=generator).to(own.device)
    result = own.clone()
    for turn, (step, places, index, factors) in enumerate(found):
        # As near to it as a whole number comes.
        missing = _to_a_boundary(step, places, generator)
        new = own[index] + missing.div(factors, rounding_mode="floor")
        if step.kind == "quotient":
            period = step.divisor.expand(step.values.shape).reshape(-1)[places]
            new = torch.where(new < low, new + period, torch.where(new > high, new - period, new))
        taken = (turns[index] == turn) & (new >= low) & (new <= high)
        result[index[taken]] = new[taken]
    return laid_out_like(result.reshape(tensor.shape).to(tensor.dtype), tensor)


def _entered(
    step: Step,
    moved: Step,
    offsets: torch.Tensor,
    ranks: torch.return_types.sort,
    generator: torch.Generator,
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Values of the step into which one number enters alone: their places, the number's, and its factor; in drawn order."""
    if step.values.shape != moved.values.shape or step.kind != moved.kind:
        return
    change = (moved.values - step.values).reshape(-1)
    at = torch.searchsorted(ranks.values, change.abs()).clamp_max(len(offsets) - 1)
    # Each number was moved by as much as no other: what moved a value is known by how far it did.
    found = (ranks.values[at] == change.abs()) & (change != 0)
    index = ranks.indices[at]
    if len(change) == len(offsets):
        # Element by element each may have any factor, as in a product.
        own = torch.arange(len(offsets), device=index.device)
        index = torch.where(found, index, own)
        found |= (change != 0) & (change % offsets[index] == 0)
    places = found.nonzero().reshape(-1)
    if places.numel():
        places = places[torch.randperm(len(places), generator=generator).to(places.device)]
        index = index[places]
        yield places, index, change[places].div(offsets[index], rounding_mode="floor")


def _to_a_boundary(step: Step, places: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """How far these values are from the nearest one at which the step has its next result, or from that beside it."""
    values = step.values.reshape(-1)[places]
    if step.kind == "order":
        return torch.randint(-1, 2, places.shape, generator=generator).to(values.device) - values
    which = torch.randint(2, places.shape, generator=generator).to(places.device)
    divisor = step.divisor.expand(step.values.shape).reshape(-1)[places]
    left = values.remainder(divisor)
    return torch.where(which == 0, divisor - 1 - left, -left)


def _distinct(own: torch.Tensor, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """For each number how far to move it, another distance for each, towards the side that has room."""
    most = max(1, (high - low) // 2)
    distances = 1 + torch.randperm(own.numel(), generator=generator)
    stretch = max(1, most // own.numel())
    distances = (distances * stretch).clamp_max(most).to(own.device)
    return torch.where(own - low > most, -distances, distances)
