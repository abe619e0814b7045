"""Calls in other orders than the interpreter's own: of programs, lanes and sums, as a GPU may have them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from kernelagent.tools.judge.problem.trials.rounds import Round, Trial
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import Answer
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.refusal_words import WRONG_ANSWERS
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.judge.verify.rounding import (
    EXACT,
    LastBits,
    Rounding,
    last_place_decides,
    right_in_one_rounding,
    without_an_answer,
)
from kernelagent.tools.judge.verify.same import changes_state, identical

_ORDERS = 8
_IN_TURNS_S = 2.0
"""Orders of programs that are tried, as far as they take no longer than this together."""
_FEW = 2
"""Where no more than so many orders were tried in that time, none is tried in other rounds."""
_ALIKE = ("row_patterns", "structures", "corners")
"""Probes that hold equal values, those first that are sure to."""
_DRAWN_ORDERS = 3
_OTHERWISE_S = 1.0
"""Orders of sums that are drawn, as far as all calls with another order take no longer than this together."""


@dataclass(frozen=True)
class OtherOrders:
    """The same call again where the order of what a GPU leaves open is another one; refused where it is wrong there."""

    process: CandidateProcess
    findings: Findings
    call: Callable[[Trial], Answer]
    """One call, its answer compared."""
    answer: Callable[[Trial], Answer]
    """One call, its answer not compared."""
    forget_launches: Callable[[], None]

    def other_lanes(self, trial: Trial, weights: Mapping[str, torch.Tensor], usual: Answer) -> None:
        """A call with numbers where masked loads without `other` leave lanes undefined."""
        self.process.start_from(weights, anew=changes_state(trial, weights))
        self.process.command_executor({"kind": "lanes", "numbers": True})
        try:
            same = identical(self.answer(trial).output, usual.output)
        except Rejected:
            same = False
        finally:
            self.process.command_executor({"kind": "lanes", "numbers": False})
        self.process.take_launches()
        if not same:
            self.findings.disclose(
                "undefined_lanes",
                "the answer depends on what a masked load without other= leaves in the lanes that are "
                "switched off: zero in today's code, though Triton does not define it; give other=",
            )

    def rounded_otherwise(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """Calls whose last bits are others, as on a GPU: products fused, sums in another order, quotients approximate.

        Always in the order of the compiled kernel's threads; in further orders, some of them drawn, while calls are quick.
        """
        end = time.monotonic() + _OTHERWISE_S
        drawn = (str(secrets.randbits(62)) for _ in range(_DRAWN_ORDERS))
        for order in ("threads", "neighbours", *drawn):
            self._in_order(order, trial, weights)
            if time.monotonic() > end:
                return

    def _in_order(self, order: str, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        self.process.start_from(weights, anew=changes_state(trial, weights))
        special = trial.probe != "natural"
        rounding = Rounding(order, errs=not special)
        last_bits = LastBits(trial, special)
        try:
            with self.rounding(rounding):
                self.call(last_bits.compared)
        except Rejected as refused:
            if refused.reason.code not in WRONG_ANSWERS:
                # A process that ended, or a call without a kernel, has nothing to do with the last bits.
                raise
            raise right_in_one_rounding(rounding, refused) from refused
        self._tell(last_bits, rounding)

    @contextmanager
    def rounding(self, rounding: Rounding) -> Iterator[None]:
        """Calls inside round so."""
        self._round(rounding)
        try:
            yield
        finally:
            self._round(EXACT)

    def _round(self, rounding: Rounding) -> None:
        asked = {"kind": "rounding", "order": rounding.order, "errs": rounding.errs}
        self.process.command_executor(asked)

    def rounded(
        self,
        rounding: Rounding,
        trial: Trial,
        call: Callable[[Rounding, Trial], Answer],
        usually: Callable[[Rejected], Answer],
        *,
        special: bool,
    ) -> Answer:
        """A call that rounds so; where it is wrong, once more as the interpreter rounds.

        `usually`: that call, and what else explains the refusal, which it then raises. `special`: inputs were made
        to meet bounds exactly, where the error of a quotient may decide: that is told, not refused.
        """
        last_bits = LastBits(trial, special)
        seen = len(self.findings.cases)
        try:
            answer = call(rounding, last_bits.compared)
        except Rejected as refused:
            self.findings.leave_out(seen)
            wrong = refused.reason.code in WRONG_ANSWERS
            still: Rejected | None = refused
            if wrong and special and rounding.errs:
                if self.process.tuned:
                    # Whether that explains it is asked of the call that was tuned.
                    usually(refused)
                rounding = replace(rounding, errs=False)
                still = self._refused(rounding, trial, call)
            # Last, so that the answer is that of the last call.
            answer = usually(refused)
            if not wrong:
                raise
            if still is not None and not (special and still.reason.code == "nonfinite"):
                raise right_in_one_rounding(rounding, still) from still
            # What overflows once a product is fused with the difference behind it (`s * scale - m`), of scores beyond 2^31 alone,
            # does so in any kernel that is written so: told, not refused.
            way = Rounding(errs=True) if still is None else rounding
            told = last_place_decides(way, (still or refused).reason.message)
            self.findings.disclose(told.code, told.message)
            return answer
        self._tell(last_bits, rounding)
        return answer

    def _refused(
        self, rounding: Rounding, trial: Trial, call: Callable[[Rounding, Trial], Answer]
    ) -> Rejected | None:
        """Why the call is wrong so, None where it is right; what it told is forgotten."""
        self.forget_launches()
        seen = len(self.findings.cases)
        try:
            call(rounding, LastBits(trial, special=True).compared)
        except Rejected as refused:
            return refused
        finally:
            self.findings.leave_out(seen)
        return None

    def cancelled(self, trial: Trial, rounding: Rounding) -> None:
        """A call whose answer is what rounding leaves of terms that cancel: told where it is none at all.

        Of floats it is asked whether they are NaN or infinite where your module's are not, of whole numbers whether
        they are your module's.
        """
        try:
            with self.rounding(rounding):
                output = self.answer(trial).output
        except Rejected as refused:
            if refused.reason.code not in WRONG_ANSWERS:
                raise
            return
        finally:
            self.forget_launches()
        what = without_an_answer(output, trial.expected)
        if what is not None:
            told = last_place_decides(rounding, f"{what} (one tensor was given for two arguments)")
            self.findings.disclose(told.code, told.message)

    def _tell(self, last_bits: LastBits, rounding: Rounding) -> None:
        told = last_bits.told(rounding)
        if told is not None:
            self.findings.disclose(told.code, told.message)

    def in_turns(self, trial: Trial, weights: Mapping[str, torch.Tensor]) -> None:
        """Calls whose programs take turns at every access, as on a GPU: the answers must still be right.

        One order of a few programs may be the usual one: several are tried, where that is quick. Before them, the
        lanes of each atomic come from the last to the first, which takes no longer than other calls do. In every other
        order programs begin in any order too, as far as they do not wait for those before them.
        """
        began = time.monotonic()
        scattered = False
        for number in range(1 + _ORDERS):
            scattered = not scattered and number > 0
            tried = self._in_one_order(trial, weights, lanes_only=number == 0, scattered=scattered)
            late = time.monotonic() > began + _IN_TURNS_S and tried
            if late or "order_not_tried" in self.findings.disclosures:
                self.findings.slow_in_turns = number < _FEW
                return

    def in_turns_too(self, this_round: Round) -> None:
        """A call of this round in a drawn order of programs: with equal values, other weights or a training step.

        Which of equal ones is named, for example, no natural inputs show. In the configuration that is next.
        """
        able = [trial for trial in this_round.trials if not trial.hidden and trial.then is None]
        alike = [t for probe in _ALIKE for t in able if t.probe == probe and t.step is None]
        stepping = [t for t in able if t.step is not None]
        if self.findings.slow_in_turns or not (alike or stepping):
            return
        trial = alike[0] if alike else secrets.choice(stepping)
        self.findings.configuration += 1
        self._in_one_order(
            replace(trial, in_place=False),
            this_round.weights,
            lanes_only=False,
            scattered=secrets.choice((True, False)),
        )

    def _in_one_order(
        self,
        trial: Trial,
        weights: Mapping[str, torch.Tensor],
        *,
        lanes_only: bool,
        scattered: bool,
    ) -> bool:
        """Whether there is such an order."""
        self.process.start_from(weights, anew=changes_state(trial, weights))
        order = {"kind": "turns", "secret": secrets.randbits(62), "lanes_only": lanes_only}
        self.process.command_executor({**order, "scattered": scattered})
        try:
            self.call(trial)
        except Rejected as refused:
            if refused.reason.detail.get("all_wait"):
                self.forget_launches()
                return False
            if refused.reason.code in ("timeout", "unverifiable", "out_of_memory"):
                self.findings.disclose(
                    "order_not_tried",
                    f"programs order each other by atomics, and were tried in their usual order only: "
                    f"{refused}",
                )
                return True
            which = (
                "the lanes of an atomic come from the first to the last; on a GPU they come in any order: "
                if lanes_only
                else "programs run one after another; on a GPU they run at the same time, and no atomic "
                "keeps these apart: "
            )
            raise Rejected(
                "data_race",
                f"the answer is right only where {which}{refused}",
                refused.reason.detail,
            ) from refused
        finally:
            self.process.command_executor({"kind": "turns", "secret": None})
        return True
