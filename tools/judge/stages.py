"""The steps of one evaluation: how long each takes, and who is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from kernelagent.domain.evaluation import Stage
from kernelagent.tools.judge.timing.blocks import Running

OnStage = Callable[[Stage], None]


@dataclass
class Stages:
    """Times the steps of one evaluation and tells each to the listener."""

    listener: OnStage
    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, *, overhead: bool = False) -> Iterator[Running]:
        """The step may tell how far it is."""
        began = time.monotonic()

        def running(done: int, of: int) -> None:
            seconds = time.monotonic() - began
            self.listener(Stage(name, "running", seconds, overhead, (done, of)))

        status: Literal["passed", "failed"] = "failed"
        try:
            yield running
            status = "passed"
        finally:
            stage = Stage(name, status, time.monotonic() - began, overhead)
            self.done.append(stage)
            self.listener(stage)
