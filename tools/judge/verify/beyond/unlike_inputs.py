"""Calls with inputs that lack a property which all of the user's have: what is wrong there is told, nobody is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.steps.upstreams import of_unlike_sizes
from kernelagent.tools.judge.problem.trials.floors import at_floors, floors_of
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lone_elements import lone_changes, lone_elements
from kernelagent.tools.judge.problem.trials.near_rows import near_rows
from kernelagent.tools.judge.problem.trials.planting.literals import literals_of
from kernelagent.tools.judge.problem.trials.probes import named_tensors, share_nonfinite
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import (
    Unlike,
    unlike,
    unlike_weights,
)
from kernelagent.tools.judge.problem.trials.unlike_buffers import larger_buffers
from kernelagent.tools.judge.problem.trials.unlike_integers import (
    INTEGERS,
    close_integers,
    larger_integers,
    smaller_integers,
)
from kernelagent.tools.judge.verify.beyond.allowance import Allowance
from kernelagent.tools.judge.verify.beyond.asking import (
    NO_ANSWER,
    TIMEOUT,
    Asked,
    ask,
    with_changed,
    without_end,
)
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

_FACTORS = (
    1.1,
    1.25,
    1.5,
    *(2.0**octaves for octaves in (1, 2, 3, 4, 6, 8, 11, 14, 17, 20, 24, 30)),
)
"""Integers become so much larger, as long as the module takes them and answers in the same form."""
SECONDS = 4.0
"""Of processor time for all of these calls together: where a call takes long, only the first of them are made."""
LONGEST_S = 20.0
"""The same by the clock, on a busy machine."""
_WITH_GRADIENTS = frozenset(
    {"fractions", "signs", "sums", "magnitudes", "patterns", "larger_integers", "smaller_integers"}
)
"""Properties without which a training step is taken as well; where elements are equal, many a gradient is a choice."""
_MOST_STEPS = 2
"""Of each property, in the drawn order of the inputs, and of the weights."""
_TOO_LONG = (
    f"calls take so long that not all inputs without the properties of yours (such as one sign, whole numbers, or "
    f"their magnitudes) were tried within {SECONDS:.0f} seconds of processor time: of what was not, nothing is told"
)
_TIMES_LOWER = 1 << 40, 1 << 20, 1 << 10, 4
"""By how much negative integers become smaller, as far as the module takes them."""
_MOST_INTEGERS = 6
"""Inputs of integers that are tried, in a drawn order."""


class _NoMore(Exception):
    """The candidate's process has ended, or the time for these calls has."""


