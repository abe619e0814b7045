"""The judging of one candidate: call after call compared with the oracle, every answer and side effect.

Runs in the judge; the candidate's process is reached through `CandidateProcess` only.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.complex_numbers import is_inexact
from kernelagent.tools.calls.loading import unplaced
from kernelagent.tools.calls.state_changes import state_sentence
from kernelagent.tools.calls.surroundings import PLACES, USUAL, Deck, Fresh
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.interpreted_work import bytes_in
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.verify.beyond.fed_back import DEEP, can_feed, fed_back, one_for_two
from kernelagent.tools.judge.verify.beyond.own_state import OwnState
from kernelagent.tools.judge.verify.beyond.unwritten_reads import require_right_in_kept_memory
from kernelagent.tools.judge.verify.checked_call import CheckedCall
from kernelagent.tools.judge.verify.compare.tolerance import UserTolerance
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.refusal_words import (
    WRONG_ANSWERS,
    in_a_later_state,
    loaded_how,
    on_the_judges_inputs,
)
from kernelagent.tools.judge.verify.rejection import Rejected, compiled_by_torch
from kernelagent.tools.judge.verify.rounding import EXACT, Rounding
from kernelagent.tools.judge.verify.same import changes_state, identical

_HELD_BYTES = 128 << 20
"""Calls of a round that are looked at again at its end; half of what the runner keeps."""


_SHOWS = 0.05
"""Of an answer, at least this share is neither zero nor infinite where an answer off by a factor is another."""
_FOR_TWO = 2
"""Calls of a round that are made again with one tensor for two arguments."""


@dataclass
class _Held:
    """The calls of a round whose outputs are read again at its end."""

    earlier: list[tuple[int, Any, Whereabouts]] = field(default_factory=list)
    """Which call, its output, and what is where after it in the reference."""
    size: int = 0

    @property
    def last(self) -> tuple[int, Any, Whereabouts] | None:
        return self.earlier[-1] if self.earlier else None

    def add(self, call: int, trial: Trial, output: Any) -> None:
        """Keep a call; of large ones only the last, as the runner does, which keeps its inputs twice."""
        self.size += bytes_in(output) + 2 * bytes_in(trial.arguments)
        if self.size > _HELD_BYTES:
            self.earlier.clear()
            self.size = 0
        self.earlier.append((call, output, trial.expected.whereabouts))


@dataclass(frozen=True)
class Verifier(CheckedCall):
    """A round of calls, each checked, and what is asked between them."""

    @classmethod
    def of(cls, context: JudgeContext, process: CandidateProcess, findings: Findings) -> Verifier:
        """Made from the run's settings. Its oracle holds the weights of the latest round."""
        settings = context.settings
        return cls(
            process=process,
            findings=findings,
            device=context.device.kind,
            needs_kernel=settings.policy != "any",
            tolerance=UserTolerance.of(settings),
            check=context.problem.check,
            oracle=context.oracle,
            deck=Deck(binds=not unplaced(context.oracle.module)),
        )

    def run(self, this_round: Round) -> None:
        """All trials under one set of weights; raises `Rejected` at the first failure."""
        try:
            self._run(this_round)
        except Rejected as refused:
            # What torch.compile changes as it begins is no tampering of the candidate's own.
            if refused.reason.code == "tampering" and self.process.compiles and self.needs_kernel:
                raise compiled_by_torch() from refused
            raise

    def once(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """A single call in the usual surroundings, and what it leaves behind; raises `Rejected`."""
        self.oracle.use_weights(weights)
        self.process.use_weights(weights)
        self.findings.memory.keep_weights(weights)
        answer = self._call(trial)
        self._effects.inputs_untouched(trial, answer)
        self._effects.state_updated(trial, weights)
        self._effects.left_alike(trial)

    def _run(self, this_round: Round) -> None:
        self.oracle.use_weights(this_round.weights)
        how = self.deck.loading()
        if how == "bound" and this_round.trials:
            # What is bound next may lie where this one's weights lie.
            self.process.call_another(this_round.trials[0].arguments, fresh=True)
        self.process.use_weights(this_round.weights, how)
        self.findings.memory.keep_weights(this_round.weights)
        held = _Held()
        with (
            loaded_how(how if this_round.weights else "load"),
            in_a_later_state(this_round.forwards_before),
        ):
            self._all_of(this_round, held)
        for earlier in held.earlier:
            self._effects.still_the_same(*earlier)
        if len(held.earlier) > 1:
            self._effects.nothing_lives_on(self.process.forget(), this_round.trials[0])
            self._effects.still_the_same(*held.earlier[-1])
        if this_round.feeds_back:
            self._feed_back(this_round)
            self._one_for_two(this_round)
        if self.findings.unwritten and (this_round.repeats or this_round.feeds_back):
            self._in_kept_memory(this_round.trials[0], this_round.weights)
        if this_round.repeats or this_round.feeds_back:
            self._on_its_own_state(this_round)
        if this_round.repeats:
            self._repeat(this_round.trials[0], this_round.weights)
        if this_round.repeats and self.device == "virtual":
            # Probes hold numbers that meet an edge exactly, which may go either way once a quotient is not exact.
            natural = [trial for trial in this_round.trials if trial.probe == "natural"]
            self._other_orders.rounded_otherwise(
                (natural or this_round.trials)[0], this_round.weights
            )
        if self.findings.order_matters and self.device == "virtual" and this_round.trials:
            if this_round.repeats:
                self._other_orders.in_turns(this_round.trials[0], this_round.weights)
            self._other_orders.in_turns_too(this_round)
        if this_round.repeats and "addresses_as_numbers" in self.findings.disclosures:
            self._at_other_addresses(this_round.trials[0], this_round.weights)
        if not any(changes_state(trial, this_round.weights) for trial in this_round.trials):
            self._effects.weights_untouched(this_round.weights, how)
        at = [trial.input_set for trial in this_round.trials if trial.hidden]
        for trial in this_round.trials:
            if trial.hidden:
                tensors = named_tensors(trial.arguments)
                self.findings.hidden[trial.input_set] = {
                    n: tuple(t.shape) for n, t in tensors.items()
                }
        if at:
            self.findings.disclose("hidden_sizes", f"also verified on {', '.join(at)}")
        if this_round.refused:
            where = ", ".join(this_round.refused)
            self.findings.disclose(
                "sizes_refused",
                f"the original refuses {where}: nothing is known of the candidate there",
            )
        for dropped in this_round.dropped:
            self.findings.disclose(
                f"probe_dropped_{dropped.name}", f"probe {dropped.name} left out: {dropped.reason}"
            )
        if this_round.kept_buffers:
            self.findings.keep_buffers(this_round.kept_buffers)

    def _all_of(self, this_round: Round, held: _Held) -> None:
        for number, trial in enumerate(this_round.trials):
            # A first call may fill caches; the last two calls of a round are instrumented.
            memory: Fresh = "filled"
            if number + 2 >= len(this_round.trials) and self._was_called(trial):
                memory = "noted" if number + 2 == len(this_round.trials) else "found"
            self.process.start_from(
                this_round.weights, anew=changes_state(trial, this_round.weights)
            )
            copied = trial.then is None
            self.findings.own_state = {}
            self._step(trial, this_round.weights, held, memory=memory, may_copy=copied)
            self.findings.called.add(trial.input_set)
            while trial.then is not None:
                state, trial = trial.expected.state, trial.then
                self._step(trial, state, held, may_copy=False)

    def _feed_back(self, this_round: Round) -> None:
        """Call after call with results of the one before, as a stack of such modules does."""
        some = [
            t for t in this_round.trials if t.probe == "natural" and not t.hidden and can_feed(t)
        ]
        trial: Trial | None = secrets.choice(some) if some else None
        for depth in range(1 + DEEP):
            if trial is None:
                return
            self.process.start_from(
                this_round.weights, anew=changes_state(trial, this_round.weights)
            )
            try:
                answer = self._call(replace(trial, in_place=False))
            except Rejected as refused:
                if not depth or refused.reason.code not in WRONG_ANSWERS:
                    raise
                raise Rejected(
                    refused.reason.code,
                    f"{refused.reason.message} (it was given results of an earlier call of its own, as in a stack "
                    f"of layers; the reference was given the same bits)",
                    {**refused.reason.detail, "fed_back": depth},
                ) from refused
            if depth < DEEP:
                trial = fed_back(self.oracle, trial, answer.output)

    def _one_for_two(self, this_round: Round) -> None:
        """Calls with one and the same tensor for two arguments, as `add(x, x)` is."""
        # What cancels between the two does so exactly in the interpreter alone.
        rounding = Rounding("threads") if self.device == "virtual" else EXACT
        for trial in [t for t in this_round.trials if t.probe == "natural"][:_FOR_TWO]:
            made = one_for_two(self.oracle, trial)
            if made is None:
                continue
            self.process.start_from(
                this_round.weights, anew=changes_state(made.trial, this_round.weights)
            )
            if not made.lasts:
                if rounding != EXACT:
                    self._other_orders.cancelled(made.trial, rounding)
                continue
            try:
                self._call_rounded(rounding, made.trial, this_round.weights, special=True)
            except Rejected as refused:
                if refused.reason.code not in WRONG_ANSWERS:
                    raise
                raise Rejected(
                    refused.reason.code,
                    f"{refused.reason.message} (one tensor was given for two arguments: {' and '.join(made.names)})",
                    {**refused.reason.detail, "one_for_two": True},
                ) from refused

    def _on_its_own_state(self, this_round: Round) -> None:
        """In one round of calls, and in one of training steps."""
        trials = tuple(t for t in this_round.trials if (t.step is None) is this_round.repeats)
        if self.device != "virtual" or not trials:
            return

        def answer(trial: Trial) -> Answer:
            answered = self._answer(trial)
            self._forget_launches()
            return answered

        followed = OwnState(self.process, self.findings, self.oracle, self._call, answer)
        followed.followed(replace(this_round, trials=trials))

    def _in_kept_memory(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        def prepare() -> None:
            self.process.start_from(weights, anew=changes_state(trial, weights))

        require_right_in_kept_memory(self._call, trial, prepare, WRONG_ANSWERS)

    def _was_called(self, trial: Trial) -> bool:
        return trial.input_set in self.findings.called and not trial.hidden

    def _step(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        held: _Held,
        *,
        memory: Fresh = "filled",
        may_copy: bool,
    ) -> None:
        """One call with everything around it; `weights`: the state it starts from.

        `may_copy`: whether it may be made on a copy of the module: what one call remembers shows only in the next one of
        the same instance.

        `memory`: what freshly allocated memory contains in this call. In the last two calls of a round, which run
        instrumented, the first records what the candidate leaves in fresh memory (`noted`), the second gets those
        contents back (`found`).
        """
        keeps = may_copy and not changes_state(trial, weights) and not trial.expected.left
        # What a copy of the module changes of its own goes with the copy.
        usual = trial.step is not None or not _shows_factors(trial)
        keeps = keeps and not self.findings.binds_state and memory == "filled"
        asked = USUAL if usual else self.deck.next(keeps_state=keeps)
        asked = replace(asked, memory=memory)
        rounding = self.roundings.next(trial) if self.device == "virtual" else EXACT
        special = trial.probe != "natural"
        with on_the_judges_inputs(trial):
            answer = self._call_rounded(rounding, trial, weights, asked, special=special)
        self._say_what_was_seen(answer)
        if self.device == "virtual":
            self.findings.kept_calls.add(trial, weights)
        if answer.host_work is not None and trial.step is None:
            known = self.findings.host_work.get(trial.input_set, answer.host_work)
            self.findings.host_work[trial.input_set] = known.least(answer.host_work)
        self._effects.little_is_kept(trial, answer)
        # The next call uses the next autotuning configuration; a repeated call keeps it, or its bits would differ.
        self.findings.configuration += 1
        self._effects.inputs_untouched(trial, answer)
        self._effects.state_updated(trial, weights)
        self._effects.left_alike(trial)
        self._effects.state_not_given(trial)
        if held.last is not None:
            self._effects.still_the_same(*held.last)
        held.add(self.process.last_call, trial, answer.output)

    def _say_what_was_seen(self, answer: Answer) -> None:
        self.findings.choices.note_of_torch(answer.torch_choices)
        if answer.reads:
            self.findings.reads.update(dict.fromkeys(answer.reads))
            self.findings.disclosures["values_read"] = Disclosure(
                "values_read",
                f"values of tensors are taken to the host ({', '.join(self.findings.reads)}): what is decided "
                f"by other values, and how long a GPU is waited for, was not judged",
            )
        if answer.changed:
            self.findings.changed.update(dict.fromkeys(answer.changed))
            self.findings.disclosures["state_changes"] = Disclosure(
                "state_changes", state_sentence(tuple(self.findings.changed))
            )

    def _repeat(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        self.process.start_from(weights, anew=changes_state(trial, weights))
        first = self._call(trial)
        self.process.start_from(weights, anew=changes_state(trial, weights))
        second = self._call(trial)
        if not identical(first.output, second.output):
            self.findings.disclose(
                "nondeterministic",
                "the same inputs give slightly different bits, within the budget",
            )
        elif self.findings.undefined_lanes and self.device == "virtual":
            self._other_orders.other_lanes(trial, weights, second)

    def _at_other_addresses(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """Natural inputs at each kind of address: what a kernel makes of addresses may be zero on a probe of zeros."""
        for asked in PLACES:
            self.process.start_from(weights, anew=changes_state(trial, weights))
            self._call_in(replace(trial, in_place=False), weights, asked)


def _shows_factors(trial: Trial) -> bool:
    tensors = [t for t in tensors_of(trial.expected.output) if is_inexact(t) and t.numel()]
    return not tensors or any(
        float((widened(t).isfinite() & (t != 0)).double().mean()) >= _SHOWS for t in tensors
    )
