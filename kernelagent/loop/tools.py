"""A writer's tools beside its turns: each call is an event, and counts towards a limit of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.events import Event, ToolCalled
from kernelagent.domain.tool_calls import CHECK, Checked
from kernelagent.prompts.checked import checked_text


class Checker(Protocol):
    """Looks at a candidate without judging it; a failed candidate is a value, a failed judge raises."""

    def check(self, candidate: Candidate) -> Checked: ...


@dataclass
class Tools:
    """What the writer of one run may call while a turn waits for its candidate."""

    checker: Checker
    device: DeviceFacts
    publish: Callable[[Event], None]
    limit: int
    """Calls before each turn."""
    _used: dict[int, int] = field(default_factory=dict)
    _one_at_a_time: Lock = field(default_factory=Lock)

    def check(self, turn: int, source: str) -> str:
        """The answer in words; a call beyond the limit is refused in words, too."""
        with self._one_at_a_time:
            number = self._used.get(turn, 0) + 1
            if number > self.limit:
                answer = f"all {self.limit} checks before turn {turn} are used; hand in a candidate"
                self.publish(ToolCalled(turn, number, CHECK, source, answer))
                return answer
            self._used[turn] = number
            checked = self.checker.check(Candidate(source))
            left = self.limit - number
            answer = (
                f"{checked_text(checked, self.device)}\n"
                f"No turn was spent; {left} of {self.limit} checks are left before turn {turn}."
            )
            self.publish(ToolCalled(turn, number, CHECK, source, answer, checked))
            return answer
