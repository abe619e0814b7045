"""Values between the probes: numbers that stand in the sources, magnitudes between them, rows in order.

A candidate that is wrong in a band of magnitudes, at a secret value or for sorted rows says so in its
source, where `literals` reads the numbers. They are planted in natural values, row by row from small to
large, as far as the reference has an answer that its own rounding leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map

from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.reference.rounded_steps import RoundedSteps
from kernelagent.tools.judge.problem.trials import patterns
from kernelagent.tools.judge.problem.trials.beside_numbers import (
    numbers_between,
    pairs_about,
    rows_about,
)
from kernelagent.tools.judge.problem.trials.input_domain import (
    Domain,
    Tensors,
    fresh_values,
    laid_out_like,
    observe,
    shaped_like,
)
from kernelagent.tools.judge.problem.trials.literals import Literals
from kernelagent.tools.judge.problem.trials.probes import (
    REFUSALS,
    Dropped,
    Freedom,
    share_nonfinite,
    tied_to,
)
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.compare.gate import unit_roundoff
from kernelagent.tools.judge.verify.compare.regions import region_norms

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
_MOST_BESIDE_NUMBERS = 1e6
"""Where rows are made of the numbers: each row is then held to its own size."""
_LARGEST_ROW = 1e4
"""The same for whole rows: below it lies what honest kernels fill masked places with."""
_ILL = 0.02
"""Share of a region that eager's error, or rounding the inputs, may be for the reference to have an answer."""
_ILL_UNITS = 25.0
_WEIGHTS: tuple[tuple[bool, float], ...] = ((True, 1e3), (True, 10.0), (False, 10.0))
"""Whether planted weights may have any sign, and their largest magnitude: beyond, one hides all others."""
_CHUNK = 512
_FEW = 8
_TIMES = 3
"""How often a number is planted where there is room."""
_SHARE = 8
"""At most one element in so many is planted."""
_FREE = ("real", "positive")
_IDS = ("integer", "observed")
_PLANTED_IN: Mapping[str, frozenset[str]] = {
    "rows": frozenset({*_FREE, "integer"}),
    "mask_shapes": frozenset({"boolean"}),
    "literals": frozenset({*_FREE, "integer"}),
    "beside_numbers": frozenset(_FREE),
    "row_patterns": frozenset(_FREE),
    "structures": frozenset({*_FREE, "integer", "boolean", "sorted", "observed"}),
}
Eager = Callable[[Tensors], Any]


class Float64(Protocol):
    """The reference in float64."""

    def __call__(self, tensors: Tensors, /, steps: AbstractContextManager[Any] = ...) -> Any:
        """Its answer; `steps` is entered while it computes, and for nothing else."""


@dataclass(frozen=True)
class Planted:
    """Inputs to judge on, and what says how far each element of the right answer is known."""

    tensors: dict[str, torch.Tensor]
    moved: Any
    """The float64 answer where every input, or each step, is rounded once more, whichever moves it more."""
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
    nonfinite_share: float = 0.0,
    turn: int = 0,
) -> Planted | Dropped:
    """The probe of this kind from a fresh natural draw; `eager` and `exact` are the reference's answers.

    What has no answer is tried nearer to the natural values, then dropped. `scales`: of the outputs on
    natural inputs, by name; `elementwise`: what `is_elementwise` says of the reference;
    `nonfinite_share` as for `make_probe`; `turn`: which of the patterns.
    """
    reason = ""
    start = generator.get_state()
    most = _LADDER[0][1] if elementwise else _MOST_IN_SUMS
    most = _MOST_BESIDE_NUMBERS if kind == "beside_numbers" else most
    for freedom, cap in dict.fromkeys((freedom, min(cap, most)) for freedom, cap in _LADDER):
        generator.set_state(start)
        reach = _Reach(freedom, cap, literals, generator)
        tensors = {
            name: laid_out_like(reach.changed(kind, t, turn + place), t)
            for place, (name, t) in enumerate(natural.items())
        }
        if kind == "structures":
            tensors |= _related(tensors, natural, turn)
        if kind == "beside_numbers":
            tensors |= reach.pairs(tensors, natural)
        found = lasting(tensors, generator, eager, exact, scales, nonfinite_share)
        if isinstance(found, Lasting):
            by_row = kind == "beside_numbers"
            moved, right = found.moved, found.right
            widest = moved if elementwise else _by_the_widest(moved, right, by_row=by_row)
            return Planted(tensors, widest, freedom)
        reason = found
    return Dropped(kind, reason)


