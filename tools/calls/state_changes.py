"""What is said of state that stays from call to call: shared by the process that sees it and the judge that says it."""

from __future__ import annotations

from collections.abc import Sequence

BEYOND = "more than is looked at"
"""Stands among what changed where there is more to look at than there is time for."""
_NOT_READ = " is not read"


def not_read(name: str) -> str:
    """Stands among what changed for something of a kind whose contents nothing tells."""
    return f"{name}{_NOT_READ}"


def state_sentence(changed: Sequence[str]) -> str:
    """The sentence of the disclosure `state_changes`."""
    unread = [name.removesuffix(_NOT_READ) for name in changed if name.endswith(_NOT_READ)]
    names = [name for name in changed if name != BEYOND and not name.endswith(_NOT_READ)]
    message = []
    if names:
        message.append(
            f"{', '.join(names)} changed from one call to the next: what is done after more calls, or other ones, "
            f"than were made was not judged"
        )
    if unread:
        message.append(
            f"{', '.join(unread)}: of a kind whose contents are not read; whether they change from one call to the "
            f"next was not judged"
        )
    if BEYOND in changed:
        message.append(
            "more is kept than is looked at: whether the rest changes from one call to the next was not judged"
        )
    return "; ".join(message)
