"""A 20-turn run of recorded replies and recorded verdicts, made to be killed and resumed.

`python recorded_run.py FOLDER [--resume] [--strategy NAME] [--set KEY=VALUE] [--pause SECONDS]`

FOLDER becomes the run's folder, what is emitted stands beside it. Next to the log stand `asks.log`, the number of a turn for each time
the model was asked, and `evaluations.log`, a candidate for each time it was judged. Strategy, loop,
log, folder, reports and emission are the real ones; only model and judge are recordings.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation, InputSetResult, Stage
from kernelagent.domain.events import ProblemDescribed
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.loop.run import Run
from kernelagent.models import Exhausted, ModelQuery, Reply
from kernelagent.report.files import write_reports
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold
from tests.evaluations import DEVICE, FACTS, accepted, rejected

TURNS = 20
EMITTED = "toy_optimized.py"
REMARKED = {3, 11}
"""Turns whose reply comes with a remark."""
UNREPEATABLE = "class ModelNew:\n    number = 13\n"
"""The best of the turns, which the second measurement does not confirm."""
Pause = Callable[[], None]


def source(number: int) -> str:
    return f"class ModelNew:\n    number = {number}\n"


def code(text: str) -> str:
    return f"A hypothesis.\n\n```python\n{text}```\n"


REPLIES = tuple(
    {
        2: "I would rather not write code.",
        5: code(source(4)),
        9: code(source(8).replace("    number", "    # the same, with words\n    number")),
        12: "```python\nclass Other:\n    pass\n```\n",
        15: "",
    }.get(turn, code(source(turn)))
    for turn in range(TURNS)
)
"""By turn; 2, 12 and 15 hold nothing to evaluate, 5 and 9 repeat an earlier candidate."""

RATIOS = {4: 1.05, 6: 1.1, 7: 0.7, 10: 1.3, 11: 1.3, 13: 2.0, 16: 1.31, 18: 1.6, 19: 1.2}
CODES = {0: "compile_error", 1: "wrong_output", 3: "out_of_bounds", 8: "timeout", 14: "data_race"}


def verdict(number: int) -> Evaluation:
    result = accepted(RATIOS[number]) if number in RATIOS else rejected(CODES.get(number, "crash"))
    stages = (Stage("build", "passed", 0.25), Stage("verify", "passed", 0.5))
    sets = (InputSetResult("default", "(x: float32[4, 8])", passed=True),)
    return replace(result, stages=stages, input_sets=sets, envelope=ENVELOPE)


ENVELOPE = {
    "input_sets": [
        {"name": "default", "args": [{"dtype": "float32", "shape": [4, 8]}], "kwargs": {}}
    ]
}
VERDICTS = {Candidate(source(number)).sha256: verdict(number) for number in range(TURNS)}


def append(path: Path, line: str) -> None:
    """One line in one write, there even when the process is killed right after."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


@dataclass
class RecordedModel:
    """Answers turn n with reply n, and keeps count of what it was asked."""

    asks: Path
    pause: Pause
    name: str = "recorded"

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        if ask.turn >= len(REPLIES):
            return Exhausted("the recording is over")
        append(self.asks, str(ask.turn))
        self.pause()
        remark = f"turn {ask.turn} took two attempts" if ask.turn in REMARKED else None
        return Reply(
            REPLIES[ask.turn], tokens_in=100, tokens_out=10, dollars=0.015625, remark=remark
        )

    def close(self) -> None:
        """Nothing to release."""


@dataclass
class RecordedJudge:
    """Gives each candidate the verdict that was recorded for its hash."""

    evaluations: Path
    pause: Pause
    facts = FACTS
    device = DEVICE
    sandbox = "none"

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        append(self.evaluations, candidate.id)
        return self._staged(VERDICTS[candidate.sha256], on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        if candidate.source == UNREPEATABLE:
            return self._staged(replace(rejected("data_race"), stages=()), on_stage)
        return self._staged(VERDICTS[candidate.sha256], on_stage)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        return ToolResult()

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        return evaluation

    def _staged(self, found: Evaluation, on_stage: Callable[[Stage], None]) -> Evaluation:
        for stage in found.stages:
            self.pause()
            on_stage(stage)
        self.pause()
        return found


def config_of(strategy: str, options: dict[str, str] | None = None) -> RunConfig:
    """The configuration; what is emitted goes into the working directory."""
    return RunConfig(
        device="virtual",
        model=("recorded",),
        strategy=strategy,
        set=options or {},
        turns=TURNS,
        out=EMITTED,
        envelope_seconds=0.0,
    )


def conduct(
    path: Path, config: RunConfig, *, resume: bool, pause: Pause = lambda: None
) -> RunState:
    """What `kernelagent.loop.run.optimize` does around a run, with the recordings put in."""
    folder = RunFolder(path)
    for part in ("candidates", "prompts"):
        (path / part).mkdir(parents=True, exist_ok=True)
    log = EventLog(folder)
    state = fold(read_events(folder.log))
    log.subscribe(lambda _: pause())
    problem = ProblemSpec(path="toy.py")
    run = Run(problem, config, folder, log, Path(EMITTED), lambda: False, state)
    judge = RecordedJudge(path / "evaluations.log", pause)
    model = RecordedModel(path / "asks.log", pause)
    try:
        run.begin(None, resumed=resume)
        if state.facts is None:
            log.publish(ProblemDescribed(judge.facts, judge.device, judge.sandbox))
        history, why = run.search(judge, judge, [model])
        return run.finish(judge, judge, history, why).state
    finally:
        log.close()
        write_reports(folder)


def pauses(longest: float) -> Pause:
    """Sleeps of random length, so that a kill can land between any two steps."""
    dice = random.Random()
    return lambda: time.sleep(dice.uniform(0, longest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--strategy", default="sequential")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--pause", type=float, default=0.002, help="longest pause, in seconds")
    given = parser.parse_args()
    options = dict(pair.split("=", 1) for pair in given.set)
    folder = given.folder.absolute()
    os.chdir(folder.parent)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    config = config_of(given.strategy, options)
    conduct(folder, config, resume=given.resume, pause=pauses(given.pause))


if __name__ == "__main__":
    main()
