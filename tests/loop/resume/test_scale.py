"""Long runs: a log of 10,000 events is folded at once, and a thousandth turn is no dearer to decide."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Logged,
    ProblemDescribed,
    ReplyReceived,
    RunStarted,
    StageFinished,
    TurnStarted,
    to_line,
)
from kernelagent.domain.history import History, Turn, TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.rewards import reward
from kernelagent.domain.serialization import to_data
from kernelagent.prompts.feedback import feedback_for
from kernelagent.prompts.repeats import normal_form, readded_lines, same_as
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.storage.run_state import fold
from kernelagent.strategies import BUILT_IN, load_strategy
from tests.evaluations import accepted, rejected
from tests.loop.resume.recorded_run import DEVICE, FACTS, code, config_of
from tests.loop.resume.same_run import events_of

pytestmark = pytest.mark.long

EVENTS = 10_000
TURNS = 1000
STAGES = (Stage("build", "passed", 0.25), Stage("verify", "passed", 0.5))
ROOMY = {
    "best-of-n": {"n": "2000"},
    "chains": {"turns": "2000"},
    "auto": {"patience": "2000", "turns": "2000"},
}
"""Options under which a strategy still asks after a thousand turns."""
MOST_SECONDS = 0.010
"""Asked are 5 ms on a quiet machine (benchmarks/results/decisions.md); a busy one takes up to twice that."""


def source(number: int) -> str:
    """A candidate of a usual length, about 3 kB."""
    lines = "\n".join(f"    line_{line} = {number} * x + {line}" for line in range(90))
    return f"class ModelNew:\n    number = {number}\n{lines}\n"


def turns_made(dice: random.Random) -> Iterator[Turn]:
    """Turns of every outcome without end, each asked of an earlier one."""
    evaluated: list[int] = []
    index = 0
    while True:
        parent = dice.choice(evaluated[-20:]) if evaluated else None
        kind = "write" if parent is None else dice.choice(["optimise", "rethink", "repair"])
        shown = tuple(evaluated[-4:])
        request = TurnRequest(kind, "recorded", parent, shown, index % 4)
        result = dice.choice([rejected(), accepted(dice.uniform(0.5, 3.0))])
        yield finished(index, request, replace(result, stages=STAGES))
        evaluated.append(index)
        index += 1


def finished(index: int, request: TurnRequest, found: Evaluation) -> Turn:
    return Turn(
        index,
        request,
        code(source(index)),
        candidate=Candidate(source(index)),
        evaluation=found,
        feedback=feedback_for(found),
        reward=reward(found),
    )


def events_for(turn: Turn) -> Iterator[Event]:
    assert turn.candidate is not None
    assert turn.evaluation is not None
    yield TurnStarted(turn.index, turn.request, "0" * 64)
    yield ReplyReceived(turn.index, "recorded", turn.reply or "", 100, 10)
    for stage in turn.evaluation.stages:
        yield StageFinished(turn.index, stage)
    yield Evaluated(
        turn.index,
        turn.candidate.id,
        turn.candidate.source,
        turn.evaluation,
        turn.reward,
        turn.feedback,
    )


def a_long_run() -> Iterator[Event]:
    yield RunStarted("long", ProblemSpec(path="toy.py"), to_data(config_of("tree")), {})
    yield ProblemDescribed(FACTS, DEVICE, "none")
    for turn in turns_made(random.Random(0)):
        yield from events_for(turn)


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """What folding a log of 10,000 events took."""
    log = tmp_path_factory.mktemp("long") / "events.jsonl"
    events = (Logged(n, float(n), e) for n, e in zip(range(EVENTS), a_long_run(), strict=False))
    log.write_text("".join(f"{to_line(event)}\n" for event in events), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.loop.resume.measure_scale", str(log)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    size = log.stat().st_size / 2**20
    print(f"{result} for a log of {size:.1f} MB")  # noqa: T201
    return dict(result)


def test_ten_thousand_events_are_folded_in_200_mb(folded: dict[str, float]) -> None:
    assert folded["turns"] == 2000
    assert folded["peak_mb"] < 200


def test_ten_thousand_events_are_folded_at_once(folded: dict[str, float]) -> None:
    # Asked is a second on a quiet machine.
    assert folded["seconds"] < 2.0


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_a_turn_is_decided_and_logged_at_once_after_a_thousand_turns(
    strategy: str, tmp_path: Path
) -> None:
    made = turns_made(random.Random(1))
    history = History(tuple(next(made) for _ in range(TURNS)))
    asking = load_strategy(strategy, ["recorded"], 0, ROOMY.get(strategy))
    log = EventLog(RunFolder(tmp_path))
    busy, wall = [], []
    for _ in range(25):
        turn = next(made)
        events = list(events_for(turn))
        cpu, clock = time.process_time(), time.perf_counter()
        requests = asking.next_turns(history)
        for event in events:
            log.publish(event)
        busy.append(time.process_time() - cpu)
        wall.append(time.perf_counter() - clock)
        assert requests, "it has stopped asking, so nothing was decided"
        history = history.with_turn(turn)
    log.close()
    # The quickest of them: the rest is what other processes cost this one.
    spent, waited = min(busy), min(wall)
    print(f"{strategy}: {spent * 1e3:.2f} ms of CPU, {waited * 1e3:.2f} ms with the disk")  # noqa: T201
    assert len(events_of(tmp_path)) == 25 * len(events)
    # The disk's share is the machine's: five fsyncs.
    assert spent < MOST_SECONDS


def test_a_repeat_is_looked_for_at_once_after_a_thousand_turns() -> None:
    made = turns_made(random.Random(3))
    history = History(tuple(next(made) for _ in range(TURNS)))
    busy = []
    for turn in (next(made) for _ in range(25)):
        assert turn.candidate is not None
        assert turn.request.parent is not None
        normal_form(turn.candidate.source)
        began = time.process_time()
        assert same_as(history, turn.candidate) is None
        assert readded_lines(history, turn) is None
        busy.append(time.process_time() - began)
        history = history.with_turn(turn)
    spent = min(busy)
    print(f"{spent * 1e3:.2f} ms of CPU")  # noqa: T201
    assert spent < MOST_SECONDS


def test_the_fold_of_a_long_log_is_the_history_that_was_written(tmp_path: Path) -> None:
    turns = turns_made(random.Random(2))
    made = [next(turns) for _ in range(300)]
    log = EventLog(RunFolder(tmp_path))
    for turn in made:
        for event in events_for(turn):
            log.publish(event)
    log.close()
    assert fold(events_of(tmp_path)).history == History(tuple(made))