@dataclass(frozen=True)
class UnlikeInputs:
    """What is asked with, for one candidate; the last that its process is asked."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator
    allowance: Allowance
    steps: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """Training steps taken, by input set, property, and whether it is one of inputs."""

    def about_all(self) -> None:
        try:
            for source in self.context.sources:
                self._about(source)
        except _NoMore as end:
            if str(end):
                self.findings.disclose("properties_not_tried", str(end))

    def _about(self, source: InputSource) -> None:
        usual = share_nonfinite(self.context.oracle.eager(self._draw(source)))
        self._small(source)
        given = self.context.oracle.given_weights
        report: set[str] = set()
        constants = literals_of("", self.context.problem.source).values
        drawn = self._draw(source)
        natural = named_tensors(drawn)
        for item in chain(
            near_rows(natural, given, self.generator),
            at_floors(natural, self._floors(constants), self.generator),
            lone_elements(natural, self.generator),
            lone_changes(natural, self.generator),
            unlike(natural, given, self.generator, constants),
        ):
            if item.property in report:
                continue
            # What was made like another input needs that one beside it.
            arguments = with_changed(drawn if item.other else self._draw(source), item.tensors)
            asked = self._ask(source, arguments, item.property, usual)
            self._note(source, item, asked, report)
        self._integers(source, usual)
        self._weights(source, usual)

    def _weights(self, source: InputSource, usual: float) -> None:
        oracle = self.context.oracle
        given, report = oracle.given_weights, set[str]()
        own = {n: given[n] for n, _ in oracle.module.named_parameters() if n in given}
        buffers = {name: tensor for name, tensor in given.items() if name not in own}
        floors = self._floors(literals_of("", self.context.problem.source).values)
        for item in chain(
            at_floors(buffers, floors, self.generator),
            larger_buffers(buffers, self.generator),
            unlike_weights(own, self.generator),
            lone_elements(given, self.generator),
        ):
            if item.property in report:
                continue
            weights = {**given, **item.tensors}
            arguments = self._draw(source)
            asked = self._ask(source, arguments, item.property, usual, weights)
            self._note(source, item, asked, report)

    def _floors(self, constants: Sequence[float]) -> tuple[float, ...]:
        return floors_of(self.context.oracle.module, constants)

    def _note(
        self, source: InputSource, item: Unlike, asked: Asked | None, report: set[str]
    ) -> None:
        if asked is not None and asked.wrong is not None:
            report.add(item.property)
            held = item.held.format(other=self._label(source, item.other))
            self._tell(source, item.property, item.name, held, item.tried, asked)
        self._tell_lost(asked, f"with {self._label(source, item.name)} unlike yours ({item.tried})")
        _stop_after(asked)

    def _ask(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        usual: float,
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> Asked | None:
        """None where the reference does not take these, or answers with more that is NaN or infinite than `usual`.

        A kernel may take a number that it is given for a count: that it then takes too long is told as well.
        """
        if self.allowance.spent:
            raise _NoMore(_TOO_LONG)
        try:
            asked = ask(
                self.context,
                self.process,
                self.findings,
                source,
                arguments,
                probe,
                weights=weights,
                nonfinite=usual,
            )
            judged = asked is not None and asked.agrees
            if asked is None or not judged or not self.context.trains:
                return asked
            return self._step(source, arguments, probe, usual, weights) or asked
        except Rejected as refused:
            return without_end(refused)

    def _step(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        usual: float,
        weights: Mapping[str, torch.Tensor] | None,
    ) -> Asked | None:
        """How a training step with these went, where its gradients are wrong."""
        asked_for = (source.name, probe, weights is None)
        if probe not in _WITH_GRADIENTS or self.steps[asked_for] >= _MOST_STEPS:
            return None
        self.steps[asked_for] += 1
        oracle = self.context.oracle.beside()
        oracle.use_weights(oracle.given_weights if weights is None else weights)
        try:
            step = single_step(oracle, arguments, self.generator)
        except NO_ANSWER:
            return None
        asked = ask(
            self.context,
            self.process,
            self.findings,
            source,
            arguments,
            probe,
            weights=weights,
            step=step,
            nonfinite=usual,
        )
        if asked is None or asked.wrong is None:
            return None
        return replace(asked, what="gradients, in a training step, differ")

    def _small(self, source: InputSource) -> None:
        asked = self._ask(source, self._draw(source), "natural", 1.0)
        if asked is not None and asked.zeros is not None:
            self.findings.disclose(
                "zeros_of_other_sign",
                f"{asked.zeros} have another sign than with your module; a quotient by them is the other infinity",
            )
        self._tell_lost(asked, "on inputs drawn as yours are")
        _stop_after(asked)
        if self.context.trains:
            self._quiet_upstreams(source)

    def _quiet_upstreams(self, source: InputSource) -> None:
        """A step whose upstream gradients are loud in some rows and quiet in others."""
        oracle, arguments = self.context.oracle.beside(), self._draw(source)
        oracle.use_weights(oracle.given_weights)
        try:
            step = single_step(oracle, arguments, self.generator)
        except NO_ANSWER:
            return
        rows = tuple(of_unlike_sizes(row, self.generator) for row in step.upstream)
        step = replace(step, upstream=rows)
        try:
            asked = ask(
                self.context, self.process, self.findings, source, arguments, "natural", step=step
            )
        except Rejected as refused:
            asked = without_end(refused)
        if asked is not None and asked.wrong is not None:
            self.findings.disclose(
                "differs_on_magnitudes",
                "upstream gradients are all of one size in every judged step; where rows of them differ by many powers of two the "
                f"candidate's gradients differ from your module's: {asked.wrong:.200}",
            )
        self._tell_lost(asked, "with upstream gradients whose rows differ in size")
        _stop_after(asked)

    def _tell_lost(self, asked: Asked | None, where: str) -> None:
        """`where`: with which inputs or weights."""
        if asked is not None and asked.lost is not None:
            self.findings.disclose(
                "small_results_lost",
                f"{where}, results that are small beside others are lost or far off, within the error that the whole is allowed: {asked.lost}; "
                f"a logarithm or a quotient of them is another than with your module",
            )

    def _integers(self, source: InputSource, usual: float) -> None:
        """The largest that the module takes, and some in between; close ones; the smallest."""
        every = named_tensors(self._draw(source)).items()
        names = [n for n, t in every if t.dtype in INTEGERS]
        order = torch.randperm(len(names), generator=self.generator)[:_MOST_INTEGERS].tolist()
        for name in (names[at] for at in order):
            taken = self._taken(source, name, usual)
            for factor in {*taken[-1:], *taken[len(taken) // 2 :][:1]}:
                arguments = self._larger(source, name, factor)
                if arguments is not None and self._differs_on(
                    source, name, arguments, "larger", usual
                ):
                    return
            close = bool(taken) and self._close(source, name, taken[-1], usual)
            self._smaller(source, name, usual)
            if close:
                return

    def _differs_on(
        self,
        source: InputSource,
        name: str,
        arguments: Arguments,
        how: str,
        usual: float,
        which: str = "",
    ) -> bool | None:
        """Whether other integers are answered otherwise, which is told then; None: the reference does not take them."""
        asked = self._ask(source, arguments, f"{how}_integers", usual)
        if asked is None:
            return None
        if asked.wrong is not None:
            held = f"holds no {how} integers than your draws"
            tried = f"{how} ones{which}, which your module takes,"
            self._tell(source, f"{how}_integers", name, held, tried, asked)
            _stop_after(asked)
        return asked.wrong is not None

    def _close(self, source: InputSource, name: str, factor: float, usual: float) -> bool:
        """Whether it was told of integers that differ in their high bits alone, or by one."""
        tensors = named_tensors(self._draw(source))
        tensor = tensors[name]
        others = [n for n, t in tensors.items() if n != name and _alike(t, tensor)]
        beside = tensors[others[0]] if others else tensor
        limit = torch.iinfo(tensor.dtype).max // 2
        for most in (limit, min(limit, int(max(int(tensor.max()), 1) * factor))):
            made = close_integers(tensor, beside, most, self.generator)
            if made is None:
                return False
            changed = {name: made[0]} | ({others[0]: made[1]} if others else {})
            arguments = with_changed(self._draw(source), changed)
            which = " that differ by one or in their high bits alone"
            differs = self._differs_on(source, name, arguments, "larger", usual, which)
            if differs is not None:
                return differs
        return False

    def _smaller(self, source: InputSource, name: str, usual: float) -> None:
        """Down to zero, or to one where the module has no finite answer to that; where some are negative far below them."""
        drawn = named_tensors(self._draw(source))[name]
        lowest = int(drawn.min()) if drawn.numel() else 0
        for least in [lowest * times for times in _TIMES_LOWER] if lowest < 0 else [0, 1]:
            natural = self._draw(source)
            changed = smaller_integers(named_tensors(natural)[name], least, self.generator)
            if changed is None:
                continue
            arguments = with_changed(natural, {name: changed})
            if self._differs_on(source, name, arguments, "smaller", usual) is not None:
                return

    def _taken(self, source: InputSource, name: str, usual: float) -> list[float]:
        """By how much they may grow, smallest first."""
        form = _form(self.context.oracle.eager(self._draw(source)))
        result: list[float] = []
        for factor in _FACTORS:
            arguments = self._larger(source, name, factor)
            if arguments is None:
                break
            try:
                answer = self.context.oracle.eager(arguments)
            except NO_ANSWER:
                break
            if _form(answer) != form or share_nonfinite(answer) > usual:
                break
            result.append(factor)
        return result

    def _larger(self, source: InputSource, name: str, factor: float) -> Arguments | None:
        natural = self._draw(source)
        changed = larger_integers(named_tensors(natural)[name], factor, self.generator)
        return None if changed is None else with_changed(natural, {name: changed})

    def _tell(
        self, source: InputSource, word: str, name: str, held: str, tried: str, asked: Asked
    ) -> None:
        self.findings.disclose(
            f"differs_on_{word}",
            f"in your inputs and in every judged call {self._label(source, name)} {held}; on {tried} the candidate's {asked.what} "
            f"from your module's: {asked.wrong:.200}",
        )

    def _label(self, source: InputSource, name: str) -> str:
        """As the forward names an input; a weight has its own."""
        return name_of_input(self.context.oracle.module, source.full, name)

    def _draw(self, source: InputSource) -> Arguments:
        return draw(source, constant=self.context.problem.constant_inputs)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape


def _stop_after(asked: Asked | None) -> None:
    if asked is not None and asked.code == TIMEOUT:
        raise _NoMore


def _form(answer: Any) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for _, t in leaves(answer) if isinstance(t, torch.Tensor)]
