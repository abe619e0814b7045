"""Calls beyond the verdict's own, continued: what a module refuses, broken weights, upstreams that overflow.

As in `beyond`, a wrong answer is told and nobody is refused for it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.training_step import GRADIENTS, TrainingStep
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.steps import single_step, thawed_step
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, probe_inputs
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order
from kernelagent.tools.judge.problem.trials.variation import (
    EXTREMES,
    Extreme,
    with_empty_rows,
    with_extremes,
)
from kernelagent.tools.judge.problem.wrong_steps.noticed import differs
from kernelagent.tools.judge.verify.beyond.asking import (
    Asked,
    answer_of,
    answers,
    ask,
    with_changed,
)
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess

_LIKELY_REFUSED = ("times30", "mean100", "spikes", "edges")
_BROKEN: Mapping[Extreme, float] = {"nan": float("nan"), "infinity": float("inf")}
_CHANGED_ALONE = 3
_RAISED = ("runtime_error", "unverifiable", "crash")
_MOST_WEIGHTS = 3
"""So many parameters are broken, each in a call of its own: a judging draws others than the one before."""


@dataclass(frozen=True)
class BeyondInputs:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator

    def about(self, source: InputSource) -> None:
        self._refused(source)
        self._broken_weights(source)
        self._empty_rows(source)
        if self.context.trains:
            self._overflowing_upstream(source)
            self._changed_before_the_backward(source)
            self._changed_results(source)
            self._thawed(source)

    def _refused(self, source: InputSource) -> None:
        """Inputs for which a `raise` or `assert` of the module's own ends the call."""
        for what, arguments in self._likely_refused(source):
            refusal = _refusal_of(self.context, arguments)
            if refusal is None:
                continue
            if not answers(self.context, self.process, arguments):
                self._same_state_after(what, arguments)
                continue
            self.findings.disclose(
                "answers_where_refused",
                f"inputs that your module refuses ({what}: {refusal}) the candidate answers: what it leaves out "
                f"of these checks is not checked in the emitted module either",
            )
            return

    def _same_state_after(self, what: str, arguments: Arguments) -> None:
        """Whoever catches the error and goes on, as with a batch that is skipped, goes on with that state."""
        oracle = self.context.oracle
        oracle.use_weights(oracle.given_weights)
        wanted = oracle.state_after_refusal(arguments)
        if not wanted:
            return
        got = self.process.state()
        differ = [n for n, tensor in wanted.items() if n not in got or not _near(got[n], tensor)]
        if differ:
            self.findings.disclose(
                "state_after_refusal",
                f"on inputs that both refuse ({what}) it has written to {', '.join(differ)} before it raises, and leaves "
                f"there what your module does not",
            )

    def _likely_refused(self, source: InputSource) -> Iterator[tuple[str, Arguments]]:
        for name in _LIKELY_REFUSED:
            natural = draw(source)
            made = probe_inputs(name, named_tensors(natural), self.generator)
            yield name, with_changed(natural, made)
        for kind, what in EXTREMES.items():
            natural = draw(source)
            tensors = with_extremes(named_tensors(natural), kind, self.generator)
            if tensors:
                yield what, with_changed(natural, tensors)

    def _broken_weights(self, source: InputSource) -> None:
        """A weight that training has broken shows in the reference's answers, and must show in these."""
        given = self.context.oracle.given_weights
        names = [
            name
            for name, parameter in self.context.oracle.module.named_parameters()
            if is_inexact(parameter) and parameter.numel() and name in given
        ]
        for number, name in enumerate(in_drawn_order(names, self.generator)[:_MOST_WEIGHTS]):
            kind: Extreme = "infinity" if number == 1 and given[name].element_size() > 1 else "nan"
            at_one_place = given[name].clone(memory_format=torch.contiguous_format)
            broken = torch.view_as_real(at_one_place) if at_one_place.is_complex() else at_one_place
            numbers = broken.view(-1)
            place = int(torch.randint(numbers.numel(), (), generator=self.generator))
            numbers[place] = _BROKEN[kind]
            tried = [(EXTREMES[kind], at_one_place)]
            if given[name].element_size() > 1:
                # As a diverged training leaves it: what looks at the largest of a block may find none.
                tried.append(("nothing but NaN", torch.full_like(given[name], float("nan"))))
            for held, weight in tried:
                asked = self._ask(
                    source,
                    draw(source),
                    f"{kind} in a weight",
                    weights={**given, name: weight},
                )
                if asked is not None and asked.wrong is not None:
                    self.findings.disclose(
                        "differs_on_broken_weights",
                        f"where {name} holds {held} it answers otherwise than your module: {asked.wrong}",
                    )
                    return

    def _empty_rows(self, source: InputSource) -> None:
        """Rows of masks that hold nothing: the probes leave them out where the right answer is not finite."""
        natural = draw(source)
        tensors = with_empty_rows(named_tensors(natural), self.generator)
        if not tensors:
            return
        arguments = with_changed(natural, tensors)
        asked = self._ask(source, arguments, "empty rows of masks")
        if asked is not None and asked.wrong is not None:
            self.findings.disclose(
                "differs_on_empty_masks",
                f"where a row of a mask holds nothing that is True it answers otherwise than your module: {asked.wrong}",
            )

    def _overflowing_upstream(self, source: InputSource) -> None:
        """As a loss that is scaled sends one: who scales it looks for the infinities in the gradients."""
        oracle = self.context.oracle
        arguments = draw(source)
        oracle.use_weights(oracle.given_weights)
        step = single_step(oracle, arguments, self.generator)
        (given,) = step.upstream
        for kind, value in _BROKEN.items():
            one = tuple(None if g is None else self._with_one(g, value) for g in given)
            # As of a loss that is none any more.
            whole = tuple(None if g is None else torch.full_like(g, value) for g in given)
            for row, where in ((one, "in one place"), (whole, "in all places")):
                asked = self._ask(
                    source,
                    arguments,
                    f"{kind} in an upstream gradient",
                    step=replace(step, upstream=(row,)),
                )
                if asked is not None and asked.wrong is not None:
                    self.findings.disclose(
                        f"gradients_differ_on_{kind}",
                        f"where an upstream gradient holds {EXTREMES[kind]} {where}, as with a scaled loss, its gradients "
                        f"are others than your module's: {asked.wrong}",
                    )
                    break

    def _changed_before_the_backward(self, source: InputSource) -> None:
        """What a backward needs and was written to in between: torch raises an error, which a copy hides."""
        for arguments, step in self._changes(source):
            if self._goes_on(arguments, step):
                self.findings.disclose(
                    "changes_not_noticed",
                    f"where {'one' if step.only is not None else 'all'} of the {step.changes} {'is' if step.only is not None else 'are'} "
                    f"written to between the forward and its backward, your module's backward raises an error; this one "
                    f"goes on, which is right only where it needs nothing of what was written to: what it needs is kept "
                    f"by `ctx.save_for_backward`, not by its `.data`",
                )
                return

    def _changed_results(self, source: InputSource) -> None:
        """A residual that is added in place to a result: where your backward does not need it, this one must not."""
        oracle = self.context.oracle
        arguments = draw(source)
        oracle.use_weights(oracle.given_weights)
        whole = single_step(oracle, arguments, self.generator)
        steps = [replace(whole, changes="results"), *self._of_one_result(whole)]
        if any(self._goes_on_wrongly(arguments, step) for step in steps):
            self.findings.disclose(
                "result_changes_not_noticed",
                "where a result is written to between the forward and its backward, your module's backward raises an error; "
                "this one goes on, with other gradients than where nothing is written to: what it needs of the result is "
                "kept by `ctx.save_for_backward`, not by its `.data`",
            )
            return
        asked: Asked | None = None
        for step in steps:
            asked = self._ask(source, arguments, "a result that is changed", step=step)
            if asked is not None and asked.wrong is not None:
                break
        if asked is None or asked.wrong is None:
            return
        if asked.code in _RAISED:
            self.findings.disclose(
                "result_needed",
                f"where a result is written to between the forward and its backward, as `y.relu_()` or a residual that "
                f"is added in place do, your module's backward goes on and this one's does not: {asked.wrong:.200}; "
                f"save what it needs of the inputs, not the result",
            )
        else:
            self.findings.disclose(
                "result_changes_not_noticed",
                f"where a result is written to between the forward and its backward, which your module's gradients "
                f"do not depend on, this one's are wrong without an error: {asked.wrong}; keep what the backward "
                f"needs by `ctx.save_for_backward`, not its `.data`",
            )

    def _of_one_result(self, step: TrainingStep) -> Iterator[TrainingStep]:
        """One of several is written to, and the others alone go on: two results may be one to the candidate's backward."""
        (row,) = step.upstream
        given = [at for at, gradient in enumerate(row) if gradient is not None]
        # Results are counted among all floating ones, these among those with a gradient.
        if len(given) < 2 or step.outputs != tuple(range(len(row))):
            return
        at = given[int(torch.randint(len(given), (), generator=self.generator))]
        others = tuple(None if place == at else gradient for place, gradient in enumerate(row))
        yield replace(step, changes="results", only=at, upstream=(others,))

    def _thawed(self, source: InputSource) -> None:
        """Weights that your module freezes: a kernel for it need not know of their gradients, a user may ask for them."""
        oracle = self.context.oracle
        arguments = draw(source)
        oracle.use_weights(oracle.given_weights)
        thawed = thawed_step(oracle, arguments, self.generator)
        if thawed is None:
            return
        names, step = thawed
        asked = self._ask(source, arguments, "thawed weights", step=step)
        if asked is not None and asked.wrong is not None:
            self.findings.disclose(
                "gradients_differ_when_thawed",
                f"where the weights that your module freezes ({', '.join(names[:4])}{' …' if names[4:] else ''}) require "
                f"gradients, as after `requires_grad_()`, its gradients are others than your module's: {asked.wrong}",
            )

    def _changes(self, source: InputSource) -> Iterator[tuple[Arguments, TrainingStep]]:
        """All inputs, all parameters, and some alone: one that is kept rightly makes up for the others."""
        oracle = self.context.oracle
        kinds: tuple[Literal["inputs", "parameters"], ...] = ("inputs", "parameters")
        for changed in kinds:
            arguments = draw(source)
            oracle.use_weights(oracle.given_weights)
            step = replace(single_step(oracle, arguments, self.generator), changes=changed)
            yield arguments, step
            given = arguments if changed == "inputs" else list(oracle.module.parameters())
            count = sum(isinstance(t, torch.Tensor) and is_inexact(t) for t in tree_leaves(given))
            order = torch.randperm(count, generator=self.generator)
            for only in order[:_CHANGED_ALONE].tolist():
                yield arguments, replace(step, only=only)

    def _goes_on_wrongly(self, arguments: Arguments, step: TrainingStep) -> bool:
        """Whether it goes on where the module does not, and what was written to is in its gradients."""
        if not self._module_raises(arguments, step):
            return False
        unchanged = replace(step, changes=None, only=None)
        both = [answer_of(self.context, self.process, arguments, s) for s in (step, unchanged)]
        left, right = (None if a is None else a.output[GRADIENTS] for a in both)
        return left is not None and right is not None and differs(right, left)

    def _goes_on(self, arguments: Arguments, step: TrainingStep) -> bool:
        raises = self._module_raises(arguments, step)
        return raises and answers(self.context, self.process, arguments, step)

    def _module_raises(self, arguments: Arguments, step: TrainingStep) -> bool:
        try:
            self.context.oracle.asking(step).eager(arguments)
        except ProblemError:
            return True
        return False

    def _ask(
        self,
        source: InputSource,
        arguments: Arguments,
        probe: str,
        *,
        weights: Mapping[str, torch.Tensor] | None = None,
        step: TrainingStep | None = None,
    ) -> Asked | None:
        them = self.context, self.process, self.findings
        return ask(*them, source, arguments, probe, weights=weights, step=step)

    def _with_one(self, gradient: torch.Tensor, value: float) -> torch.Tensor:
        changed = gradient.detach().clone(memory_format=torch.contiguous_format)
        place = int(torch.randint(changed.numel(), (), generator=self.generator))
        changed.view(-1)[place] = value
        return changed


def _refusal_of(context: JudgeContext, arguments: Arguments) -> str | None:
    """The sentence with which a line of the module's own refuses these; None where none does."""
    try:
        context.oracle.eager(arguments)
    except ProblemError as error:
        cause = error.__cause__
        frames = [] if cause is None else traceback.extract_tb(cause.__traceback__)
        if frames and (frames[-1].line or "").startswith(("raise", "assert")):
            return f"{type(cause).__name__}: {cause}"[:160]
    except (RuntimeError, ValueError, ArithmeticError):
        return None
    return None


def _near(left: torch.Tensor, right: torch.Tensor) -> bool:
    """The same but for rounding, which nobody measures where there is no result."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return torch.equal(left, right)
    return torch.allclose(left.double(), right.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
