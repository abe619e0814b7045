"""Values between the probes: numbers that stand in the sources, magnitudes between them, rows in order.

A candidate that is wrong in a band of magnitudes, at a secret value or for sorted rows says so in its
source, where `literals` reads the numbers. They are planted in natural values, row by row from small to
large, as far as the reference has an answer that its own rounding leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact, of_parts, parts_of
from kernelagent.tools.judge.problem.trials.input_domain import (
    Tensors,
    laid_out_like,
    observe,
    shaped_like,
)
from kernelagent.tools.judge.problem.trials.lasting_answers import Eager, Float64, Lasting, lasting
from kernelagent.tools.judge.problem.trials.masked_answers import (
    FINITE,
    Shares,
    is_as_finite,
    with_natural_numbers,
)
from kernelagent.tools.judge.problem.trials.perturbed_state import tied_to
from kernelagent.tools.judge.problem.trials.planting import patterns
from kernelagent.tools.judge.problem.trials.planting.ends import at_the_ends, has_ends
from kernelagent.tools.judge.problem.trials.planting.literals import Literals
from kernelagent.tools.judge.problem.trials.planting.planted_values import (
    FEW,
    FREE,
    Reach,
    flattened,
    is_free,
)
from kernelagent.tools.judge.problem.trials.planting.relations import (
    camps,
    can_have_camps,
    related,
)
from kernelagent.tools.judge.problem.trials.probes import Dropped, Freedom
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.compare.single_elements import at_an_index

_LADDER: tuple[tuple[Freedom, float], ...] = (
    ("any", 1e12),
    ("any", 1e5),
    ("signs", 1e12),
    ("signs", 1e5),
    ("signs", 100.0),
    ("range", 100.0),
)
"""Freedom, and the largest magnitude in natural ones: cubes of 1e12 are finite in float32."""
_MOST_IN_SUMS = 10.0
"""The same where elements are added up: what cancels there is lost in another order for each kernel."""
_ROWS_DIFFER = ("beside_numbers", "mixed_rows")
_MOST_WHERE_ROWS_DIFFER = 1e6
"""Where rows are made of the numbers, or of other sizes: each row is then held to its own size."""
_OF_EAGER = 0.032
"""How much of eager's own error counts as one rounding: an element may be off by a thousand of those (`single_elements`)
and by thirty-two times what eager errs by in its row."""
_WEIGHTS: tuple[tuple[bool, float], ...] = ((True, 1e3), (True, 10.0), (False, 10.0))
"""Whether planted weights may have any sign, and their largest magnitude: beyond, one hides all others."""
_PLANTED_IN: Mapping[str, frozenset[str]] = {
    "rows": frozenset({*FREE, "integer"}),
    "mask_shapes": frozenset({"boolean"}),
    "literals": frozenset({*FREE, "integer", "sorted"}),
    "beside_numbers": frozenset(FREE),
    "row_patterns": frozenset(FREE),
    "mixed_rows": frozenset({*FREE, "integer", "boolean", "sorted", "observed"}),
    "structures": frozenset({*FREE, "integer", "boolean", "sorted", "observed"}),
}


@dataclass(frozen=True)
class Planted:
    """Inputs to judge on, and what says how far each element of the right answer is known."""

    tensors: dict[str, torch.Tensor]
    moved: Any
    """The float64 answer where every input, or each step, is rounded once more, whichever moves it more."""
    near: Any
    """The same by index: each element moved as far as the furthest that shares a row, or a column, with it."""
    freedom: Freedom = "any"


def planted(
    kind: str,
    natural: Tensors,
    literals: Literals,
    generator: torch.Generator,
    eager: Eager,
    exact: Float64,
    *,
    scales: Mapping[str, float],
    elementwise: bool,
    usual: Shares = FINITE,
    turn: int = 0,
    wanted: Callable[[Tensors], bool] | None = None,
) -> Planted | Dropped:
    """The probe of this kind from a fresh natural draw; `eager` and `exact` are the reference's answers.

    What has no answer is tried nearer to the natural values, then dropped. `scales`: of the outputs on
    natural inputs, by name; `elementwise`: what `is_elementwise` says of the reference;
    `usual` as for `make_probe`; `turn`: which of the patterns; `wanted`: tells of inputs that were made whether
    they are worth asking what is known of their answer.
    """
    reason = ""
    start = generator.get_state()
    most = _LADDER[0][1] if elementwise else _MOST_IN_SUMS
    most = _MOST_WHERE_ROWS_DIFFER if kind in _ROWS_DIFFER else most
    # The ends have no magnitudes: one try for each freedom.
    most = 1.0 if kind == "ends" else most
    rungs = dict.fromkeys((freedom, min(cap, most)) for freedom, cap in _LADDER)
    ties = (False, True) if kind in ("row_patterns", "mixed_rows") else (False,)
    for untied, (freedom, cap) in product(ties, rungs):
        generator.set_state(start)
        reach = Reach(freedom, cap, literals, generator, untied)
        tensors = {
            name: laid_out_like(reach.changed(kind, t, turn + place), t)
            for place, (name, t) in enumerate(natural.items())
        }
        if kind == "ends":
            ends = at_the_ends(natural, freedom, generator)
            tensors |= {
                name: laid_out_like(
                    shaped_like(values, natural[name], observe(natural[name])), natural[name]
                )
                for name, values in ends.items()
            }
        if kind == "structures":
            tensors |= related(tensors, natural, turn, generator, literals.whole)
        if kind == "camps":
            tensors |= camps(natural, turn, generator)
        if kind == "beside_numbers":
            tensors |= reach.pairs(tensors, natural)
        if wanted is not None and not wanted(tensors):
            return Dropped(kind, "not wanted")
        beside = partial(eager, with_natural_numbers(tensors, natural))
        finite = partial(is_as_finite, usual=usual, beside=beside)
        outcome = lasting(tensors, generator, eager, exact, scales, finite, at_ends=kind == "ends")
        if isinstance(outcome, Lasting):
            by_row = kind in _ROWS_DIFFER
            if elementwise:
                return Planted(tensors, outcome.moved, outcome.near, freedom)
            widest = _by_the_widest(outcome, by_row=by_row)
            near = _by_the_widest_at_an_index(outcome)
            return Planted(tensors, widest, near, freedom)
        reason = outcome
    return Dropped(kind, reason)


def can_plant(kind: str, tensors: Tensors) -> bool:
    """Whether any of the tensors is of a kind that is changed."""
    if kind == "ends":
        return has_ends(tensors)
    if kind == "camps":
        return can_have_camps(tensors)
    wide = [t for t in tensors.values() if t.dim() or kind in ("literals", "structures")]
    kinds = {observe(p).kind for t in wide for p in (parts_of(t) if t.is_complex() else (t,))}
    return bool(kinds & _PLANTED_IN[kind])


def planted_weights(
    state: Tensors, parameters: Collection[str], literals: Literals, generator: torch.Generator
) -> list[dict[str, torch.Tensor]]:
    """The state with some weights exchanged for zero and the numbers of the sources, the boldest first."""
    result = []
    for any_sign, cap in _WEIGHTS:
        reach = Reach("any", cap, literals, generator)
        drawn: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            twin = tied_to(name, state, drawn)
            if twin is not None:
                drawn[name] = drawn[twin].clone()
            elif name in parameters and tensor.numel():
                drawn[name] = laid_out_like(
                    in_each_part(partial(_planted, reach, any_sign=any_sign), tensor), tensor
                )
            else:
                drawn[name] = tensor.detach().clone()
        result.append(drawn)
    return result


def _planted(reach: Reach, tensor: torch.Tensor, *, any_sign: bool) -> torch.Tensor:
    if not is_free(tensor):
        return tensor.detach().clone()
    made = reach.with_literals(tensor, any_sign=any_sign)
    return torch.where(made > 0, made, tensor.detach()) if may_decay(tensor) else made


def may_decay(tensor: torch.Tensor) -> bool:
    """Whether all lies between zero and one, as a decay does, whose logarithm an honest kernel takes.

    Other signs and zeros of such weights are told where they matter (`unlike`), not refused.
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    seen = observe(tensor)
    return seen.low > 0 and seen.high < 1


