"""The values of a planted probe: numbers of the sources, magnitudes between them, rows in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from kernelagent.tools.calls.complex_numbers import (
    by_modulus,
    by_rows,
    in_each_part,
    without_tiny,
)
from kernelagent.tools.judge.problem.trials.input_domain import (
    Domain,
    Tensors,
    fresh_values,
    laid_out_like,
    observe,
    shaped_like,
)
from kernelagent.tools.judge.problem.trials.planting import patterns
from kernelagent.tools.judge.problem.trials.planting.beside_multiples import (
    beside_multiples,
    end_of_range,
    sorted_beside_powers,
)
from kernelagent.tools.judge.problem.trials.planting.beside_numbers import (
    numbers_between,
    pairs_about,
    rows_about,
)
from kernelagent.tools.judge.problem.trials.planting.literals import Literals
from kernelagent.tools.judge.problem.trials.probes import (
    Freedom,
)

_LARGEST_ROW = 1e4
"""The same for whole rows: below it lies what honest kernels fill masked places with."""


_SCALES = (1.0, 30.0, 1000.0)
"""Of the rows that are mixed, in natural ones."""


_CHUNK = 512


FEW = 8


_TIMES = 3
"""How often a number is planted where there is room."""


_SHARE = 8
"""At most one element in so many is planted."""


_TIMES_AT_ENDS = 8
"""What a carry or a product is lost at may need another number beside it."""


_MULTIPLES = 512
"""Of whole numbers beside multiples so many are planted at most."""


_BARE = frozenset({torch.uint16, torch.uint32, torch.uint64})
"""Types of which torch can neither sort, gather nor compare numbers."""


FREE = ("real", "positive")


@dataclass(frozen=True)
class Reach:
    """How far from natural values a probe goes, and with which numbers."""

    freedom: Freedom
    cap: float
    literals: Literals
    generator: torch.Generator
    untied: bool = False
    """Whether rows with structure have no ties, which rounding may break."""

    @property
    def _rows(self) -> tuple[patterns.Rows, ...]:
        return patterns.UNTIED if self.untied else patterns.ROWS

    def changed(self, kind: str, tensor: torch.Tensor, turn: int) -> torch.Tensor:
        if tensor.is_complex():
            return self._changed_complex(kind, tensor, turn)
        if tensor.dtype in _BARE:
            return self.changed(kind, tensor.long(), turn).to(tensor.dtype)
        domain = observe(tensor)
        if tensor.numel() and kind in ("row_patterns", "structures", "mixed_rows"):
            return self._patterned(kind, tensor, domain, turn)
        if tensor.dim() and kind == "mask_shapes" and domain.kind == "boolean":
            return self._shaped_masks(tensor)
        if kind == "literals" and is_free(tensor):
            return self.with_literals(tensor)
        if tensor.dim() and kind == "beside_numbers" and is_free(tensor):
            return self._beside_numbers(tensor, domain)
        if tensor.dim() and kind == "literals" and domain.kind == "integer":
            return self._with_integers(tensor, domain)
        if tensor.dim() and kind == "literals" and domain.kind == "sorted":
            rising = fresh_values(tensor, domain, self.generator)
            return sorted_beside_powers(rising).to(tensor.dtype)
        if tensor.dim() and kind == "rows" and is_free(tensor):
            return self._in_order(tensor, domain)
        if tensor.dim() and kind == "rows" and domain.kind == "integer":
            return self._integers_in_order(tensor)
        if tensor.dim() > 1 and kind == "rows" and domain.kind == "boolean":
            return self._causal(tensor, domain)
        return fresh_values(tensor, domain, self.generator)

    def _changed_complex(self, kind: str, tensor: torch.Tensor, turn: int) -> torch.Tensor:
        """Either part as any tensor is, or the moduli, with the phases as they are; both, row by row, where there are rows."""
        turns = iter((turn, turn + self._below(FEW)))
        apart = in_each_part(lambda part: self.changed(kind, part, next(turns)), tensor)
        sizes = by_modulus(lambda part: self.changed(kind, part, turn).abs(), tensor)
        made = by_rows(apart, sizes.to(apart.dtype), turn + self._below(2))
        return without_tiny(made)

    def _causal(self, tensor: torch.Tensor, domain: Domain) -> torch.Tensor:
        """As most masks of attention are, whichever of True and False hides; else a mask as it is drawn."""
        height, width = tensor.shape[-2:]
        if height != width or self.freedom == "range":
            return fresh_values(tensor, domain, self.generator)
        seen = torch.ones_like(tensor, memory_format=torch.contiguous_format).tril()
        return seen if self.freedom == "any" else ~seen

    def _patterned(
        self, kind: str, tensor: torch.Tensor, domain: Domain, turn: int
    ) -> torch.Tensor:
        draw = self.generator
        if kind in ("structures", "mixed_rows") and tensor.dim():
            match domain.kind:
                case "boolean":
                    return patterns.mask(tensor, draw, turn)
                case "integer":
                    return patterns.integers(tensor, domain, draw, turn)
                case "sorted":
                    return patterns.ascending(tensor, draw, turn)
                case "observed":
                    return patterns.observed(tensor, draw, turn)
        if not is_free(tensor):
            return fresh_values(tensor, domain, draw)
        wide = flattened(tensor).reshape(tensor.shape)
        if kind == "row_patterns" and tensor.dim():
            values = patterns.in_rows(wide, draw, turn, self._rows)
            values = self._some_along_another(values, wide, turn)
        elif kind == "mixed_rows" and tensor.dim():
            scales = [scale for scale in _SCALES if scale <= self.cap]
            values = patterns.mixed(wide, draw, turn, scales, self._rows)
        else:
            values = patterns.whole(wide, draw, turn)
        if domain.kind == "positive":
            values = values.abs() + domain.low / 8
        elif self.freedom != "any" and domain.nonnegative:
            values = values.abs()
        if self.freedom == "range":
            values = values.clamp(domain.low, domain.high)
        return shaped_like(values, tensor, domain)

    def _some_along_another(
        self, values: torch.Tensor, wide: torch.Tensor, turn: int
    ) -> torch.Tensor:
        """Every second item of a batch with its rows along another dimension: time has features beside one another."""
        others = [at for at in range(1, wide.dim() - 1) if wide.shape[at] >= FEW]
        if not others or wide.shape[0] < 2:
            return values
        dim = others[self._below(len(others))]
        items = slice(self._below(2), None, 2)
        rows = patterns.in_rows(wide[items].movedim(dim, -1), self.generator, turn, self._rows)
        values = values.clone()
        values[items] = rows.movedim(-1, dim)
        return values

    def with_literals(self, tensor: torch.Tensor, *, any_sign: bool = False) -> torch.Tensor:
        """Its own values, a few of them exchanged, those of one row of one magnitude.

        `any_sign`: also where all are positive, and zero as well. Unchanged where no number is allowed: a
        narrow range may hold none of them.
        """
        domain = observe(tensor)
        domain = replace(domain, kind="real") if any_sign else domain
        flat = flattened(tensor)
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
        signs = domain.kind != "positive" and (self.freedom == "any" or not domain.nonnegative)
        numbers = self._numbers_in_reach(tensor, domain, signs=signs)
        wide = flattened(tensor).reshape(tensor.shape)
        values = rows_about(wide, numbers, self.generator)
        if domain.kind == "positive":
            values = values.abs() + domain.low / 8
        elif self.freedom != "any" and domain.nonnegative:
            values = values.abs()
        if self.freedom == "range":
            values = values.clamp(domain.low, domain.high)
        return shaped_like(values, tensor, domain)

    def _numbers_in_reach(
        self, tensor: torch.Tensor, domain: Domain, *, signs: bool
    ) -> list[float]:
        scale = domain.scale or 1.0
        most = min(self.cap * scale, torch.finfo(tensor.dtype).max / 1e3)
        return numbers_between(self.literals.values, scale / 1e3, most, self.generator, signs=signs)

    def pairs(self, tensors: Tensors, natural: Tensors) -> dict[str, torch.Tensor]:
        """Of two inputs of one shape the second, planted so that both together make one of the numbers."""
        by_form: dict[Any, str] = {}
        for name, tensor in tensors.items():
            if not is_free(natural[name]) or not tensor.dim():
                continue
            first = by_form.setdefault((tensor.shape, tensor.dtype), name)
            domain = observe(natural[name])
            if first != name and domain.kind == "real" and self.freedom == "any":
                numbers = self._numbers_in_reach(tensor, domain, signs=True)
                left, right = (flattened(t).reshape(t.shape) for t in (tensors[first], tensor))
                made = pairs_about(left, right, numbers, self.generator)
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
        flat = flattened(tensor)
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
        low, high = int(domain.low), int(domain.high)
        if self.freedom == "any":
            high = end_of_range(tensor, self.literals)
        near = [n + d for n in known for d in (0, 1, -1) if low <= n + d <= high]
        few = max(1, values.numel() // _SHARE, min(values.numel() // 3, FEW))
        multiples = beside_multiples(known, low, high, min(2 * few, _MULTIPLES), self.generator)
        ends = [low, high] * max(1, min(values.numel() // 32, _TIMES_AT_ENDS))
        planted = [*multiples, *dict.fromkeys(near[:few]), *ends]
        places = torch.randint(values.numel(), (len(planted),), generator=self.generator)
        values[places.to(values.device)] = torch.tensor(planted, dtype=values.dtype).to(values)
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
        place, many, few = map(self._each_below, (rows, rows, rows[:, :FEW]))
        count = 1 + torch.where(self._each_below(rows[:, :2]) == 0, few, many)
        band = (at >= place) & (at < place + count)
        item, missing = at == place, (at != place) | (width == 1)
        by_kind = (item, missing, at < count, at >= width - count, band)
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


def is_free(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and observe(tensor).kind in FREE


def flattened(tensor: torch.Tensor) -> torch.Tensor:
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
