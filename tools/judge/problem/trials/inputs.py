"""The inputs a candidate is judged on: drawn anew for each seed, shrunk where the device needs it.

A problem whose real size would keep an interpreter busy for hours is run with a smaller leading
dimension (`smaller` chooses inner ones, where that is not enough). The full sizes are kept as meta
tensors, for everything that needs no execution; nothing is ever drawn before it is known to fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem, users_traceback
from kernelagent.tools.judge.problem.smaller_sizes import (
    Sizes,
    SmallerFactories,
    inputs_without_contents,
    on_meta,
)
from kernelagent.tools.judge.problem.trials.distinct_numbers import ANYWHERE, DefinedWrites
from kernelagent.tools.judge.problem.trials.interpreted_work import (
    bytes_in,
    meta_twin,
    seconds_of,
    work_of,
)
from kernelagent.tools.judge.problem.trials.layouts import in_layout_of, strides_at, with_strides

_SLICED_BYTES = 256 << 20
"""Of inputs that are drawn whole and then cut, because nothing else makes them smaller."""
_FEWEST_ROWS, _FEWEST_LONG_ROWS = 4, 2
"""The smallest leading dimension to shrink to; the second where fewer than `_FEWEST_ROWS` rows are a second's work."""
_GROWS_FROM = 4
"""Rows that do less than this part of the work that may be done are too few."""
_TIMES_GROWN = 4
_LEAST_TILE, _LARGEST_TILE = 16, 256
"""Rows that one program may have, powers of two."""
_MOST_AS_GIVEN = 8
"""Work of a forward, in seconds of the interpreter's, that is done as it is given where no smaller one is to be had."""
Scope = Callable[[], AbstractContextManager[Any]]
InputSets = Mapping[str, Arguments]


@dataclass(frozen=True)
class Shrunk:
    """The leading dimension in question: `was` elements in the user's inputs, `now` in those run."""

    was: int
    now: int
    inner: tuple[tuple[int, int], ...] = ()
    """Other sizes that were replaced, with those among the constructor's arguments."""

    def __str__(self) -> str:
        parts = []
        if self.now != self.was:
            parts.append(f"a leading dimension of {self.now} instead of {self.was}")
        if self.inner:
            smaller = ", ".join(f"{now} instead of {was}" for was, now in self.inner)
            parts.append(f"sizes of {smaller}, constructor arguments included")
        return " and ".join(parts)


@dataclass(frozen=True)
class InputSource:
    """One input set: how to draw it, and what it looks like at full size."""

    name: str
    full: Arguments
    """At the user's sizes; meta tensors."""
    draw: Callable[[int], Arguments]
    """Fresh inputs on the device for a seed, at the size that is executed."""
    shrunk: Shrunk | None = None
    constant: bool = False
    """Whether there are example tensors only, which every seed gives."""
    writes: DefinedWrites = ANYWHERE
    """What other values of the inputs have to keep, so that the reference has an answer to them."""


@dataclass(frozen=True)
class _Set:
    """An input set while its leading dimension is being chosen."""

    problem: LoadedProblem
    module: torch.nn.Module
    name: str
    full: Arguments
    device: str
    scope: Scope

    def drawn_by(self, sizes: Sizes) -> Callable[[int], Arguments]:
        def draw(seed: int) -> Arguments:
            seed_everything(seed)
            with self.scope(), SmallerFactories(sizes) if sizes else nullcontext():
                args, kwargs = self.problem.input_sets()[self.name]
            return _moved((args, kwargs), self.device)

        return draw

    def accepts(self, sizes: Sizes, now: int) -> bool:
        """Whether the inputs become smaller by it, and the forward takes them."""
        made = inputs_without_contents(self.problem, self.scope, sizes)
        return made is not None and self.name in made and _fits(self.module, made[self.name], now)

    def work_with(self, leading: int, rows: int) -> float | None:
        """One forward's work with so many rows; None where it cannot be had without contents."""
        made = inputs_without_contents(self.problem, self.scope, Sizes(leading=(leading, rows)))
        if made is None or self.name not in made:
            return None
        try:
            return seconds_of(made[self.name], self.module)
        except Exception:  # noqa: BLE001 - the user's forward may refuse the size in any way
            return None

    def points_within(self, draw: Callable[[int], Arguments]) -> bool:
        """Whether the forward takes what is drawn, where whole numbers in it may point beyond what became smaller.

        A forward without contents looks at no number: a table of places would be read beyond a smaller cache.
        """
        if not _holds_integers(self.full):
            return True
        weights = sum(bytes_in(tensor) for tensor in self.module.state_dict().values())
        if bytes_in(self.full) + weights > _SLICED_BYTES:
            return True
        arguments = draw(0)
        try:
            with self.scope(), torch.no_grad():
                module = self.problem.build().to(self.device).eval()
                args, kwargs = arguments
                module(*args, **kwargs)
        except Exception:  # noqa: BLE001 - the user's forward may refuse the numbers in any way
            return False
        return True