@dataclass(frozen=True)
class Lasting:
    """The right answer, which rounding leaves alone, and how far it moves it."""

    right: Any
    moved: Any
    """As for `Planted`, each element as far as it was moved itself."""


def lasting(
    tensors: Tensors,
    generator: torch.Generator,
    eager: Eager,
    exact: Float64,
    scales: Mapping[str, float],
    nonfinite_share: float = 0.0,
) -> Lasting | str:
    """Whether the reference has an answer to these inputs that its own rounding leaves alone; else why not."""
    try:
        given, right = eager(tensors), exact(tensors)
        if max(share_nonfinite(given), share_nonfinite(right)) > nonfinite_share:
            return "the reference's answer is not finite"
        moved = exact({name: _rounded(t, generator) for name, t in tensors.items()})
        moved = _further(moved, exact(tensors, RoundedSteps(generator)), right)
    except REFUSALS as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        return f"the reference refuses it: {message[-1]:.200}"
    if is_known(given, right, given, scales) and is_known(moved, right, given, scales):
        return Lasting(right, moved)
    return "the reference's answer does not outlast its own rounding"


def can_plant(kind: str, tensors: Tensors) -> bool:
    """Whether any of the tensors is of a kind that is changed."""
    wide = [t for t in tensors.values() if t.dim() or kind in ("literals", "structures")]
    kinds = {observe(t).kind for t in wide if not t.is_complex()}
    return bool(kinds & _PLANTED_IN[kind])


def planted_weights(
    state: Tensors, parameters: Collection[str], literals: Literals, generator: torch.Generator
) -> list[dict[str, torch.Tensor]]:
    """The state with some weights exchanged for zero and the numbers of the sources, the boldest first."""
    result = []
    for any_sign, cap in _WEIGHTS:
        reach = _Reach("any", cap, literals, generator)
        drawn: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            twin = tied_to(name, state, drawn)
            free = name in parameters and tensor.numel() > 0 and _is_free(tensor)
            if twin is not None:
                drawn[name] = drawn[twin].clone()
            else:
                kept = tensor.detach().clone()
                values = reach.with_literals(tensor, any_sign=any_sign) if free else kept
                drawn[name] = laid_out_like(values, tensor)
        result.append(drawn)
    return result


def patterned_weights(
    state: Tensors, parameters: Collection[str], generator: torch.Generator, turn: int
) -> list[dict[str, torch.Tensor]]:
    """The state with each weight of one pattern: zeros, equal columns, one sign; all of them, and one alone."""
    one = int(torch.randint(len(parameters) or 1, (), generator=generator))
    chosen = [name for at, name in enumerate(parameters) if at == one]
    result = []
    for names in (parameters, chosen):
        drawn: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            twin = tied_to(name, state, drawn)
            if twin is not None:
                drawn[name] = drawn[twin].clone()
            elif name in names and tensor.is_floating_point() and tensor.numel():
                values = patterns.whole(_flat(tensor).reshape(tensor.shape), generator, turn)
                drawn[name] = laid_out_like(values, tensor)
            else:
                drawn[name] = tensor.detach().clone()
        result.append(drawn)
    return result


