"""Ctrl-C sets a flag that the loop checks, instead of raising an exception during a turn."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType


class StopOnInterrupt:
    """Ctrl-C once: finish the turn and stop; twice: stop now. A terminal that closes counts as once.

    Under `nohup`, which ignores hang-ups, a closed terminal stops nothing.
    """

    def __init__(self) -> None:
        self._times = 0
        signal.signal(signal.SIGINT, self._interrupted)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hung_up)

    def asked(self) -> bool:
        """Whether to stop after this turn; raises `KeyboardInterrupt` when it was asked for twice.

        Asked again here because Python drops an exception raised in, for example, a destructor.
        """
        if self._times > 1:
            raise KeyboardInterrupt
        return self._times > 0

    def _interrupted(self, signum: int, frame: FrameType | None) -> None:
        self._times += 1
        if self._times > 1:
            raise KeyboardInterrupt
        sys.stderr.write(
            "\nstopping after this turn; then the best so far is judged once more and written, which may take several times "
            "--judging-seconds; Ctrl-C again stops now, and the run can go on later\n"
        )

    def _hung_up(self, signum: int, frame: FrameType | None) -> None:
        self._times = max(self._times, 1)
        # Writing to a closed terminal raises an error, so output goes to os.devnull from now on.
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                if stream.isatty():
                    os.dup2(silent, stream.fileno())
        os.close(silent)
