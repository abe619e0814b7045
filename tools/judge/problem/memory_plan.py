"""The sizes at which a problem fits into the memory there is, chosen before anything is drawn.

Sizes give way in this order: the leading dimension, then inner ones with the constructor's arguments
that carry them, as far as the module accepts them (`smaller_sizes`). What is left too large ends here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelagent.domain.errors import EnvironmentFault, ProblemError
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem
from kernelagent.tools.judge.problem.memory_limit import is_lack_of_memory
from kernelagent.tools.judge.problem.memory_need import Need, bytes_of, need_of
from kernelagent.tools.judge.problem.reference.oracle import inputs_do_not_fit
from kernelagent.tools.judge.problem.smaller_sizes import (
    Scope,
    Sizes,
    WithoutLargeContents,
    inputs_without_contents,
    module_without_contents,
    on_meta,
    with_sizes,
)
from kernelagent.tools.judge.problem.trials.inputs import (
    InputSource,
    input_sources,
    leading_dimension,
    stays_as_given,
)
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin, work_of

_MOST_WORK = (2.0, 0.5, 0.25)
"""Work of one forward by level, in units of what is executed in about a second.

The first is the limit of an ordinary run; the smaller ones are for candidates for which the
interpreter ran out of time.
"""
LEVELS = len(_MOST_WORK)
_WEIGHTS_BYTES = 16 << 20
"""Bytes of weights that are drawn, converted to float64 and read by a tiled product in about a second."""
_TRIED_WITH_CONTENTS = 256 << 20
"""Of inputs and weights that are made at once to try a forward that meta tensors cannot run."""
_SMALLEST = (32, 16, 8)
"""What no size goes below; each next one where those before do not suffice, as in a batch of volumes."""
_STEPS = 8
_MOST_OPERATIONS = 20_000
"""Operators on tensors without contents that the search for sizes may run, a millisecond each at most.

They are counted, not timed: the same problem is executed at the same sizes on every machine.
"""
_GB = 1e9


@dataclass(frozen=True)
class Executed:
    """The problem as it will be executed; nothing of it has contents yet."""

    problem: LoadedProblem
    sources: tuple[InputSource, ...]
    whole: torch.nn.Module | None
    """At the user's sizes, on the meta device; None where it cannot be built without contents."""
    need: Need
    inner: Mapping[int, int] = field(default_factory=dict)
    arguments: Mapping[int, int] = field(default_factory=dict)
    """Of `inner`, what was replaced among the constructor's arguments."""


def plan(
    problem: LoadedProblem, device: str, scope: Scope, limit: int, *, level: int = 0
) -> Executed:
    """Choose the sizes for a device without a GPU and `limit` bytes; `level`: how small, 0 to 2.

    Raises `EnvironmentFault` when nothing fits, `ProblemError` when the problem cannot be shrunk.
    """
    whole = module_without_contents(problem, scope)
    full = inputs_without_contents(problem, scope)
    if whole is None or full is None:
        return _with_contents(problem, device, scope, limit, level)
    if not _runs_without_contents(problem, whole, full, device, scope):
        least = Need(weights=sum(bytes_of(t) for t in whole.state_dict().values()))
        if least.total > limit:
            raise too_large(least, limit)
        return _with_contents(problem, device, scope, limit, level)
    planner = _Planner(problem, full, device, scope, limit, level, _structure(whole))
    best = planner.at({}, {}, whole)
    if best is None or not (planner.fits(best) or planner.stays(best)):
        # If inner sizes must shrink at all, shrink them enough for a fast turn (level 1).
        planner = replace(planner, level=max(1, level))
        with _Operations() as spent:
            best = planner.smaller(best, full, spent)
        if best is not None and best.leading_stays and not planner.fits(best):
            best = None
    if best is None:
        raise ProblemError(
            f"the inputs of {problem.entry_point} are too large to execute without a GPU, and its "
            f"forward accepts no smaller ones. Give smaller inputs with --inputs FUNCTION, or use "
            f"a machine with a GPU and --device cuda"
        )
    if best.need.total > limit:
        raise too_large(best.need, limit)
    return Executed(best.problem, best.sources, whole, best.need, best.inner, best.arguments)


def _runs_without_contents(
    problem: LoadedProblem,
    whole: torch.nn.Module,
    full: Mapping[str, Arguments],
    device: str,
    scope: Scope,
) -> bool:
    """Whether the forward takes its inputs, at the user's own sizes, on meta tensors.

    False for a forward that reads values. Raises `ProblemError` for inputs that do not fit it.
    """
    for name, arguments in full.items():
        args, kwargs = on_meta(arguments)
        try:
            with scope(), AtOnce(), torch.no_grad():
                meta_twin(whole)(*args, **kwargs)
        except Exception as error:  # The user's own forward may raise anything.
            size = sum(bytes_of(t) for t in (*tensors_of(full[name]), *whole.state_dict().values()))
            if size <= _TRIED_WITH_CONTENTS:
                _try_with_contents(problem, name, device, scope)
            elif not isinstance(error, NotImplementedError) and "meta" not in str(error).lower():
                raise inputs_do_not_fit(problem.entry_point, error) from error
            return False
    return True