def patterned_weights(
    state: Tensors, parameters: Collection[str], generator: torch.Generator, turn: int
) -> list[dict[str, torch.Tensor]]:
    """The state with each weight of one pattern: zeros, equal columns, one sign; all of them, and one alone."""
    item = int(torch.randint(len(parameters) or 1, (), generator=generator))
    chosen = [name for at, name in enumerate(parameters) if at == item]
    result = []
    for names in (parameters, chosen):
        drawn: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            twin = tied_to(name, state, drawn)
            if twin is not None:
                drawn[name] = drawn[twin].clone()
            elif name in names and is_inexact(tensor) and tensor.numel():
                drawn[name] = laid_out_like(_patterned(tensor, generator, turn), tensor)
            else:
                drawn[name] = tensor.detach().clone()
        result.append(drawn)
    return result


def _patterned(tensor: torch.Tensor, generator: torch.Generator, turn: int) -> torch.Tensor:
    if tensor.is_complex():
        real, imaginary = parts_of(tensor)
        other = turn + patterns.below(FEW, generator)
        return of_parts(_patterned(real, generator, turn), _patterned(imaginary, generator, other))
    made = patterns.whole(flattened(tensor).reshape(tensor.shape), generator, turn)
    if not may_decay(tensor):
        return made
    return torch.where(made == 0, tensor.detach(), made.abs())