def input_sources(
    problem: LoadedProblem,
    module: torch.nn.Module,
    device: str,
    scope: Scope,
    *,
    may_shrink: bool,
    full: InputSets | None = None,
    inner: Mapping[int, int] | None = None,
    share: float = 1.0,
    leading_stays: bool = False,
) -> tuple[InputSource, ...]:
    """All input sets of the problem; raises `ProblemError` when one is too large and cannot shrink.

    `module`: at the sizes of `problem`, with or without contents. `full`: the sets at the user's
    sizes where `problem` has smaller `inner` ones; `share` of the usual work is what may be done.
    `leading_stays`: nothing but what is `inner` is smaller, however much work that leaves.
    """
    described = inputs_without_contents(problem, scope) if may_shrink else None
    if described is None:
        with scope():
            described = problem.input_sets()
    sources = []
    replaced = tuple(sorted((inner or {}).items()))
    for name, given in described.items():
        at = _Set(problem, module, name, given, device, scope)
        shrinks = may_shrink and not leading_stays
        shrunk = _needed_shrink(at, share) if shrinks else None
        if shrunk is not None and stays_as_given(given, module, shrunk.was, share):
            shrunk = None
        draw = None if shrunk is None else _shrunk_drawer(at, shrunk)
        if draw is None:
            draw, shrunk = at.drawn_by(Sizes()), None
            if inner and may_shrink and not at.points_within(draw):
                raise ProblemError(
                    f"input set {name!r} holds numbers that point beyond smaller sizes"
                )
        whole = given if full is None else full[name]
        if replaced:
            leading, now = (leading_dimension(item) or 0 for item in (whole, given))
            shrunk = Shrunk(leading, shrunk.now if shrunk else now, replaced)
        sources.append(InputSource(name, on_meta(whole), draw, shrunk, problem.constant_inputs))
    return tuple(sources)