def _try_with_contents(problem: LoadedProblem, name: str, device: str, scope: Scope) -> None:
    """One forward on real tensors: whether it was the missing contents that it failed for."""
    with scope():
        module = problem.build().to(device).eval()
    sources = input_sources(problem, module, device, scope, may_shrink=False)
    args, kwargs = next(source for source in sources if source.name == name).draw(0)
    try:
        with scope(), torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:  # the user's forward raises anything
        if is_lack_of_memory(error):
            raise
        raise inputs_do_not_fit(problem.entry_point, error) from error


def too_large(need: Need, limit: int) -> EnvironmentFault:
    """The error for a problem that does not fit into the memory limit."""
    return EnvironmentFault(
        f"judging this problem needs {need.total / _GB:.1f} GB of memory and may have "
        f"{limit / _GB:.1f} GB: raise --memory-limit, give smaller inputs with --inputs FUNCTION, or "
        f"use a machine with a GPU and --device cuda"
    )


class _Operations(TorchDispatchMode):
    """Counts what is run in it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self._calls += 1
        return func(*args, **(kwargs or {}))

    @property
    def too_many(self) -> bool:
        return self._calls > _MOST_OPERATIONS


@dataclass(frozen=True)
class _Choice:
    problem: LoadedProblem
    module: torch.nn.Module
    sources: tuple[InputSource, ...]
    need: Need
    work: float
    inner: Mapping[int, int]
    arguments: Mapping[int, int]
    leading_stays: bool = False
    """Whether it is as many rows as its inner sizes say, because the forward takes no fewer."""


@dataclass(frozen=True)
class _Planner:
    problem: LoadedProblem
    full: Mapping[str, Arguments]
    device: str
    scope: Scope
    limit: int
    level: int
    structure: Mapping[str, int]
    """Of the user's module: each smaller one has it as well."""

    def fits(self, choice: _Choice) -> bool:
        return choice.work <= _MOST_WORK[self.level] and choice.need.total <= self.limit

    def stays(self, choice: _Choice) -> bool:
        """Whether it is executed as it is given, because numbers may point into what would be smaller."""
        leading = (leading_dimension(given) or 0 for given in self.full.values())
        as_given = all(source.shrunk is None for source in choice.sources)
        return as_given and all(
            stays_as_given(given, choice.module, first, _MOST_WORK[self.level])
            for given, first in zip(self.full.values(), leading, strict=True)
        )

    def cost(self, choice: _Choice) -> float:
        """1 and below: it fits."""
        return max(choice.work / _MOST_WORK[self.level], choice.need.total / self.limit)

    def at(
        self,
        inner: Mapping[int, int],
        arguments: Mapping[int, int],
        module: torch.nn.Module | None = None,
    ) -> _Choice | None:
        """The problem with these sizes and as few rows as it needs; None where it refuses them."""
        changed = bool(inner or arguments)
        sizes = Sizes(inner=inner, arguments=arguments)
        problem = with_sizes(self.problem, sizes) if changed else self.problem
        if module is None:
            module = module_without_contents(problem, self.scope)
        if module is None or _structure(module) != self.structure:
            return None
        try:
            sources, leading_stays = self._sources(problem, module, dict(inner) | dict(arguments))
            executed = [_executed(source, self.scope) for source in sources]
            with self.scope():
                needs = [need_of(module, arguments) for arguments in executed]
        except Exception:  # noqa: BLE001 - the user's own code may refuse other sizes in any way
            return None
        need = max(needs, key=lambda need: need.total, default=Need())
        work = max(work_of(arguments, module) for arguments in executed)
        work = max(work, need.weights / _WEIGHTS_BYTES)
        replaced = dict(inner) | dict(arguments)
        return _Choice(
            problem, module, sources, need, work, replaced, dict(arguments), leading_stays
        )

    def _sources(
        self, problem: LoadedProblem, module: torch.nn.Module, replaced: Mapping[int, int]
    ) -> tuple[tuple[InputSource, ...], bool]:
        """The input sets, and whether they have to keep their rows, which the constructor may decide."""
        made = partial(
            input_sources,
            problem,
            module,
            self.device,
            self.scope,
            may_shrink=True,
            full=self.full,
            inner=replaced,
            share=min(1.0, _MOST_WORK[self.level]),
        )
        try:
            return made(), False
        except ProblemError:
            if not replaced:
                raise
            return made(leading_stays=True), True

    def smaller(
        self, best: _Choice | None, full: Mapping[str, Arguments], spent: _Operations
    ) -> _Choice | None:
        """Inner sizes made smaller one after another, each time where it helps most.

        Once too many operations are `spent`, what is found by then.
        """
        if self.problem.construct is None:
            return best
        for smallest in _SMALLEST:
            best = self._reduced(best, full, smallest, spent)
            if best is not None and self.fits(best):
                return self._restored(best, spent)
            if spent.too_many:
                break
        return best

    def _restored(self, best: _Choice, spent: _Operations) -> _Choice:
        """Undoes every reduction without which the plan still fits, such as that of a number of groups which was
        reduced along with the channels."""
        for value in sorted(best.inner):
            if spent.too_many:
                break
            inner, arguments = (
                {was: now for was, now in sizes.items() if was != value}
                for sizes in (best.inner, best.arguments)
            )
            made = self.at(inner, arguments)
            if made is not None and self.fits(made):
                best = made
        return best

    def _reduced(
        self,
        best: _Choice | None,
        full: Mapping[str, Arguments],
        smallest: int,
        spent: _Operations,
    ) -> _Choice | None:
        inner = dict(best.inner) if best is not None else {}
        arguments = dict(best.arguments) if best is not None else {}
        values = _values(full, self.problem.init_args(), smallest)
        for _ in range(_STEPS):
            tried = []
            for names, constructed in _variants(values, inner, smallest):
                made = self.at({**inner, **names}, {**arguments, **constructed})
                if made is not None:
                    tried.append((self.cost(made), {**names}, {**constructed}, made))
                if spent.too_many:
                    break
            if not tried:
                return best
            fitting = [item for item in tried if item[0] <= 1]
            # As little as will do; else what comes nearest.
            cost, names, constructed, made = (
                max(fitting, key=_costs) if fitting else min(tried, key=_costs)
            )
            if best is not None and cost >= self.cost(best):
                return best
            inner |= names
            arguments |= constructed
            best = made
            if self.fits(best) or spent.too_many:
                return best
        return best


