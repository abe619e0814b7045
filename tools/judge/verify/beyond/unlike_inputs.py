"""Calls with inputs that lack a property which all of the user's have: what is wrong there is told, nobody is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import names_of_inputs
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, share_nonfinite
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import (
    Unlike,
    larger_integers,
    smaller_integers,
    unlike,
    unlike_weights,
)
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, Asked, ask, with_changed
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.compare.compare import leaves
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.rejection import Rejected

_FACTORS = (
    1.1,
    1.25,
    1.5,
    *(2.0**octaves for octaves in (1, 2, 3, 4, 6, 8, 11, 14, 17, 20, 24, 30)),
)
"""Integers become so much larger, as long as the module takes them and answers in the same form."""
_SECONDS = 4.0
"""For all of these calls together: where a call takes long, only the first of them are made."""
_TOO_LONG = (
    f"calls take so long that not all inputs without the properties of yours (such as one sign, whole numbers, or "
    f"their magnitudes) were tried within {_SECONDS:.0f} seconds: of what was not, nothing is told"
)
_TIMEOUT = "timeout"
_MOST_INTEGERS = 2
"""Inputs of integers that are tried."""


class _NoMore(Exception):
    """The candidate's process has ended, or the time for these calls has."""


@dataclass(frozen=True)
class UnlikeInputs:
    """What is asked with, for one candidate; the last that its process is asked."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator
    clock: Callable[[], float] = time.monotonic

    def about_all(self) -> None:
        until = self.clock() + _SECONDS
        try:
            for source in self.context.sources:
                self._about(source, until)
        except _NoMore as end:
            if str(end):
                self.findings.disclose("properties_not_tried", str(end))

    def _about(self, source: InputSource, until: float) -> None:
        usual = share_nonfinite(self.context.oracle.eager(self._draw(source)))
        self._small(source, until)
        given = self.context.oracle.given_weights
        report: set[str] = set()
        for item in unlike(named_tensors(self._draw(source)), given, self.generator):
            if item.property in report:
                continue
            arguments = with_changed(self._draw(source), item.tensors)
            asked = self._ask(source, arguments, item.property, usual, until)
            self._note(source, item, asked, report)
        self._integers(source, usual, until)
        self._weights(source, usual, until)

    def _weights(self, source: InputSource, usual: float, until: float) -> None:
        oracle = self.context.oracle
        given, report = oracle.given_weights, set[str]()
        own = {n: given[n] for n, _ in oracle.module.named_parameters() if n in given}
        for item in unlike_weights(own, self.generator):
            if item.property in report:
                continue
            weights = {**given, **item.tensors}
            arguments = self._draw(source)
            asked = self._ask(source, arguments, item.property, usual, until, weights)
            self._note(source, item, asked, report)

    def _note(
        self, source: InputSource, item: Unlike, asked: Asked | None, report: set[str]
    ) -> None:
        if asked is not None and asked.wrong is not None:
            report.add(item.property)
            held = item.held.format(other=self._label(source, item.other))
            self._tell(source, item.property, item.name, held, item.tried, asked)
        self._tell_lost(asked)
        _stop_after(asked)

    def _ask(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        usual: float,
        until: float,
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> Asked | None:
        """None where the reference does not take these, or answers with more that is NaN or infinite than `usual`.

        A kernel may take a number that it is given for a count: that it then takes too long is told as well.
        """
        if self.clock() > until:
            raise _NoMore(_TOO_LONG)
        try:
            return ask(
                self.context,
                self.process,
                source,
                arguments,
                probe,
                weights=weights,
                nonfinite=usual,
            )
        except Rejected as refused:
            if refused.reason.code != _TIMEOUT:
                raise
            return Asked(_TIMEOUT, refused.reason.message[:300])

    def _small(self, source: InputSource, until: float) -> None:
        asked = self._ask(source, self._draw(source), "natural", 1.0, until)
        if asked is not None and asked.zeros is not None:
            self.findings.disclose(
                "zeros_of_other_sign",
                f"{asked.zeros} have another sign than with your module; a quotient by them is the other infinity",
            )
        self._tell_lost(asked)
        _stop_after(asked)

    def _tell_lost(self, asked: Asked | None) -> None:
        if asked is not None and asked.lost is not None:
            self.findings.disclose(
                "small_results_lost",
                f"results that are small beside others are lost or far off, within the error that the whole is allowed: {asked.lost}; "
                f"a logarithm or a quotient of them is another than with your module",
            )

    def _integers(self, source: InputSource, usual: float, until: float) -> None:
        """The largest that the module takes, and some in between."""
        every = named_tensors(self._draw(source)).items()
        for name in [n for n, t in every if not t.is_floating_point()][:_MOST_INTEGERS]:
            taken = self._taken(source, name, usual)
            for factor in {*taken[-1:], *taken[len(taken) // 2 :][:1]}:
                arguments = self._larger(source, name, factor)
                if arguments is None:
                    continue
                asked = self._ask(source, arguments, "larger integers", usual, until)
                if asked is not None and asked.wrong is not None:
                    held = "holds no larger integers than your draws"
                    tried = "larger ones, which your module takes,"
                    self._tell(source, "larger_integers", name, held, tried, asked)
                    _stop_after(asked)
                    return
            self._smaller(source, name, usual, until)

    def _smaller(self, source: InputSource, name: str, usual: float, until: float) -> None:
        """Down to zero, or to one where the module has no finite answer to that."""
        for least in (0, 1):
            natural = self._draw(source)
            changed = smaller_integers(named_tensors(natural)[name], least, self.generator)
            if changed is None:
                return
            arguments = with_changed(natural, {name: changed})
            asked = self._ask(source, arguments, "smaller integers", usual, until)
            if asked is None:
                continue
            if asked.wrong is not None:
                held = "holds no smaller integers than your draws"
                tried = "smaller ones, which your module takes,"
                self._tell(source, "smaller_integers", name, held, tried, asked)
                _stop_after(asked)
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
            f"in your inputs and in every judged call {self._label(source, name)} {held}; on {tried} the candidate's result "
            f"differs from your module's: {asked.wrong:.200}",
        )

    def _label(self, source: InputSource, name: str) -> str:
        """As the forward names an input; a weight has its own."""
        reported = names_of_inputs(self.context.oracle.module, source.full)
        return next((own for own, place in reported.items() if place == name), name)

    def _draw(self, source: InputSource) -> Arguments:
        return draw(source, constant=self.context.problem.constant_inputs)


def _stop_after(asked: Asked | None) -> None:
    if asked is not None and asked.code == _TIMEOUT:
        raise _NoMore


def _form(answer: Any) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for _, t in leaves(answer) if isinstance(t, torch.Tensor)]
