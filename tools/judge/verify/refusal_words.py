"""Words about the circumstances of a call, put to the refusal that it ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from kernelagent.domain.tables.rejection_codes import OF_VALUES
from kernelagent.tools.calls.loading import CAME_IN, EXCHANGES, Loading
from kernelagent.tools.judge.verify.rejection import Rejected

WRONG_ANSWERS = OF_VALUES | {"insensitive", "stale_output"}
"""Codes of an answer that was compared and is wrong: stale weights or another rounding may be the cause."""


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
