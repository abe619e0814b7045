"""One call of a candidate with every check of its answer, in whatever surroundings it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.surroundings import USUAL, Deck, Surroundings
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.beyond.unwritten_reads import note_unwritten
from kernelagent.tools.judge.verify.compare.right_answer import RightAnswer
from kernelagent.tools.judge.verify.compare.tolerance import UserTolerance
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.other_orders import OtherOrders
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.processes import only_waiting
from kernelagent.tools.judge.verify.refusal_words import WRONG_ANSWERS
from kernelagent.tools.judge.verify.rejection import Rejected, compiled_by_torch
from kernelagent.tools.judge.verify.rounding import EXACT, LastBits, Rounding, Roundings
from kernelagent.tools.judge.verify.same import changes_state
from kernelagent.tools.judge.verify.side_effects import SideEffects
from kernelagent.tools.judge.verify.whereabouts import InTheirPlaces

_OF_THE_PROCESS = frozenset(
    {"crash", "timeout", "unverifiable", "out_of_memory", "forbidden_access", "tampering"}
)
"""Failures after which there is no process to ask again, or that surroundings do not explain.

What tampering has left changed stays so: a second call may find nothing to change.
"""
_SUMS_BY_ATOMICS = (
    "floating point numbers of several programs are added up by atomics: on a GPU in another order in each "
    "call, so that the last bits differ"
)


@dataclass(frozen=True)
class CheckedCall:
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
        told = asked.by_identity or asked.inside == "one element"
        if rounding == EXACT or told or asked.another:
            # Made again, after another instance has been called, it would not be the same call; and what fails in
            # these surroundings alone is told, whatever it fails with.
            return self._call_in(trial, weights, asked)
        calls = 0

        def begun() -> None:
            nonlocal calls
            if calls and changes_state(trial, weights):
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
        self.process.start_from(weights, anew=changes_state(trial, weights))
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

    def _require_right(self, trial: Trial, answer: Answer) -> None:
        """Where inputs meet bounds, the interpreter's own last bits are as good as a GPU's."""
        special = trial.probe != "natural"
        last_bits = LastBits(trial, special)
        self._right.require(last_bits.compared if special else trial, answer)
        if (told := last_bits.told(EXACT)) is not None:
            self.findings.disclose(told.code, told.message)

    def _call(self, trial: Trial, asked: Surroundings = USUAL) -> Answer:
        if asked.another:
            self.process.call_another(trial.arguments)
        answer = self._answer(trial, asked)
        self.findings.calls += 1
        self.findings.reference_choices.note(self.oracle, trial.arguments)
        self._say_what_was_copied(answer)
        rows = self.process.take_launches() if self.device == "virtual" else _told(answer)
        for row in rows:
            if row.get("fault"):
                fault = row["fault"]
                raise Rejected(fault["code"], fault["message"], fault.get("detail", {}))
        self.findings.choices.note(rows)
        self.findings.compiled_code.note(rows)
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
        self._require_right(trial, answer)
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
        # At last, so that a wrong answer is refused without it.
        self.findings.shown.note(self.oracle, trial.arguments)
        return answer

    def _answer(self, trial: Trial, asked: Surroundings = USUAL) -> Answer:
        self.process.moved |= bool(trial.expected.state64)
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
        needed = self.needs_kernel and not _has_no_elements(trial)
        if not rows and needed and self.device == "virtual":
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


def _has_no_elements(trial: Trial) -> bool:
    """Whether all that the reference returns is empty, so that there is nothing for a kernel to do."""
    tensors = tensors_of(trial.expected.output)
    return bool(tensors) and not any(tensor.numel() for tensor in tensors)


def _told(answer: Answer) -> list[dict[str, Any]]:
    """On `cuda`: the rows that the candidate's own process tells of."""
    return [to_data(row) for row in answer.launches]
