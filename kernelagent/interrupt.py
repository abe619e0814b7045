"""Ctrl-C as a wish that the loop looks for, rather than an exception in the middle of a turn."""

from __future__ import annotations

import signal
import sys
from types import FrameType


class StopOnInterrupt:
    """Ctrl-C once: finish the turn and stop; twice: stop now."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGINT, self._interrupted)

    def asked(self) -> bool:
        return self._asked

    def _interrupted(self, signum: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        sys.stderr.write("\nstopping after this turn; Ctrl-C again stops now\n")
