"""A coding agent as the model: the loop waits here for what the agent hands in from another thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

from kernelagent.models import Exhausted, ModelQuery, NotAnswered, Reply
from kernelagent.models.kinds import MCP

_LOOK_S = 0.2
"""How often a wait looks whether the run is to stop."""
_FENCES = re.compile(r"`{3,}")


@dataclass
class AgentModel:
    """`reply` is called by the loop, everything else by the agent's side."""

    stop_asked: Callable[[], bool] = lambda: False
    name: str = MCP
    _changed: Condition = field(default_factory=Condition)
    _asked: ModelQuery | None = None
    _answer: Reply | Exhausted | None = None
    _over: bool = False

    def reply(
        self, ask: ModelQuery, on_text: Callable[[str], None]
    ) -> Reply | Exhausted | NotAnswered:
        """Wait until the agent submits or finishes."""
        with self._changed:
            self._asked = ask
            self._changed.notify_all()
            while self._answer is None:
                if self.stop_asked():
                    self._asked = None
                    return NotAnswered("the run was stopped before the agent answered")
                self._changed.wait(_LOOK_S)
            answer, self._answer, self._asked = self._answer, None, None
            self._changed.notify_all()
        if isinstance(answer, Reply):
            on_text(answer.text)
        return answer

    def close(self) -> None:
        """The loop has ended: no further query will come."""
        self.end()

    def open_ask(self) -> ModelQuery | None:
        """The question that waits for an answer, once there is one; None: the run asks no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._waiting())
            return None if self._over else self._asked

    def submit(self, text: str, *, wait: bool = True) -> ModelQuery | None:
        """Answer the open question; returns it, None if there was none.

        `wait`: only once its turn is settled; otherwise `open_ask` waits for that.
        """
        return self._hand_in(Reply(text), wait=wait)

    def finish(self, why: str) -> None:
        """Say that nothing more will come; comes back at once, also where a turn is being judged."""
        with self._changed:
            # What was handed in before is taken first.
            self._changed.wait_for(lambda: self._over or not isinstance(self._answer, Reply))
            self._answer = Exhausted(why)
            self._changed.notify_all()

    def end(self) -> None:
        """No question will come any more, whether the loop ended or never began."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _hand_in(self, answer: Reply, *, wait: bool) -> ModelQuery | None:
        ask = self.open_ask()
        with self._changed:
            # Check again under the lock: another call may have answered this question meanwhile.
            if ask is None or self._asked is not ask or self._answer is not None:
                return None
            self._answer = answer
            self._changed.notify_all()
        if wait:
            self.open_ask()
        return ask

    def _waiting(self) -> bool:
        return self._asked is not None and self._answer is None


def as_reply(code: str, reasoning: str) -> str:
    """What a model would have written: the words, then the code in one fence that nothing in it closes."""
    if code.lstrip().startswith("```"):
        return f"{reasoning}\n\n{code}".strip()
    longest = max((len(fence) for fence in _FENCES.findall(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{reasoning}\n\n{fence}python\n{code.rstrip()}\n{fence}".strip()