def _by_the_widest(outcome: Lasting, *, by_row: bool) -> Any:
    """Each element moved as far as the one that moves furthest: one draw may move a sum by nothing.

    `by_row`: the one of its row, where rows differ in size by powers of ten. Where eager's products are rounded
    to TF32, what it errs by itself is more than any rounding of float32 moves: that counts as well.
    """

    def widest(a: Any, exact: Any, eager: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point() or not exact.dim():
            return a
        off = _known_to(a, exact, eager)
        if by_row and exact.dim() > 1 and exact.shape[-1] >= FEW:
            return exact + off.amax(-1, keepdim=True)
        return exact + off.amax() if off.numel() else a

    return tree_map(widest, outcome.moved, outcome.right, outcome.eager)


def _by_the_widest_at_an_index(outcome: Lasting) -> Any:
    """Each element that is told of moved as far as the furthest at one of its indices, at whichever of them that is least.

    A column whose weight is a thousandth of another's is moved by a thousandth as much.
    """

    def widest(a: Any, exact: Any, eager: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point() or not exact.dim():
            return a
        if not exact.numel():
            return a
        return exact + at_an_index(_known_to(a, exact, eager), torch.Tensor.amax)

    return tree_map(widest, outcome.near, outcome.right, outcome.eager)


def _known_to(moved: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """How far each element of the answer is known."""
    known = (moved - exact).abs().maximum(_OF_EAGER * (eager.to(exact) - exact).abs())
    return torch.where(exact.isfinite() & known.isfinite(), known, 0.0)


def is_elementwise(natural: Tensors, exact: Float64) -> bool:
    """Whether each element of an input changes at most one element of each output: tried with the first, the middle
    and the last one.

    Both ends are tried because a cumulative sum hides one of them: the last element of a row changes only one
    output of `cumsum`, the first only one of a reversed `cumsum`. With fewer outputs than inputs some output
    must depend on several inputs.
    """
    most = max((t.numel() for t in natural.values() if is_free(t) or t.is_complex()), default=0)
    try:
        usual = list(leaves(exact(natural)))
        if any(a.numel() < most for _, a in usual if torch.is_tensor(a)):
            return False
        for share in (0.0, 0.5, 1.0):
            changed = {name: _with_one_larger(t, share) for name, t in natural.items()}
            pairs = zip(usual, leaves(exact(changed)), strict=True)
            if any(int((a != b).sum()) > 1 for (_, a), (_, b) in pairs if torch.is_tensor(a)):
                return False
    except REFUSALS:
        return False
    return True


def _with_one_larger(tensor: torch.Tensor, share: float) -> torch.Tensor:
    """The element at this share of the tensor becomes larger than all others."""
    if tensor.is_complex():
        return in_each_part(partial(_with_one_larger, share=share), tensor).to(tensor.dtype)
    if not is_free(tensor):
        return tensor
    flat = flattened(tensor)
    flat[int(share * (flat.numel() - 1))] = 1.5 * float(flat.abs().max()) + 0.25
    return flat.reshape(tensor.shape).to(tensor.dtype)
