"""How long to wait before asking again, and when to stop asking; the clock is the caller's."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.models.endpoint.faults import WORTH_WAITING, Fault

_GOLDEN = 0.618034
"""Golden ratio: the fractional parts of its multiples are spread evenly over 0 to 1."""


@dataclass(frozen=True)
class Patience:
    """Doubling waits, up to a longest one, as long as all of them together stay within a total."""

    first_s: float = 1.0
    longest_s: float = 60.0
    total_s: float = 600.0
    unreachable_s: float = 15.0
    """In all, where nothing listens: a server that starts may need a moment, a wrong URL never ends."""
    spread: float = 0.25
    """Jitter: concurrent requests wait up to this share longer."""

    def wait(self, fault: Fault, attempt: int, waited_s: float, turn: int) -> float | None:
        """Seconds to wait after failed `attempt` (from 0); None: it is not worth waiting longer."""
        if fault.kind not in WORTH_WAITING:
            return None
        doubled = min(self.first_s * 2.0**attempt, self.longest_s)
        wait = doubled * (1.0 + self.spread * ((turn * _GOLDEN) % 1.0))
        if fault.retry_after_s is not None:
            wait = max(fault.retry_after_s, 0.001)
        most = self.unreachable_s if fault.kind == "unreachable" else self.total_s
        return wait if waited_s + wait <= most else None
