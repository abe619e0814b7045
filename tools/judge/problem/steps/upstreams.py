"""Upstream gradients with structure, as losses, masks and loss scaling send them and random draws never are.

A backward that takes a short cut for such values is right on all others. The list is gone through in
turn, beginning anywhere, so that a few steps see much of it and a final judging sees all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.backwards import Row
from kernelagent.tools.calls.complex_numbers import of_parts, parts_of
from kernelagent.tools.judge.problem.trials.planting import patterns
from kernelagent.tools.judge.problem.trials.planting.patterns import Draw

_LARGE, _LARGE_IN_HALF = 2.0**20, 2.0**5
"""What a loss is scaled by, once a scale has grown for a while, and what float16 has room for."""
_TINY = 2.0**-60
"""Of a loss that is a mean over very many; squares of it are still normal numbers of float32."""
_NOT_DENSE: Mapping[str, int] = {"stacked": 1, "transposed": 2, "gaps": 2, "exchanged": 3}
"""Layouts, with the fewest dimensions that can lie so."""
_SOME_LEFT_OUT = 3
"""Where there are several outputs, one in this many rows of upstream gradients has none for one of the outputs."""
_ONE_PART = 6
"""Of so many complex upstream gradients one is real, one imaginary."""
_LARGEST_RMS = 1e3
_SAME_EVERYWHERE = frozenset({"ones", "mean", "equal"})
_QUIETEST = 28.0
"""Powers of two that a row of an upstream gradient lies below the loudest."""


@dataclass(frozen=True)
class Output:
    """One differentiable output of a call."""

    result: torch.Tensor
    drawn: torch.Tensor
    """Random numbers in its shape, float32 or wider."""
    alike: tuple[torch.Tensor, ...]
    """Inputs of its shape."""


Kind = Callable[[Output, Draw], torch.Tensor | None]
"""None: this output cannot have one of the kind."""


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 else tensor.reshape(-1, 1)


def of_unlike_sizes(row: Row, generator: torch.Generator) -> Row:
    """The same, each of the first dimension's parts smaller by its own factor: rare tokens beside frequent ones."""

    def quieter(tensor: torch.Tensor) -> torch.Tensor:
        shape = (len(tensor), *(1 for _ in tensor.shape[1:]))
        factors = torch.exp2(-_QUIETEST * torch.rand(shape, generator=generator))
        return tensor * factors.to(tensor)

    return tuple(g if g is None or not g.dim() else quieter(g) for g in row)


def _full(value: float) -> Kind:
    return lambda output, draw: torch.full_like(output.drawn, value)


def _mean(output: Output, draw: Draw) -> torch.Tensor:
    return torch.full_like(output.drawn, 1.0 / max(1, output.drawn.numel()))


def _times(factor: float) -> Kind:
    return lambda output, draw: output.drawn * factor


def _rows_chosen(share: float) -> Kind:
    """Rows of zeros, as a loss that ignores some of them sends; the others as they were drawn."""

    def made(output: Output, draw: Draw) -> torch.Tensor:
        rows = rows_of(output.drawn.clone())
        kept = torch.rand(len(rows), generator=draw) < share
        kept[patterns.below(len(rows), draw)] = True
        rows[~kept.to(rows.device)] = 0.0
        return rows.reshape(output.drawn.shape)

    return made


def _one_row(output: Output, draw: Draw) -> torch.Tensor:
    return _rows_chosen(0.0)(output, draw)  # type: ignore[return-value]


def _one_column(output: Output, draw: Draw) -> torch.Tensor:
    made, drawn = torch.zeros_like(output.drawn), output.drawn
    at = patterns.below(drawn.shape[-1], draw) if drawn.dim() else 0
    if drawn.dim():
        made[..., at] = drawn[..., at]
    return made if drawn.dim() else drawn


def _beginning(output: Output, draw: Draw) -> torch.Tensor:
    """Padding at the end of the first dimension."""
    made = output.drawn.clone()
    if made.dim():
        made[1 + patterns.below(made.shape[0], draw) :] = 0.0
    return made


def _ending(output: Output, draw: Draw) -> torch.Tensor:
    made = output.drawn.clone()
    if made.dim():
        made[..., : patterns.below(made.shape[-1], draw)] = 0.0
    return made


def _as_result(sign: float, share: float = 1.0) -> Kind:
    """What the square of the result, summed, sends."""
    return lambda output, draw: sign * share * output.result.to(output.drawn)


def _sign_of_result(output: Output, draw: Draw) -> torch.Tensor:
    return output.result.to(output.drawn).sgn()


def _cross_entropy(output: Output, draw: Draw) -> torch.Tensor:
    """The softmax of the result less one at a label, shared by all rows."""
    if not output.drawn.dim():
        return output.result.to(output.drawn)
    rows = rows_of(output.result.to(output.drawn)).softmax(-1)
    labels = torch.randint(rows.shape[-1], (len(rows),), generator=draw).to(rows.device)
    rows[torch.arange(len(rows), device=rows.device), labels] -= 1.0
    return (rows / len(rows)).reshape(output.drawn.shape)


def _as_input(output: Output, draw: Draw) -> torch.Tensor | None:
    if not output.alike:
        return None
    chosen = output.alike[patterns.below(len(output.alike), draw)]
    return (chosen.real if chosen.is_complex() else chosen).to(output.drawn)


def _rows_by_patterns(output: Output, draw: Draw) -> torch.Tensor | None:
    if not output.drawn.dim():
        return None
    return patterns.in_rows(output.drawn, draw, patterns.below(1 << 16, draw))


def _whole(at: int) -> Kind:
    return lambda output, draw: patterns.one_of_whole(at, output.drawn, draw)


