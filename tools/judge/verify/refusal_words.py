"""Words about the circumstances of a call, put to the refusal that it ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from kernelagent.domain.tables.probes import PROBE
from kernelagent.domain.tables.rejection_codes import OF_VALUES
from kernelagent.tools.calls.loading import CAME_IN, EXCHANGES, Loading
from kernelagent.tools.judge.problem.trials.distinct_numbers import holds_integers, repeats
from kernelagent.tools.judge.problem.trials.probes import named_tensors
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.rejection import Rejected

WRONG_ANSWERS = OF_VALUES | {"insensitive", "stale_output"}
"""Codes of an answer that was compared and is wrong: stale weights or another rounding may be the cause."""
_RACES = frozenset({"data_race"})


def loaded_how(how: Loading) -> AbstractContextManager[None]:
    """A refusal that may come from a stale copy of the weights says how the weights of this call were put in."""
    if how not in EXCHANGES:
        return nullcontext()
    words = (
        f"before this call the weights were replaced {CAME_IN[how]}; code that keeps a weight, or "
        f"anything computed from one, must compare the object, its data_ptr() and its _version before it uses that"
    )
    return with_words(words, {"loading": how}, of=WRONG_ANSWERS)


def in_a_later_state(forwards: int) -> AbstractContextManager[None]:
    """A refusal in a state that no call of the judging led to says after how many it would be reached."""
    if not forwards:
        return nullcontext()
    words = (
        f"in the state that about {forwards:,} forwards of your module lead to, or one of "
        f"the next calls from there"
    )
    return with_words(
        words, {"forwards_before": forwards}, of=WRONG_ANSWERS | {"state_not_updated"}
    )


def on_the_judges_inputs(trial: Trial) -> AbstractContextManager[None]:
    """A race that inputs of the judge's own brought about says whose they are and where they repeat a number."""
    if trial.probe == "natural":
        return nullcontext()
    words = f"the inputs of this call are the judge's own: {PROBE[trial.probe].description}"
    again = [
        name
        for name, tensor in named_tensors(trial.arguments).items()
        if holds_integers(tensor) and repeats(tensor, "all")
    ]
    if again:
        words += f"; in {' and '.join(again)} some numbers come more than once"
    return with_words(words, {}, of=_RACES)


@contextmanager
def with_words(words: str, detail: Mapping[str, Any], *, of: frozenset[str]) -> Iterator[None]:
    """Refusals with one of these codes have the words behind their message."""
    try:
        yield
    except Rejected as refused:
        reason = refused.reason
        if reason.code not in of:
            raise
        message = f"{reason.message} ({words})"
        raise Rejected(reason.code, message, {**reason.detail, **detail}) from refused
