"""The judging of one candidate: call after call compared with the oracle, every answer and side effect.

Runs in the judge; the candidate's process is reached through `CandidateProcess` only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.loading import unplaced
from kernelagent.tools.calls.state_changes import state_sentence
from kernelagent.tools.calls.surroundings import PLACES, USUAL, Deck, Fresh, Surroundings
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.verify.answers import Answer
from kernelagent.tools.judge.verify.beyond.fed_back import DEEP, can_feed, fed_back, one_for_two
from kernelagent.tools.judge.verify.beyond.own_state import OwnState
from kernelagent.tools.judge.verify.beyond.unwritten_reads import (
    note_unwritten,
    require_right_in_kept_memory,
)
from kernelagent.tools.judge.verify.candidate_process import CandidateProcess, only_waiting
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.compare.tolerance import UserTolerance
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.other_orders import OtherOrders
from kernelagent.tools.judge.verify.refusal_words import WRONG_ANSWERS, in_a_later_state, loaded_how
from kernelagent.tools.judge.verify.rejection import Rejected, compiled_by_torch
from kernelagent.tools.judge.verify.rounding import EXACT, Rounding, Roundings
from kernelagent.tools.judge.verify.same import changes_state, identical
from kernelagent.tools.judge.verify.side_effects import SideEffects
from kernelagent.tools.judge.verify.whereabouts import InTheirPlaces

_HELD_BYTES = 128 << 20
"""Calls of a round that are looked at again at its end; half of what the runner keeps."""


_OF_THE_PROCESS = frozenset(
    {"crash", "timeout", "unverifiable", "out_of_memory", "forbidden_access", "tampering"}
)
"""Failures after which there is no process to ask again, or that surroundings do not explain.