def _structure(module: torch.nn.Module) -> Mapping[str, int]:
    """The names of its weights and buffers, with their dimensions.

    A constructor may leave a layer out at other sizes, such as a projection between equal numbers of channels: what is
    executed then would be another module.
    """
    return {name: value.dim() for name, value in module.state_dict(keep_vars=True).items()}


def _costs(tried: tuple[float, Any, Any, Any]) -> float:
    return tried[0]


def _values(full: Mapping[str, Arguments], init: Arguments, smallest: int) -> tuple[int, ...]:
    """Sizes that may be replaced: of the inputs and among the constructor's arguments."""
    result: dict[int, int] = {}
    for leaf in tree_leaves(dict(full)):
        if isinstance(leaf, torch.Tensor):
            for size in leaf.shape:
                result[int(size)] = result.get(int(size), 0) + 1
    for leaf in tree_leaves(init):
        if isinstance(leaf, int) and not isinstance(leaf, bool):
            result[leaf] = result.get(leaf, 0) + 1
    return tuple(sorted((size for size in result if size > smallest), reverse=True))


def _variants(
    values: Sequence[int], inner: Mapping[int, int], smallest: int
) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """Each size a quarter of what it is now, or a half; also in the inputs alone, and all together."""
    for share in (4, 2):
        every = {v: _fraction(v, inner.get(v, v), share, smallest) for v in values}
        every = {v: now for v, now in every.items() if now < inner.get(v, v)}
        if len(every) > 1:
            yield every, every
        for value, now in every.items():
            yield {value: now}, {value: now}
            yield {value: now}, {}


def _fraction(was: int, now: int, share: int, smallest: int) -> int:
    """A share of `now` with the same remainder modulo 16 as `was`, so that a ragged last block stays ragged."""
    fewer = now // share
    if was % 16 == 0:
        fewer = fewer // 16 * 16
    elif fewer >= smallest:
        fewer = fewer // 16 * 16 + was % 16
    return max(fewer, smallest)


def _executed(source: InputSource, scope: Scope) -> Arguments:
    """The inputs that would be executed, without their contents."""
    with scope(), WithoutLargeContents():
        made: Arguments = on_meta(source.draw(0))
    return made


def _with_contents(
    problem: LoadedProblem, device: str, scope: Scope, limit: int, level: int
) -> Executed:
    """For code that needs values to be built: it is built, under the process's own data limit."""
    module = problem.build()
    sources = input_sources(
        problem,
        module,
        device,
        scope,
        may_shrink=True,
        share=min(1.0, _MOST_WORK[level]),
    )
    needs = []
    for source in sources:
        try:
            needs.append(need_of(module, source.draw(0)))
        except Exception:  # noqa: BLE001 - a forward that reads values has no meta run
            weights = sum(bytes_of(t) for t in (*module.parameters(), *module.buffers()))
            inputs = sum(bytes_of(t) for t in tensors_of(source.draw(0)))
            needs.append(Need(inputs, weights, inputs, 4 * inputs))
    need = max(needs, key=lambda need: need.total, default=Need())
    if need.total > limit:
        raise too_large(need, limit)
    return Executed(problem, sources, None, need)
