"""Starts the screens, and the controller of a run that the screens then watch."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import kernelagent
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import EnvironmentFault, ExitStatus
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_json
from kernelagent.prompts.last_screen import outcome_text
from kernelagent.report.record import timing_command_of
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.tui.conduct import Orders

_ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
_LOOK_S = 0.05


@dataclass
class Controller:
    """A run in a separate process; it goes on when the screen that started it is gone."""

    process: subprocess.Popen[bytes]
    announced: IO[bytes]
    errors: IO[bytes]

    @classmethod
    def start(cls, orders: Orders) -> Controller:
        """Begin; the first event's folder is known a moment later."""
        # A file, not a pipe: what is written after the screen is gone must not kill the run.
        reported, message = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-m", "kernelagent.tui.conduct"],
            stdin=subprocess.PIPE,
            stdout=reported,
            stderr=message,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(to_json(orders))
        process.stdin.close()
        return cls(process, reported, message)

    @property
    def folder(self) -> RunFolder | None:
        """The run's folder, once it has its first event."""
        self.announced.seek(0)
        line, newline, _ = self.announced.read().partition(b"\n")
        return RunFolder(Path(line.decode())) if newline else None

    @property
    def going_on(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        """The end of what it said, for when it ended before its first event."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-1000:]

    def wait_for_folder(self) -> RunFolder:
        """Blocks until the run has begun; raises `EnvironmentFault` with its last words."""
        while (folder := self.folder) is None:
            if not self.going_on and self.folder is None:
                raise EnvironmentFault(f"the run ended before it began: {self.last_words()}")
            time.sleep(_LOOK_S)
        return folder


def watch(target: str | None, config: RunConfig) -> ExitStatus:
    """`kernelagent tui [RUN|PROBLEM]`."""
    needs_textual()
    from kernelagent.tui.app import KernelAgentApp, start_at

    app = KernelAgentApp(start_at(target, config))
    app.run()
    # Textual shows what a screen raised and returns as if nothing had been.
    return ExitStatus.ENVIRONMENT if app.return_code else ExitStatus.OK


def optimize(spec: ProblemSpec, config: RunConfig, folder: RunFolder | None) -> ExitStatus:
    """`kernelagent optimize --tui`: the run's own exit status, or 130 where it still goes on."""
    needs_textual()
    from kernelagent.tui.app import KernelAgentApp
    from kernelagent.tui.run_screen import RunScreen

    resume = None if folder is None else str(folder.path)
    controller = Controller.start(Orders(spec, config, resume))
    result = controller.wait_for_folder()
    KernelAgentApp(RunScreen(result, lambda: controller.going_on)).run()
    # Check before reading the log: if the controller has ended by now, the log is complete.
    still_there = controller.going_on
    state = fold(read_events(result.log))
    end = state.finished
    if end is None and still_there:
        sys.stdout.write(f"the run goes on; to see it again: kernelagent tui {result.path}\n")
        return ExitStatus.INTERRUPTED
    if end is None:
        raise EnvironmentFault(f"the controller of {result.id} died: {controller.last_words()}")
    path = None if state.emitted is None else Path(state.emitted)
    again = "" if path is None else timing_command_of(state)
    part = None if state.problem is None else state.problem.submodule
    sys.stdout.write(outcome_text(state.winner, path, end.why, again, part))
    return ExitStatus(end.exit_status)


def needs_textual() -> None:
    """Raises `EnvironmentFault` where the package for the screens is missing."""
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            "the TUI needs the package textual: pip install textual; `kernelagent show RUN` shows "
            "a run without it"
        ) from error
