from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelagent.cli.main import main
from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ExitStatus
from kernelagent.domain.events import ProblemDescribed, RunStarted, TurnStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.attached_lessons import Attached
from kernelagent.loop.run import optimize
from kernelagent.loop.session import Session
from kernelagent.prompts import prompt_hash, render_prompt
from kernelagent.storage.lessons.distil import distil
from kernelagent.storage.lessons.library import Library
from kernelagent.storage.run_log import EventLog, RunFolder, read_events
from kernelagent.storage.run_state import fold
from kernelagent.strategies.sequential import Sequential
from kernelagent.training.export import export
from tests.evaluations import DEVICE, FACTS, Recorded, Scripted, accepted, rejected, reply_with
from tests.storage.lessons.runs_by_hand import POWER, run_of, turn
from tests.storage.lessons.runs_by_hand import rejected as rejected_so

ROOT = Path(__file__).resolve().parents[3]
LAYER_NORM = ROOT / "examples" / "layer_norm_gelu.py"
TAUGHT = run_of(turn(0, rejected_so("compile_error", POWER)), source=LAYER_NORM.read_text())


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library.at(tmp_path / "memory", make=True)
    made.learn(distil(TAUGHT))
    return made


def run_with(memory: Attached, runs: Path) -> RunFolder:
    """A run of three turns in a folder of its own, told what the memory holds."""
    folder = RunFolder.create(runs, "toy", now=0.0)
    log = EventLog(folder)
    log.publish(RunStarted(folder.id, ProblemSpec(path="toy.py"), {}, {}))
    log.publish(ProblemDescribed(FACTS, DEVICE, "none"))
    model = Scripted([reply_with(n) for n in range(3)])
    Session(
        facts=FACTS,
        device=DEVICE,
        strategy=Sequential((model.name,)),
        models={model.name: model},
        evaluator=Recorded([rejected(), accepted(1.2), accepted(1.5)]),
        budget=Budget(turns=3),
        publish=log.publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
        recall=memory.recall,
    ).run()
    log.close()
    return folder


def test_the_prompt_can_be_rendered_again_from_the_log_whatever_became_of_the_library(
    library, tmp_path
):
    run = run_with(Attached.to(str(library.path)), tmp_path / "runs")
    for lesson in library.lessons():
        library.forget(lesson.id)
    state = fold(read_events(run.log))
    started = [e.event for e in read_events(run.log) if isinstance(e.event, TurnStarted)]
    assert len(started) == 3
    for item in started:
        assert "power of 2" in item.request.recalled[0].words
        before = type(state.history)(state.history.turns[: item.turn])
        again = render_prompt(FACTS, DEVICE, before, item.request)
        assert prompt_hash(again) == item.prompt_sha256
        assert again == run.kept_prompt(item.turn)
    (trajectory,) = export([run]).trajectories
    assert all("power of 2" in turn.messages[-1].content for turn in trajectory.turns)


def test_a_run_learns_into_the_library_it_reads_and_only_where_it_may(library, tmp_path):
    learning = Attached.to(str(library.path))
    run = run_with(learning, tmp_path / "runs")
    count = len(library.lessons())
    assert Attached.to(str(library.path), learns=False).learn(run.log) is None
    assert len(library.lessons()) == count
    message = learning.learn(run.log)
    assert message is not None
    assert "2 new" in message
    assert len(library.lessons()) > count


def told(words: list[str], capsys) -> tuple[int, str]:
    try:
        main(words)
    except SystemExit as stopped:
        return int(stopped.code or 0), capsys.readouterr().out
    return 0, capsys.readouterr().out


@pytest.mark.long
def test_the_command_learns_lists_shows_and_forgets(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_with(Attached.to("first"), tmp_path / "runs")
    where = ["--memory", "mine", "--runs", "runs"]
    assert told(["memory", "learn", run.id, *where], capsys)[0] == 0
    status, out = told(["memory", "list", *where, "--json"], capsys)
    lesson, other = json.loads(out)["lessons"]
    assert (status, lesson["kind"], other["kind"]) == (0, "remedy", "worked")
    assert lesson["id"] in told(["memory", "show", lesson["id"][:12], *where], capsys)[1]
    assert told(["memory", "forget", lesson["id"], *where], capsys)[0] == 0
    assert "1 lessons" in told(["memory", "list", *where], capsys)[1]
    assert told(["memory", "learn", run.id, *where], capsys)[1].endswith(
        "0 new, 0 with further evidence\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["memory", "list", "--memory", "nowhere"],
        ["memory", "learn"],
        ["memory", "recall"],
        ["compare", "--simulated", "1", "--memory", "nowhere"],
    ],
)
def test_what_cannot_be_done_is_wrong_usage(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told(words, capsys)[0] == ExitStatus.USAGE


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_real_run_is_told_and_teaches(library, tmp_path):
    config = RunConfig(
        device="virtual",
        model=(f"replay:{ROOT / 'tests' / 'cassettes' / 'layer_norm_gelu.jsonl'}",),
        memory=str(library.path),
        envelope_seconds=0.0,
        runs=str(tmp_path / "runs"),
        out=str(tmp_path / "optimized.py"),
    )
    before = {lesson.id for lesson in library.lessons()}
    result = optimize(ProblemSpec(path=str(LAYER_NORM)), config)
    first = result.state.history.turns[0]
    assert "power of 2" in first.request.recalled[0].words
    learnt = {lesson.kind for lesson in library.lessons() if lesson.id not in before}
    assert learnt >= {"avoid", "remedy", "worked"}
    assert result.state.finished is not None, "what was learnt is said before the run's last event"
    assert any(str(library.path) in remark for remark in result.state.remarks)