What tampering has left changed stays so: a second call may find nothing to change.
"""
_FOR_TWO = 2
"""Calls of a round that are made again with one tensor for two arguments."""
_SUMS_BY_ATOMICS = (
    "floating point numbers of several programs are added up by atomics: on a GPU in another order in each "
    "call, so that the last bits differ"
)


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
        self.size += _bytes_of(output) + 2 * _bytes_of(trial.arguments)
        if self.size > _HELD_BYTES:
            self.earlier.clear()
            self.size = 0
        self.earlier.append((call, output, trial.expected.whereabouts))


@dataclass(frozen=True)
class Verifier:
    """The checks of one call, in their order."""

    process: CandidateProcess
    findings: Findings
    device: str
    needs_kernel: bool
    tolerance: UserTolerance | None
    check: Callable[..., bool] | None
    oracle: Oracle
    """The reference, asked where a candidate fails in some surroundings alone or keeps a result."""
    deck: Deck
    roundings: Roundings = field(default_factory=Roundings)
    meanwhile: Callable[[], bool] = only_waiting
    """What else there is to do while a call is waited for."""

    @classmethod
    def of(cls, context: JudgeContext, process: CandidateProcess, findings: Findings) -> Verifier:
        """Made from the run's settings. Its oracle holds the weights of the latest round."""
        settings = context.settings
        given = settings.rtol is not None or settings.atol is not None
        return cls(
            process=process,
            findings=findings,
            device=context.device.kind,
            needs_kernel=settings.policy != "any",
            tolerance=UserTolerance(settings.rtol or 0.0, settings.atol or 0.0) if given else None,
            check=context.problem.check,
            oracle=context.oracle,
            deck=Deck(binds=not unplaced(context.oracle.module)),
        )

    @property
    def _right(self) -> RightAnswer:
        return RightAnswer(self.findings, self.tolerance, self.check)

    @property
    def _effects(self) -> SideEffects:
        return SideEffects(self.process, self.findings, self.oracle)

    @property
    def _other_orders(self) -> OtherOrders:
        return OtherOrders(
            self.process, self.findings, self._call, self._answer, self._forget_launches
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
            kept = ", ".join(this_round.kept_buffers)
            self.findings.disclose("buffers_kept", f"these buffers kept their values: {kept}")

    def _all_of(self, this_round: Round, held: _Held) -> None:
        touched = False
        for number, trial in enumerate(this_round.trials):
            # A first call may fill caches; the last two calls of a round are instrumented.
            memory: Fresh = "filled"
            if number + 2 >= len(this_round.trials) and self._was_called(trial):
                memory = "noted" if number + 2 == len(this_round.trials) else "found"
            if touched or changes_state(trial, this_round.weights):
                self.process.use_weights(this_round.weights)
            self._step(trial, this_round.weights, held, memory=memory)
            self.findings.called.add(trial.input_set)
            touched = changes_state(trial, this_round.weights)
            while trial.then is not None:
                state, trial = trial.expected.state, trial.then
                self._step(trial, state, held)

    def _feed_back(self, this_round: Round) -> None:
        """Call after call with results of the one before, as a stack of such modules does."""
        some = [
            t for t in this_round.trials if t.probe == "natural" and not t.hidden and can_feed(t)
        ]
        trial: Trial | None = secrets.choice(some) if some else None
        for depth in range(1 + DEEP):
            if trial is None:
                return
            if changes_state(trial, this_round.weights):
                self.process.use_weights(this_round.weights)
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
            if changes_state(made.trial, this_round.weights):
                self.process.use_weights(this_round.weights)
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
                    f"{refused.reason.message} (one tensor was given for two arguments)",
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
            if changes_state(trial, weights):
                self.process.use_weights(weights)

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
    ) -> None:
        """One call with everything around it; `weights`: the state it starts from.

        `memory`: what freshly allocated memory contains in this call. In the last two calls of a round, which run
        instrumented, the first records what the candidate leaves in fresh memory (`noted`), the second gets those
        contents back (`found`).
        """
        keeps = not changes_state(trial, weights) and not trial.expected.left
        # What a copy of the module changes of its own goes with the copy.
        usual = trial.step is not None
        keeps = keeps and not self.findings.binds_state and memory == "filled"
        asked = USUAL if usual else self.deck.next(keeps_state=keeps)
        asked = replace(asked, memory=memory)
        rounding = self.roundings.next(trial) if self.device == "virtual" else EXACT
        special = trial.probe != "natural"
        answer = self._call_rounded(rounding, trial, weights, asked, special=special)
        self._say_what_was_seen(answer)
        if answer.host_work is not None and trial.step is None:
            known = self.findings.host_work.get(trial.input_set, answer.host_work)
            self.findings.host_work[trial.input_set] = known.least(answer.host_work)
        self._effects.little_is_kept(trial, answer)
        # The next call uses the next autotuning configuration; a repeated call keeps it, or its bits would differ.
        self.findings.configuration += 1
        self._effects.inputs_untouched(trial, answer)
        self._effects.state_updated(trial, weights)
        self._effects.left_alike(trial)
        if held.last is not None:
            self._effects.still_the_same(*held.last)
        held.add(self.process.last_call, trial, answer.output)

    def _say_what_was_seen(self, answer: Answer) -> None:
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

    def _say_what_was_copied(self, answer: Answer) -> None:
        """A table that is copied once, in a first call, is nobody's concern."""
        if not answer.copied:
            return
        self.findings.copying_calls += 1
        self.findings.copied.update(dict.fromkeys(answer.copied))
        if self.findings.copying_calls > 1:
            self.findings.disclosures["host_copies"] = Disclosure(
                "host_copies",
                f"in {self.findings.copying_calls} of {self.findings.calls} calls tensors are copied between the "
                f"host and the GPU ({', '.join(self.findings.copied)}): a GPU is waited for, and no estimate has "
                f"the copy in it",
            )

    def _call_rounded(
        self,
        rounding: Rounding,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        asked: Surroundings = USUAL,
        *,
        special: bool,
    ) -> Answer:
        """A call that rounds as a GPU may; where it fails in that alone, see `OtherOrders.rounded`."""
        if rounding == EXACT or asked.by_identity:
            return self._call_in(trial, weights, asked)
        calls = 0

        def begun() -> None:
            nonlocal calls
            if calls and (asked.another or changes_state(trial, weights)):
                self.process.use_weights(weights)
            calls += 1

        def rounded(way: Rounding, made: Trial) -> Answer:
            begun()
            with self._other_orders.rounding(way):
                return self._call(replace(made, in_place=made.in_place and calls == 1), asked)

        def usually(refused: Rejected) -> Answer:
            if refused.reason.code in _OF_THE_PROCESS:
                raise refused
            self._forget_launches()
            if self.process.tuned:
                with self._other_orders.rounding(rounding):
                    self._right_without_tuning(trial, weights, asked, refused)
            begun()
            return self._call_in(replace(trial, in_place=False), weights, asked)

        return self._other_orders.rounded(rounding, trial, rounded, usually, special=special)

    def _call_in(
        self, trial: Trial, weights: Mapping[str, torch.Tensor], asked: Surroundings
    ) -> Answer:
        """A call in these surroundings; where it fails in them alone, the refusal names them."""
        try:
            return self._call(trial, asked)
        except Rejected as refused:
            if refused.reason.code in _OF_THE_PROCESS:
                raise
            self._forget_launches()
            if self.process.tuned:
                self._right_without_tuning(trial, weights, asked, refused)
            if asked == USUAL:
                raise
            if asked.another or changes_state(trial, weights):
                # A candidate that watches its weights computes what it derived from them again once they are loaded again.
                self.process.use_weights(weights)
            answer = self._call(replace(trial, in_place=False))
            if not self.oracle.same_in(asked, trial.arguments):
                return answer
            if asked.inside == "one element":
                self.findings.disclose(
                    "differs_on_views",
                    f"{asked.described}, at an address that is no multiple of 16 bytes, it answers otherwise "
                    f"than your module: {refused.reason.message}",
                )
                return answer
            if asked.by_identity and refused.reason.code not in WRONG_ANSWERS:
                self.findings.disclose(
                    "raises_by_identity",
                    f"{asked.described}, it fails where your module answers: {refused.reason.message:.200}",
                )
                return answer
            raise Rejected(
                refused.reason.code,
                f"{asked.described}, where the reference answers the same: {refused.reason.message}",
                {**refused.reason.detail, "surroundings": asked.described},
            ) from refused

    def _forget_launches(self) -> None:
        """Those of a call that was refused: a fault among them is not the next call's."""
        if self.device == "virtual":
            self.process.take_launches()

    def _right_without_tuning(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        asked: Surroundings,
        refused: Rejected,
    ) -> None:
        """Raises `Rejected` with the reason where the same call is right once nothing is tuned in it."""
        tuned = ", ".join(f"`{name}`" for name in self.process.tuned)
        if changes_state(trial, weights):
            self.process.use_weights(weights)
        try:
            self._call(replace(trial, in_place=False), asked)
        except Rejected:
            return
        raise Rejected(
            refused.reason.code,
            f"right but in the call in which Triton tunes {tuned}: it runs the configurations many times "
            f"on the same tensors before the launch; name those that a run adds to in "
            f"`reset_to_zero=[...]`, those that it changes in `restore_value=[...]`: "
            f"{refused.reason.message}",
            {**refused.reason.detail, "tuned": tuned},
        ) from refused

    def _call(self, trial: Trial, asked: Surroundings = USUAL) -> Answer:
        if asked.another:
            self.process.call_another(trial.arguments)
        answer = self._answer(trial, asked)
        self.findings.calls += 1
        self._say_what_was_copied(answer)
        rows = self.process.take_launches() if self.device == "virtual" else _told(answer)
        for row in rows:
            if row.get("fault"):
                fault = row["fault"]
                raise Rejected(fault["code"], fault["message"], fault.get("detail", {}))
        self.findings.choices.note(rows)
        self.findings.order_matters |= any(row.get("order_matters") for row in rows)
        self.findings.undefined_lanes |= any(row.get("undefined_lanes") for row in rows)
        note_unwritten(self.findings, rows)
        for row in rows:
            if row.get("addresses_as_numbers"):
                self.findings.disclose(
                    "addresses_as_numbers",
                    f"kernel `{row['kernel']}` computes with the address of a tensor, which is another one in each "
                    f"run: what it answers at others was not judged",
                )
        if any(row.get("float_sums") for row in rows):
            self.findings.disclose("nondeterministic", _SUMS_BY_ATOMICS)
        self._right.require(trial, answer)
        if answer.not_copied is not None and self.oracle.same_in(asked, trial.arguments):
            self.findings.disclose(
                "not_copied",
                f"a call {asked.described} could not be made ({answer.not_copied}); your module can be copied",
            )
        if trial.step is None:
            self._effects.in_the_same_form(trial, answer, asked)
        if answer.whereabouts is not None:
            InTheirPlaces(self.findings).require(trial, answer.whereabouts, asked)
        self._launched(trial, rows, asked)
        if self.device == "virtual":
            self.findings.specialised.note(trial.input_set, rows, hidden=trial.hidden)
        if trial.step is None and not trial.hidden:
            self.findings.note_values(trial.input_set, trial.arguments)
        self.findings.memory.keep(answer.output)
        return answer

    def _answer(self, trial: Trial, asked: Surroundings = USUAL) -> Answer:
        try:
            return self.process.call(
                trial.arguments,
                step=trial.step,
                in_place=trial.in_place,
                configuration=self.findings.configuration,
                surroundings=asked,
                meanwhile=self.meanwhile,
            )
        except Rejected as refused:
            if self.process.compiles and self.needs_kernel:
                raise compiled_by_torch() from refused
            raise

    def _launched(self, trial: Trial, rows: list[dict[str, Any]], asked: Surroundings) -> None:
        if self.process.compiles:
            self.findings.disclose("torch_compile", "torch.compile computes a part of the forward")
        # Launches replayed by a CUDA graph cannot be seen in the candidate's process; the knock-out decides on `cuda`.
        if not rows and self.needs_kernel and self.device == "virtual":
            if self.process.compiles:
                raise compiled_by_torch()
            for failure in self.process.failures:
                raise Rejected(failure["code"], failure["message"], failure.get("detail") or {})
            doing = "the forward" if trial.step is None else "the training step"
            earlier = " on this call, though it did on others" if self.findings.launches else ""
            raise Rejected(
                "no_kernel",
                f"{doing} launched no Triton kernel{earlier}; at least one @triton.jit kernel "
                f"must do real work on every path",
                {"input_set": trial.input_set, "probe": trial.probe},
            )
        if trial.step is None and not asked.looked_at:
            # A call that is looked at has a mode of torch's on its stack, which a candidate can see.
            names = frozenset(str(row["kernel"]) for row in rows)
            self.findings.kernels.setdefault(trial.input_set, set()).add(names)
        seen = {row["input_set"] for row in self.findings.launches}
        if trial.input_set not in seen and not trial.hidden and trial.step is None:
            self.findings.launches += [row | {"input_set": trial.input_set} for row in rows]

    def _repeat(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        if changes_state(trial, weights):
            self.process.use_weights(weights)
        first = self._call(trial)
        if changes_state(trial, weights):
            self.process.use_weights(weights)
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
            if changes_state(trial, weights):
                self.process.use_weights(weights)
            self._call_in(replace(trial, in_place=False), weights, asked)


def _bytes_of(value: Any) -> int:
    leaves = (leaf for _, leaf in compare.leaves(value))
    return sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))


def _told(answer: Answer) -> list[dict[str, Any]]:
    """On `cuda`: the rows that the candidate's own process tells of."""
    return [to_data(row) for row in answer.launches]
