"""What a command says while a single file is judged."""

from __future__ import annotations

import io

from kernelagent.cli.terminal.stages import stages_to
from kernelagent.domain.evaluation import Stage


def test_each_step_that_took_a_while_is_a_line_once_it_has_ended():
    stream = io.StringIO()
    show = stages_to(stream, "mine.py")
    show(Stage("parse", "passed", 0.01))
    show(Stage("measure", "running", 3.0, progress=(1, 9)))
    show(Stage("verify", "passed", 12.3))
    show(Stage("audit", "failed", 4.0))
    assert stream.getvalue().splitlines() == [
        "judging mine.py; steps as they end:",
        "  verify: passed, 12 s",
        "  audit: failed, 4 s",
    ]