_FIRST: Mapping[str, Kind] = {
    "ones": _full(1.0),
    "zero rows": _rows_chosen(0.7),
    "mean": _mean,
    "one row": _one_row,
    "large": _times(_LARGE),
    "result": _as_result(1.0),
    "one place": lambda output, draw: patterns.one_place(output.drawn, draw),
    "small": _times(1 / _LARGE),
    "tiny": _times(_TINY),
}
"""What programs send most often: some of them come in every round."""
_OTHERS: Mapping[str, Kind] = {
    "few rows": _rows_chosen(0.1),
    "one column": _one_column,
    "beginning": _beginning,
    "ending": _ending,
    "minus ones": _full(-1.0),
    "minus the result": _as_result(-1.0),
    "twice the result": _as_result(2.0),
    "sign of the result": _sign_of_result,
    "cross entropy": _cross_entropy,
    "an input": _as_input,
    "patterns by row": _rows_by_patterns,
    **{f"whole {at}": _whole(at) for at in range(len(patterns.WHOLE))},
    "other patterns by row": _rows_by_patterns,
    "equal": lambda output, draw: torch.full_like(output.drawn, float(output.drawn.reshape(-1)[0])),
}
KINDS: Mapping[str, Kind] = {**_FIRST, **_OTHERS}


def turns() -> Iterator[str]:
    """The names of all kinds again and again, one of the usual ones after every two others."""
    chance = secrets.SystemRandom()
    usual, others = list(_FIRST), list(_OTHERS)
    at, then = chance.randrange(len(usual)), chance.randrange(len(others))
    while True:
        yield usual[at % len(usual)]
        yield others[then % len(others)]
        yield others[(then + 1) % len(others)]
        at, then = at + 1, then + 2


def structured(name: str, outputs: Sequence[Output], draw: Draw) -> Row | None:
    """One upstream gradient for each output, of this kind; None where an output has none of it."""
    made: list[torch.Tensor | None] = []
    for output in outputs:
        values = _values(name, output, draw)
        if values is None:
            return None
        made.append(_laid_out(values, name, draw))
    if len(made) > 1 and patterns.below(_SOME_LEFT_OUT, draw) == 0:
        left = patterns.below(len(made), draw)
        made = [None if at == left else item for at, item in enumerate(made)]
    return tuple(made)


def size_of(row: Row) -> float:
    """The root of the mean square of what is not zero: gradients are linear in it."""
    sizes = [
        float(kept.double().square().mean().sqrt())
        for item in row
        if item is not None and (kept := item.detach().abs()[item != 0]).numel()
    ]
    return max(sizes, default=1.0)


def _values(name: str, output: Output, draw: Draw) -> torch.Tensor | None:
    if output.result.is_complex():
        parts = [
            part for item in _in_parts(output) if (part := _values(name, item, draw)) is not None
        ]
        if len(parts) < 2:
            return None
        # As `.real.sum()` sends it, which has no imaginary part.
        kept = patterns.below(_ONE_PART, draw)
        real, imaginary = (
            part if kept > 1 or at == kept else torch.zeros_like(part)
            for at, part in enumerate(parts)
        )
        return of_parts(real, imaginary).to(output.result.dtype)
    if output.result.dtype == torch.float16 and name == "tiny":
        return None
    values = KINDS[name](output, draw) if output.drawn.numel() else output.drawn
    if values is None:
        return None
    if output.result.dtype == torch.float16 and name in ("large", "small"):
        values = output.drawn * (_LARGE_IN_HALF if name == "large" else 1 / _LARGE_IN_HALF)
    rms = values.detach().double().square().mean().sqrt() if values.numel() else torch.tensor(1.0)
    if name != "large" and not float(rms) <= _LARGEST_RMS:
        # Results that are infinite or huge would leave nothing to compare.
        return None
    return values.to(output.result.dtype)


def _in_parts(output: Output) -> Iterator[Output]:
    """The real and the imaginary part, as if each were an output of its own."""
    results, drawn = parts_of(output.result), parts_of(output.drawn)
    alike = [parts_of(t) if t.is_complex() else (t, t) for t in output.alike]
    for at in range(2):
        yield Output(results[at], drawn[at], tuple(pair[at] for pair in alike))


def _laid_out(values: torch.Tensor, name: str, draw: Draw) -> torch.Tensor:
    """As `.sum()` sends it where all are the same; else dense, transposed or with gaps between rows."""
    if name in _SAME_EVERYWHERE and values.numel() > 1 and patterns.below(3, draw):
        return values.reshape(-1)[:1].reshape([1] * values.dim()).expand(values.shape)
    if values.dim() > 1 and name == f"whole {len(patterns.WHOLE) - 1}":
        return values[..., :1].expand(values.shape)
    if values.dim() > 1 and name == f"whole {len(patterns.WHOLE) - 2}":
        return values[:1].expand(values.shape)
    others = layouts_of(values)
    at = patterns.below(2 * len(others) + 1, draw)
    return laid_out(values, others[at] if at < len(others) else "dense")


def layouts_of(values: torch.Tensor) -> list[str]:
    """Those that are not dense and that a tensor of these dimensions can have."""
    return [layout for layout, fewest in _NOT_DENSE.items() if values.dim() >= fewest]


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values, dense or not; as another consumer of the result may send them."""
    if layout == "transposed":
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "exchanged":
        # Time first for one that goes on with batches: rows are whole, and lie in another order.
        return values.transpose(0, 1).contiguous().transpose(0, 1)
    if layout == "stacked":
        return torch.stack([values, torch.zeros_like(values)], -1)[..., 0]
    if layout == "gaps":
        wide = torch.zeros(
            (*values.shape[:-1], values.shape[-1] + 3), dtype=values.dtype, device=values.device
        )
        part = wide[..., : values.shape[-1]]
        return part.copy_(values)
    return values.contiguous()
