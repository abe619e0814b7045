"""What is said of state that stays from call to call: shared by the process that sees it and the judge that says it."""

from __future__ import annotations

from collections.abc import Sequence

BEYOND = "more than is looked at"
"""Stands among what changed where there is more to look at than there is time for."""


def said_of_state(changed: Sequence[str]) -> str:
    """The sentence of the disclosure `state_changes`."""
    names = [name for name in changed if name != BEYOND]
    said = []
    if names:
        said.append(
            f"{', '.join(names)} changed from one call to the next: what is done after more calls, or other ones, "
            f"than were made was not judged"
        )
    if len(names) < len(changed):
        said.append(
            "more is kept than is looked at: whether the rest changes from one call to the next was not judged"
        )
    return "; ".join(said)
