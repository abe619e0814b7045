"""Counts Triton launches inside a runner on `cuda`, and suppresses them for the knock-out.

Evidence from the candidate's own process: it explains, and with the knock-out's wrong result it
convinces; on `virtual` the executor's log takes its place. Never run on a GPU so far.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from triton.compiler import CompiledKernel

_counts: Counter[str] = Counter()
_suppressed = False


def count_launches() -> None:
    """Watch every launch of this process from now on; before a candidate is imported."""
    original = CompiledKernel.run.fget

    def run(self: Any) -> Any:
        launch = original(self)

        def counted(*args: Any) -> Any:
            _counts[str(self.name)] += 1
            return None if _suppressed else launch(*args)

        return counted

    CompiledKernel.run = property(run)


def suppress() -> dict[str, int]:
    """Let launches do nothing from now on; returns how often each kernel ran so far."""
    global _suppressed
    _suppressed = True
    return dict(_counts)
