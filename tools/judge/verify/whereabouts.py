"""Whether a call leaves everything where the reference leaves it: which objects, in whose memory, in which form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kernelagent.tools.calls.result_form import difference
from kernelagent.tools.calls.surroundings import Surroundings
from kernelagent.tools.calls.whereabouts import Pair, Whereabouts, held_longer
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.answers import printable
from kernelagent.tools.judge.verify.rejection import Rejected

_STATE = "`"
"""What the names of parameters and buffers begin with."""
_RESULT = "output"


@dataclass(frozen=True)
class InTheirPlaces:
    """Raises `Rejected` where who holds something of it would see the difference, or discloses what harms few."""

    findings: Findings

    def require(self, trial: Trial, got: Whereabouts, asked: Surroundings) -> None:
        wanted = trial.expected.whereabouts
        where = {"input_set": trial.input_set, "probe": trial.probe}
        self.findings.binds_state |= any(name.startswith(_STATE) for name in got.replaced)
        self._callers_tensors(got, wanted, where)
        if asked.by_identity:
            # A parameter that is handed on is one object; the plain tensor that the reference was given is not asked.
            return
        self._apart(got, wanted, where)
        self._forms(got, wanted, asked, where)
        self._not_shared(got, wanted)
        self._other_objects(got, wanted)
        self._held(got, wanted)

    def _callers_tensors(self, got: Whereabouts, wanted: Whereabouts, where: Any) -> None:
        """What the caller holds himself, whatever his containers hold now."""
        for name in _not_among(got.written, wanted.written):
            raise Rejected(
                "input_mutated",
                f"the forward writes to the tensor that the caller gave as {name}; the reference leaves it as it "
                f"is: who holds it sees it change",
                where,
            )
        for name in _not_among(wanted.written, got.written):
            raise Rejected(
                "input_mutated",
                f"the reference writes to the tensor that the caller gave as {name}; the candidate does not: "
                f"who holds it sees it stand still",
                where,
            )
        for name in _not_among(got.replaced, wanted.replaced):
            if not name.startswith(_STATE):
                raise Rejected(
                    "input_mutated",
                    f"the forward puts another object in the place of {name}, where the reference leaves the "
                    f"caller's own: what he writes to it afterwards does not reach his container",
                    where,
                )
        for name in _not_among(got.between, wanted.between):
            raise Rejected(
                "state_not_updated",
                f"the forward writes between the elements of {name}, which is not contiguous: in your program "
                f"that may be memory of another tensor",
                where,
            )

    def _apart(self, got: Whereabouts, wanted: Whereabouts, where: Any) -> None:
        together, one = got.not_in(wanted)
        for name, other in map(_printable, together):
            both = name.startswith(_RESULT) and other.startswith(_RESULT)
            shares = (
                f"{name} and {other} share memory, which the reference's do not"
                if both
                else f"{name} lies in the memory of {other}, which the reference's does not"
            )
            raise Rejected(
                "output_aliased", f"{shares}: who writes to one changes the other", where
            )
        for name, other in map(_printable, one):
            raise Rejected(
                "output_aliased",
                f"{name} is {other} itself, which the reference's is not: who changes one changes the other",
                where,
            )

    def _forms(
        self, got: Whereabouts, wanted: Whereabouts, asked: Surroundings, where: Any
    ) -> None:
        """Of what was put somewhere; a container of the caller's own class is a plain one to the candidate."""
        plain = tuple(part for part in wanted.left if part.plain)
        if asked.inside != "no":
            # A view of an input begins where that does.
            plain = tuple(replace(part, unaligned=True) for part in plain)
        inference = asked.gradients == "inference"
        differs = difference(got.left, plain, inference=inference)
        if differs is None:
            return
        sentence = f"after the call {differs.sentence}"
        if not differs.refused:
            self.findings.disclose(differs.disclosure, sentence)
            return
        of_state = differs.sentence.startswith(_STATE)
        raise Rejected("state_not_updated" if of_state else "input_mutated", sentence, where)

    def _not_shared(self, got: Whereabouts, wanted: Whereabouts) -> None:
        together, one = wanted.not_in(got)
        for name, other in together:
            self.findings.disclose(
                "memory_not_shared",
                f"{name} is memory of its own, where the reference's lies in that of {other}: writing to one does "
                f"not change the other",
            )
        for name, other in one:
            if (name, other) in together:
                continue
            self.findings.disclose(
                "not_the_same_object",
                f"{name} is another object than {other}, where the reference's is {other} itself: what is done to "
                f"one, such as a gradient or a new entry, does not reach the other",
            )

    def _other_objects(self, got: Whereabouts, wanted: Whereabouts) -> None:
        """Whether the tensor that was there is written to or another takes its place."""
        for name in _not_among(wanted.replaced, got.replaced):
            if name.startswith(_STATE):
                self.findings.disclose(
                    "state_in_other_tensors",
                    f"{name} is written in place, where your module binds a new tensor: who holds the old one sees "
                    f"it change",
                )
            else:
                self.findings.disclose(
                    "not_the_same_object",
                    f"{name} is the caller's own tensor, list or dictionary still, where the reference puts "
                    f"another there: what he writes to his own reaches the container",
                )
        for name in _not_among(got.replaced, wanted.replaced):
            self.findings.disclose(
                "state_in_other_tensors",
                f"each call binds another tensor as {printable(name)}, where your module writes to the one it has: who "
                f"holds that, such as an optimizer or an average of weights, sees it stand still",
            )

    def _held(self, got: Whereabouts, wanted: Whereabouts) -> None:
        for name, shown, held in held_longer(got, wanted):
            self.findings.disclose(
                "memory_held",
                f"{printable(name)} has {shown:,} bytes and lies in {held:,} bytes of memory, which is not "
                f"freed before it is, and is written with it by torch.save",
            )


def _not_among(names: Iterable[str], others: tuple[str, ...]) -> list[str]:
    return [printable(name) for name in names if name not in others]


def _printable(pair: Pair) -> Pair:
    first, other = pair
    return printable(first), printable(other)
