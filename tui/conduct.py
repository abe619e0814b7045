"""The process that executes a run shown in the TUI: reads `Orders` from stdin, prints the run's folder.

`python -m kernelagent.tui.conduct`; a separate process, so that the run outlives the screen.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus, KernelAgentError
from kernelagent.domain.events import Logged
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_json
from kernelagent.loop.run import optimize
from kernelagent.storage.run_log import RunFolder


@dataclass(frozen=True)
class Orders:
    """What is to be run."""

    problem: ProblemSpec
    config: RunConfig
    resume: str | None = None
    """The folder of a run to go on with."""


def conduct(orders: Orders) -> ExitStatus:
    """Run to the end; the first event tells where."""
    reported: list[str] = []
    runs = Path(orders.config.runs)
    folder = None if orders.resume is None else RunFolder(Path(orders.resume))

    def tell(logged: Logged) -> None:
        if not reported:
            reported.append(str(folder.path if folder else runs / getattr(logged.event, "run", "")))
            sys.stdout.write(f"{Path(reported[0]).absolute()}\n")
            sys.stdout.flush()

    return optimize(
        orders.problem,
        orders.config,
        subscribers=(tell,),
        stop_asked=_StopOnInterrupt(),
        folder=folder,
    ).exit_status


class _StopOnInterrupt:
    """Whether somebody sent SIGINT: the turn is finished, then the run stops."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGINT, self._stop)

    def __call__(self) -> bool:
        return self._asked

    def _stop(self, *_: object) -> None:
        self._asked = True


def main() -> None:
    try:
        status = conduct(from_json(sys.stdin.buffer.read(), Orders))
    except KernelAgentError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(int(error.exit_status))
    sys.exit(int(status))


if __name__ == "__main__":
    main()