def seed_everything(seed: int) -> None:
    """The generators a user's input function may draw from.

    `torch.manual_seed` takes milliseconds where no device is initialised: for each kind of device it keeps the seed with a
    stack trace until one is.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def _shrunk_drawer(at: _Set, shrunk: Shrunk) -> Callable[[int], Arguments] | None:
    """None: as it is given, because what is smaller is pointed beyond, and the whole is not much work."""
    leading = (shrunk.was, shrunk.now)
    count = sum(isinstance(v, torch.Tensor) for v in tree_leaves(at.full))
    pointed_beyond = False
    for only in (None, *range(count)):
        sizes = Sizes(leading=leading, only=only)
        if at.accepts(sizes, shrunk.now):
            draw = at.drawn_by(sizes)
            if at.points_within(draw):
                return draw
            pointed_beyond = True
    if bytes_in(at.full) <= _SLICED_BYTES:
        whole = at.drawn_by(Sizes())
        for chosen in (None, *range(count)):
            sliced = _slicer(whole, shrunk, chosen)
            if _fits(at.module, _or_none(sliced, 0), shrunk.now):
                if at.points_within(sliced):
                    return sliced
                pointed_beyond = True
    if pointed_beyond and work_of(at.full, at.module) <= _MOST_AS_GIVEN:
        return None
    raise ProblemError(
        f"input set {at.name!r} is too large to execute without a GPU "
        f"({bytes_in(at.full) / 1e6:,.0f} MB), and its leading dimension of {shrunk.was} cannot be "
        f"made smaller: the forward does not accept {shrunk.now}. Give smaller inputs with "
        f"--inputs FUNCTION, or use a machine with a GPU and --device cuda"
    )


def _slicer(
    whole: Callable[[int], Arguments], shrunk: Shrunk, chosen: int | None
) -> Callable[[int], Arguments]:
    """Cut the leading dimension of all tensors that have it, or of the `chosen`-th tensor only."""

    def draw(seed: int) -> Arguments:
        position = -1

        def cut(value: Any) -> Any:
            nonlocal position
            if not isinstance(value, torch.Tensor):
                return value
            position += 1
            has_it = value.dim() > 0 and value.shape[0] == shrunk.was
            wanted = chosen is None or position == chosen
            if not (has_it and wanted):
                return value
            fewer = value[: shrunk.now]
            return with_strides(fewer, strides_at(fewer.shape, value))

        return _pair(tree_map(cut, whole(seed)))

    return draw


def _needed_shrink(at: _Set, share: float) -> Shrunk | None:
    """As many rows as are `share` of the usual work: in proportion, and more where work grows faster than rows."""
    factor = work_of(at.full, at.module) / share
    if factor <= 1:
        return None
    leading = leading_dimension(at.full)
    if leading is None:
        raise ProblemError(
            f"input set {at.name!r} of {bytes_in(at.full) / 1e6:,.0f} MB has no dimension to shrink; give "
            f"smaller inputs with --inputs FUNCTION, or use a machine with a GPU and --device cuda"
        )
    now = _rows(leading / factor, leading)
    for _ in range(_TIMES_GROWN if factor > _GROWS_FROM else 0):
        done = at.work_with(leading, now)
        if done is None or done * _GROWS_FROM > share:
            break
        # As if it grew by the square: by more it would be too many, which is seen.
        more = min(leading, _rows(now * (share / done) ** 0.5, leading))
        larger = at.work_with(leading, more)
        if more == now or larger is None or larger > share:
            break
        now = more
    return Shrunk(leading, now) if now < leading else None


def _rows(wanted: float, leading: int) -> int:
    """About as many as are `wanted`, with the remainder that `leading` has by powers of two.

    A grid that leaves the last rows of the user's own size out leaves some of these out as well.
    """
    fewer = int(wanted)
    fewest = _FEWEST_ROWS if fewer >= _FEWEST_ROWS else _FEWEST_LONG_ROWS
    if fewer < 2 * _LEAST_TILE:
        return max(fewest, fewer)
    tile = min(_LARGEST_TILE, max(_LEAST_TILE, 1 << (fewer // 8).bit_length() - 1))
    return max(fewest, fewer - (fewer - leading) % tile)


def leading_dimension(full: Arguments) -> int | None:
    tensors = [v for v in tree_leaves(full) if isinstance(v, torch.Tensor) and v.dim() > 0]
    largest = max(tensors, key=lambda t: t.numel() * t.element_size(), default=None)
    return int(largest.shape[0]) if largest is not None else None


def _fits(module: torch.nn.Module, arguments: Arguments | None, now: int) -> bool:
    """True when the reference accepts these inputs and they really are smaller."""
    if arguments is None or not any(
        isinstance(v, torch.Tensor) and v.dim() > 0 and v.shape[0] == now
        for v in tree_leaves(arguments)
    ):
        return False
    args, kwargs = on_meta(arguments)
    try:
        with AtOnce(), torch.no_grad():
            meta_twin(module)(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's forward may refuse the size in any way
        return False
    return True


def stays_as_given(full: Arguments, module: torch.nn.Module, leading: int, share: float) -> bool:
    """Whether whole numbers of other rows may count or number those that would be fewer, and the whole is not much work.

    Lengths of sequences that lie behind one another, places in a cache: a reference may take them with fewer rows,
    where a right kernel reads beyond.
    """
    others = [
        v for v in tree_leaves(full) if _is_whole(v) and (v.dim() == 0 or v.shape[0] != leading)
    ]
    return bool(others) and share >= 1 and work_of(full, module) <= _MOST_AS_GIVEN


def _is_whole(value: Any) -> bool:
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and not is_inexact(value) and value.dtype != torch.bool


def _holds_integers(arguments: Arguments) -> bool:
    return any(map(_is_whole, tree_leaves(arguments)))


def _or_none(draw: Callable[[int], Arguments], seed: int) -> Arguments | None:
    try:
        return draw(seed)
    except ProblemError:
        return None


def _moved(arguments: Arguments, device: str) -> Arguments:
    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type == "meta":
            return value
        try:
            moved = in_layout_of(value.detach().to(device), value)
            return moved.requires_grad_(value.requires_grad)
        except RuntimeError as error:
            raise ProblemError(
                f"an input cannot be moved to {device}:\n{users_traceback(error)}"
            ) from error

    return _pair(tree_map(move, arguments))


def _pair(value: Any) -> Arguments:
    args, kwargs = value
    return args, kwargs
