"""A streaming reply: secrets are removed, and its text is published at most twice a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kernelagent.storage.secrets import Redactor

EVERY_S = 0.5


@dataclass
class LiveText:
    """Takes the text of one reply as it arrives; the final `ReplyReceived` holds any text not yet published."""

    publish: Callable[[str, int], None]
    """Receives a piece, and how many characters there are with it."""
    show: Callable[[str], None]
    redact: Redactor
    clock: Callable[[], float]
    _held: str = ""
    """Text held back because it may be the beginning of a secret."""
    _waiting: list[str] = field(default_factory=list)
    _characters: int = 0
    _published_s: float | None = None

    def __call__(self, text: str) -> None:
        text = self.redact(self._held + text)
        held = self.redact.held_back(text)
        self._held, clean = text[len(text) - held :], text[: len(text) - held]
        if not clean:
            return
        self.show(clean)
        self._waiting.append(clean)
        self._characters += len(clean)
        now = self.clock()
        if self._published_s is None:
            self._published_s = now
        elif now - self._published_s >= EVERY_S:
            self._published_s = now
            self.publish("".join(self._waiting), self._characters)
            self._waiting.clear()