@dataclass(frozen=True)
class _Reach:
    """How far from natural values a probe goes, and with which numbers."""

    freedom: Freedom
    cap: float
    literals: Literals
    generator: torch.Generator

    def changed(self, kind: str, tensor: torch.Tensor, turn: int) -> torch.Tensor:
        domain = observe(tensor)
        if tensor.numel() and not tensor.is_complex() and kind in ("row_patterns", "structures"):
            return self._patterned(kind, tensor, domain, turn)
        if tensor.dim() and kind == "mask_shapes" and domain.kind == "boolean":
            return self._shaped_masks(tensor)
        if kind == "literals" and _is_free(tensor):
            return self.with_literals(tensor)
        if tensor.dim() and kind == "beside_numbers" and _is_free(tensor):
            return self._beside_numbers(tensor, domain)
        if tensor.dim() and kind == "literals" and domain.kind == "integer":
            return self._with_integers(tensor, domain)
        if tensor.dim() and kind == "rows" and _is_free(tensor):
            return self._in_order(tensor, domain)
        if tensor.dim() and kind == "rows" and domain.kind == "integer":
            return self._integers_in_order(tensor)
        return fresh_values(tensor, domain, self.generator)

    def _patterned(
        self, kind: str, tensor: torch.Tensor, domain: Domain, turn: int
    ) -> torch.Tensor:
        draw = self.generator
        if kind == "structures" and tensor.dim():
            match domain.kind:
                case "boolean":
                    return patterns.mask(tensor, draw, turn)
                case "integer":
                    return patterns.integers(tensor, domain, draw, turn)
                case "sorted":
                    return patterns.ascending(tensor, draw, turn)
                case "observed":
                    return patterns.observed(tensor, draw, turn)
        if not _is_free(tensor):
            return fresh_values(tensor, domain, draw)
        wide = _flat(tensor).reshape(tensor.shape)
        change = patterns.in_rows if kind == "row_patterns" and tensor.dim() else patterns.whole
        values = change(wide, draw, turn)
        if domain.kind == "positive":
            values = values.abs() + domain.low / 8
        elif self.freedom != "any" and domain.nonnegative:
            values = values.abs()
        if self.freedom == "range":
            values = values.clamp(domain.low, domain.high)
        return shaped_like(values, tensor, domain)

    def with_literals(self, tensor: torch.Tensor, *, any_sign: bool = False) -> torch.Tensor:
        """Its own values, a few of them exchanged, those of one row of one magnitude.

        `any_sign`: also where all are positive, and zero as well. Unchanged where no number is allowed: a
        narrow range may hold none of them.
        """
        domain = observe(tensor)
        domain = replace(domain, kind="real") if any_sign else domain
        flat = _flat(tensor)
        columns = tensor.shape[-1] if tensor.dim() > 1 else min(flat.numel(), _CHUNK)
        rows = flat.numel() // columns
        exact, others = self._numbers(tensor, domain)
        exact = [0.0, *exact] if any_sign else exact
        room = min(flat.numel(), max(2, flat.numel() // _SHARE))
        if room < len(exact):
            # Which ones have room is drawn as well.
            exact = [exact[at] for at in self._shuffled(len(exact))] if room < 2 else exact
        chosen = exact[: max((room + 1) // 2, room - len(others))]
        some = self._shuffled(len(others))[: room - len(chosen)]
        numbers = sorted([*chosen, *(others[at] for at in some)], key=abs)
        if not numbers:
            return tensor.detach().clone()
        # Each stands several times: beside a small number of another input one of them is not seen.
        times = max(1, min(_TIMES, room // len(numbers)))
        next_row = rows >= 2 * len(numbers)
        row_of = [at * rows // len(numbers) for at in range(len(numbers))]
        # One of each row, drawn, stands at its beginning: that is where a key is read.
        ahead = {row_of[at]: at for at in self._shuffled(len(numbers))}
        taken: dict[int, float] = {}
        for at, number in enumerate(numbers):
            for time in range(times):
                begins = ahead[row_of[at]] == at and time == 0
                row = row_of[at] + (time % 2 if next_row else 0)
                place = row * columns + (0 if begins else self._below(columns))
                while place in taken:
                    place = (place + 1) % flat.numel()
                taken[place] = number
        places = torch.tensor(list(taken), dtype=torch.int64)
        flat[places.to(flat.device)] = torch.tensor(list(taken.values())).to(flat)
        return shaped_like(flat.reshape(tensor.shape), tensor, domain)

    def _beside_numbers(self, tensor: torch.Tensor, domain: Domain) -> torch.Tensor:
        """Rows whose mean, sum or one element is a number of the sources or lies between two."""
        numbers = self._numbers_in_reach(tensor, domain)
        signs = domain.kind != "positive" and (self.freedom == "any" or not domain.nonnegative)
        wide = _flat(tensor).reshape(tensor.shape)
        values = rows_about(wide, numbers, self.generator, signs=signs)
        if domain.kind == "positive":
            values = values.abs() + domain.low / 8
        elif self.freedom != "any" and domain.nonnegative:
            values = values.abs()
        if self.freedom == "range":
            values = values.clamp(domain.low, domain.high)
        return shaped_like(values, tensor, domain)

    def _numbers_in_reach(self, tensor: torch.Tensor, domain: Domain) -> list[float]:
        scale = domain.scale or 1.0
        most = min(self.cap * scale, torch.finfo(tensor.dtype).max / 1e3)
        return numbers_between(self.literals.values, scale / 1e3, most, self.generator)

    def pairs(self, tensors: Tensors, natural: Tensors) -> dict[str, torch.Tensor]:
        """Of two inputs of one shape the second, planted so that both together make one of the numbers."""
        by_form: dict[Any, str] = {}
        for name, tensor in tensors.items():
            if not _is_free(natural[name]) or not tensor.dim():
                continue
            first = by_form.setdefault((tensor.shape, tensor.dtype), name)
            domain = observe(natural[name])
            if first != name and domain.kind == "real" and self.freedom == "any":
                numbers = self._numbers_in_reach(tensor, domain)
                one, two = (_flat(t).reshape(t.shape) for t in (tensors[first], tensor))
                made = pairs_about(one, two, numbers, self.generator)
                return {name: laid_out_like(shaped_like(made, tensor, domain), tensor)}
        return {}

    def _numbers(self, tensor: torch.Tensor, domain: Domain) -> tuple[list[float], list[float]]:
        """The numbers themselves, the most telling first; and what lies beside, between and beyond them."""
        scale = domain.scale or 1.0
        facts = torch.finfo(tensor.dtype)
        limit = min(self.cap * scale, facts.max / 4)
        known = [v for v in self.literals.values if facts.tiny <= v <= limit]
        between = self._between(sorted(known), scale, limit)
        exact = torch.tensor(known, dtype=tensor.dtype).to(torch.float64)
        beside = [n for step in (facts.eps, -facts.eps) for n in (exact * (1 + step)).tolist()]
        return (
            self._allowed(exact.tolist(), domain),
            self._allowed([*between, *between, *beside], domain),
        )

    def _allowed(self, numbers: list[float], domain: Domain) -> list[float]:
        """With a sign drawn for each, as the domain has it; both signs where there is room."""
        if domain.kind == "positive":
            allowed = [n for n in numbers if n >= domain.low / 8]
        elif self.freedom != "any" and domain.nonnegative:
            allowed = numbers
        else:
            signed = [n if self._below(2) else -n for n in numbers]
            allowed = [*signed, *(-n for n in signed)]
        if self.freedom == "range":
            allowed = [n for n in allowed if domain.low <= n <= domain.high]
        return allowed

    def _between(self, known: list[float], scale: float, limit: float) -> list[float]:
        """One magnitude between each two neighbours, two beyond the largest, one below the smallest."""
        edges = [scale / 1e3, *known] if not known or known[0] > scale / 1e3 else known
        pairs = list(pairwise(edges))
        pairs += [(edges[-1], limit)] * 2 if edges[-1] < limit else []
        return [low * (high / low) ** self._uniform() for low, high in pairs]

    def _in_order(self, tensor: torch.Tensor, domain: Domain) -> torch.Tensor:
        """Rows that ascend, descend, are shifts of others, or lie beside one of the numbers in size."""
        flat = _flat(tensor)
        rows = flat.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 else flat.reshape(1, -1)
        order = torch.randperm(len(rows), generator=self.generator).to(rows.device)
        ordered, banded = order[: max(1, len(rows) // 2)], order[len(rows) // 2 :].sort().values
        kinds = torch.arange(len(ordered), device=rows.device)[:, None] % 3
        if len(rows) == 1:
            kinds.fill_(self._below(2))
        rising = _strictly(rows[ordered].sort(-1).values)
        shifted = self._shifted(rows[order.roll(-1)[: len(ordered)]])
        rows[ordered] = torch.where(
            kinds == 0, rising, torch.where(kinds == 1, rising.flip(-1), shifted)
        )
        sizes = self._sizes_of_rows(tensor, domain, len(banded)) if len(rows) > 1 else []
        factors = torch.tensor(sizes, dtype=rows.dtype, device=rows.device) / (domain.scale or 1.0)
        rows[banded[: len(sizes)]] *= factors[:, None]
        values = rows.reshape(tensor.shape)
        if self.freedom != "any" and domain.nonnegative:
            values = values.abs()
        return shaped_like(values, tensor, domain)

    def _shifted(self, rows: torch.Tensor) -> torch.Tensor:
        """Each row rolled by a number of its own."""
        columns = torch.arange(rows.shape[1], device=rows.device)
        return rows.gather(1, (columns - self._each_below(rows)) % rows.shape[1])

    def _each_below(self, rows: torch.Tensor) -> torch.Tensor:
        """One of its places for each row."""
        drawn = torch.randint(rows.shape[1], (len(rows), 1), generator=self.generator)
        return drawn.to(rows.device)

    def _sizes_of_rows(self, tensor: torch.Tensor, domain: Domain, count: int) -> list[float]:
        if self.freedom == "range" or domain.kind == "positive":
            return []
        scale = domain.scale or 1.0
        limit = min(self.cap, _LARGEST_ROW) * scale
        low = max(1e-8 * scale, 8 * torch.finfo(tensor.dtype).tiny)
        sizes = [v * factor for v in self.literals.values for factor in (0.25, 4.0)]
        sizes = [s for s in sizes if low <= s <= min(limit, torch.finfo(tensor.dtype).max / 1e3)]
        return sorted(sizes[at] for at in self._shuffled(len(sizes))[:count])

    def _with_integers(self, tensor: torch.Tensor, domain: Domain) -> torch.Tensor:
        values = fresh_values(tensor, domain, self.generator).reshape(-1)
        known = [int(v) for v in self.literals.values if v == int(v)]
        near = [n + d for n in known for d in (0, 1, -1) if domain.low <= n + d <= domain.high]
        for number in dict.fromkeys(near[: max(1, values.numel() // _SHARE)]):
            values[self._below(values.numel())] = number
        return values.reshape(tensor.shape)

    def _integers_in_order(self, tensor: torch.Tensor) -> torch.Tensor:
        rows = _rows_of(tensor.detach().clone())
        kinds = self._kinds(rows, 4, self._below(3))
        rising = rows.sort(-1).values
        alike = rows.gather(1, self._each_below(rows)).expand_as(rows)
        made = torch.where(kinds == 1, rising, torch.where(kinds == 2, rising.flip(-1), rows))
        return torch.where(kinds == 0, alike, made).reshape(tensor.shape)

    def _shaped_masks(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rows with one place, with one missing, beginnings, ends and bands; few places among them."""
        rows = _rows_of(torch.zeros_like(tensor, memory_format=torch.contiguous_format))
        width = rows.shape[1]
        kinds = self._kinds(rows, 5, self._below(5))
        at = torch.arange(width, device=tensor.device)
        place, many, few = map(self._each_below, (rows, rows, rows[:, :_FEW]))
        count = 1 + torch.where(self._each_below(rows[:, :2]) == 0, few, many)
        band = (at >= place) & (at < place + count)
        one, missing = at == place, (at != place) | (width == 1)
        by_kind = (one, missing, at < count, at >= width - count, band)
        made = rows
        for kind, values in enumerate(by_kind):
            made = torch.where(kinds == kind, values, made)
        return made.reshape(tensor.shape)

    def _kinds(self, rows: torch.Tensor, count: int, start: int) -> torch.Tensor:
        """One of so many kinds for each row, in turn."""
        return (torch.arange(len(rows), device=rows.device)[:, None] + start) % count

    def _below(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.generator))

    def _shuffled(self, count: int) -> list[int]:
        return [int(at) for at in torch.randperm(count, generator=self.generator)]

    def _uniform(self) -> float:
        return float(torch.rand((), generator=self.generator))


def _is_free(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and observe(tensor).kind in _FREE


def _related(tensors: Tensors, natural: Tensors, turn: int) -> dict[str, torch.Tensor]:
    """In some turns one input has the values of another of its shape, or those with the other sign.

    In others neighbouring rows have one id and begin alike, as repeated prompts do.
    """
    if turn % 3 == 1:
        return _rows_with_one_id(natural)
    if turn % 3:
        return {}
    by_form: dict[Any, str] = {}
    for name, tensor in tensors.items():
        if not _is_free(tensor):
            continue
        first = by_form.setdefault((tensor.shape, tensor.dtype), name)
        if first != name:
            values = widened(tensors[first])
            values = values if turn % 2 else -values
            allowed = values if not observe(tensor).nonnegative else values.abs()
            return {name: laid_out_like(allowed.to(tensor.dtype), tensor)}
    return {}


def _rows_with_one_id(natural: Tensors) -> dict[str, torch.Tensor]:
    """Empty where there are no ids, or no rows."""
    ids = {n: t for n, t in natural.items() if t.dim() and observe(t).kind in _IDS}
    wide = {n: t for n, t in natural.items() if t.dim() > 1 and t.shape[-1] > 1 and _is_free(t)}
    rows = {n: t for n, t in wide.items() if observe(t).low < 0}
    if not ids or not rows:
        return {}
    alike = {n: laid_out_like(patterns.in_runs(t), t) for n, t in ids.items()}
    for name, tensor in rows.items():
        values = shaped_like(patterns.beginning_alike(tensor.detach()), tensor, observe(tensor))
        alike[name] = laid_out_like(values, tensor)
    return alike


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    values = tensor.detach().to(wide).clone(memory_format=torch.contiguous_format)
    return values.reshape(-1)


def _strictly(rising: torch.Tensor) -> torch.Tensor:
    """Sorted rows; evenly spaced where there is a tie: draws of 16 bits have many, others a few."""
    tied = (rising.diff(dim=-1) <= 0).any(-1, keepdim=True)
    even = patterns.evenly_spaced(rising[:, :1], rising[:, -1:], rising.shape[1])
    return torch.where(tied, even, rising)


def _rows_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.numel() else tensor.reshape(0, 1)


def _rounded(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each element one unit roundoff up or down."""
    if not tensor.is_floating_point():
        return tensor
    drawn = torch.randint(
        0, 2, tensor.shape, generator=generator, device=generator.device, dtype=torch.int8
    )
    signs = (2 * drawn - 1).to(device=tensor.device, dtype=torch.float64)
    return tensor.to(torch.float64) * (1 + unit_roundoff(tensor.dtype) * signs)


def _by_the_widest(moved: Any, right: Any, *, by_row: bool) -> Any:
    """Each element moved as far as the one that moves furthest: one draw may move a sum by nothing.

    `by_row`: the one of its row, where rows differ in size by powers of ten.
    """

    def widest(a: Any, exact: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point() or not exact.dim():
            return a
        off = torch.where(exact.isfinite(), (a - exact).abs(), 0.0)
        if by_row and exact.dim() > 1 and exact.shape[-1] >= _FEW:
            return exact + off.amax(-1, keepdim=True)
        return exact + off.amax() if off.numel() else a

    return tree_map(widest, moved, right)


def is_elementwise(natural: Tensors, exact: Float64) -> bool:
    """Whether each element of an input changes at most one element of each output: tried with the first, the middle
    and the last one.

    Both ends are tried because a cumulative sum hides one of them: the last element of a row changes only one
    output of `cumsum`, the first only one of a reversed `cumsum`. With fewer outputs than inputs some output
    must depend on several inputs.
    """
    most = max((t.numel() for t in natural.values() if _is_free(t)), default=0)
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
    if not _is_free(tensor):
        return tensor
    flat = _flat(tensor)
    flat[int(share * (flat.numel() - 1))] = 1.5 * float(flat.abs().max()) + 0.25
    return flat.reshape(tensor.shape).to(tensor.dtype)


def _further(one: Any, other: Any, right: Any) -> Any:
    """Each element of the answer that is further from the right one."""

    def chosen(a: Any, b: Any, exact: Any) -> Any:
        if not isinstance(exact, torch.Tensor) or not exact.is_floating_point():
            return a
        return torch.where((b - exact).abs() > (a - exact).abs(), b, a)

    return tree_map(chosen, one, other, right)


def is_known(answer: Any, right: Any, typed: Any, scales: Mapping[str, float]) -> bool:
    """Whether every region of the answer is near the right one, in the type of the output."""
    exact, types = dict(leaves(right)), dict(leaves(typed))
    for name, leaf in leaves(answer):
        like = types[name]
        if not isinstance(like, torch.Tensor) or not like.is_floating_point() or not like.numel():
            continue
        known = exact[name].to(torch.float64)
        off = torch.where(known.isfinite(), leaf.to(torch.float64) - known, 0.0)
        error, size = region_norms(off, like.shape), region_norms(known, like.shape)
        share = max(_ILL, _ILL_UNITS * unit_roundoff(like.dtype))
        floor = share * 1e-3 * scales.get(name, 0.0)
        if bool((error.rms > share * size.rms + floor).any()):
            return False
        if bool((error.max > share * size.max + floor).any()):
            return False
    return True
