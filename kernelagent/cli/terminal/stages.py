"""How far a single judging is, a line for each step that took a while: for commands that judge one file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from kernelagent.domain.evaluation import Stage

_WORTH_A_LINE_S = 1.0


def stages_of(what: str, *, as_json: bool) -> Callable[[Stage], None]:
    """The listener of a command that judges `what`: to stderr, and silent where its output is for a program."""
    return (lambda _: None) if as_json else stages_to(sys.stderr, what)


def stages_to(stream: TextIO, what: str) -> Callable[[Stage], None]:
    """A listener that writes to `stream`: `what` first, then each step that has ended."""
    stream.write(f"judging {what}; steps as they end:\n")
    stream.flush()

    def show(stage: Stage) -> None:
        if stage.status != "running" and stage.seconds >= _WORTH_A_LINE_S:
            stream.write(f"  {stage.name}: {stage.status}, {stage.seconds:.0f} s\n")
            stream.flush()

    return show
