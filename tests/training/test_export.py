from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.cli.main import main
from kernelagent.domain.evaluation import Evaluation, KernelFacts
from kernelagent.domain.events import (
    Evaluated,
    Event,
    Logged,
    ProblemDescribed,
    ReplyReceived,
    RunStarted,
    TurnStarted,
    TurnVoid,
    to_line,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.tables.export_formats import EXPORT_FORMATS
from kernelagent.prompts import prompt_hash
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.scrubbing import Scrubber
from kernelagent.training.export import Choice, as_lines, export, rows, statement
from tests.evaluations import DEVICE, FACTS, accepted, rejected, reply_with
from tests.loop.resume.recorded_run import conduct, config_of

KEY = "sk-" + "a1B2" * 8


def lazy(coverage: float) -> Evaluation:
    return replace(accepted(1.2), kernels=(KernelFacts("k", 1, share_of_device_time=coverage),))


def write(folder: Path, *turns: tuple[str, Evaluation | None, float], facts=FACTS) -> RunFolder:
    """A log: each turn's reply, its evaluation (None: void) and its reward."""
    folder.mkdir(parents=True)
    events: list[Event] = [
        RunStarted(folder.name, ProblemSpec(path="/home/someone/private/toy.py"), {"k": KEY}, {}),
        ProblemDescribed(facts, DEVICE, "none"),
    ]
    for index, (reply, result, reward) in enumerate(turns):
        window = tuple(range(index))
        request = TurnRequest("write", "m", index - 1 if index else None, window)
        events += [TurnStarted(index, request, "0"), ReplyReceived(index, "m", reply)]
        if result is None:
            events.append(TurnVoid(index, "no code"))
        else:
            source = reply.split("```python\n")[1].split("```")[0]
            events.append(Evaluated(index, "c", source, result, reward, f"feedback {index}"))
    text = "".join(to_line(Logged(i, float(i), e)) + "\n" for i, e in enumerate(events))
    (folder / "events.jsonl").write_text(text)
    return RunFolder(folder)


@pytest.fixture
def run(tmp_path):
    return write(
        tmp_path / "run-1",
        (reply_with(0), rejected(), 0.0),
        ("no code", None, 0.0),
        (reply_with(1), accepted(1.5), 1.9),
        (reply_with(2), rejected("crash"), 0.0),
        (reply_with(3), lazy(0.1), 1.95),
    )


def test_turns_carry_reward_coverage_verdict_and_mask(run):
    (trajectory,) = export([run]).trajectories
    reported = [(t.verdict, t.reward, t.coverage, t.masked) for t in trajectory.turns]
    assert reported == [
        ("rejected", 0.0, 0.0, None),
        ("void", 0.0, 0.0, "void"),
        ("accepted", 1.9, 0.9, None),
        ("rejected", 0.0, 0.0, "regressed"),
        ("accepted", 1.95, 0.1, None),
    ]
    assert [t.return_ for t in trajectory.turns] == pytest.approx([3.85, 3.85, 3.85, 1.95, 1.95])
    assert trajectory.turns[3].messages[2].content == reply_with(0)


def test_prs_masks_the_lazy_turn_and_says_so(run):
    exported = export([run], Choice(prs=True))
    assert [t.masked for t in exported.trajectories[0].turns][4] == "prs"
    assert exported.masked == {"void": 1, "regressed": 1, "prs": 1}
    assert "masked, prs: 1 turns" in statement(exported, "jsonl")


def test_regressed_turns_are_kept_on_request(run):
    exported = export([run], Choice(mask_regressed=False))
    assert exported.masked == {"void": 1}


@pytest.mark.long
def test_prs_keeps_turns_with_the_probability_it_says(tmp_path):
    turns = [(reply_with(i), lazy(0.35), 1.35) for i in range(100)]
    runs = [write(tmp_path / f"r{n}", *turns) for n in range(4)]
    exported = export(runs, Choice(prs=True))
    kept = sum(t.loss_mask for item in exported.trajectories for t in item.turns)
    assert 140 < kept < 260
    assert export(runs, Choice(prs=True)) == exported


def test_near_duplicate_trajectories_are_dropped_with_their_reason(tmp_path):
    long = "\n".join(f"    step_{i} = {i} * number" for i in range(40))
    body = f"```python\nclass ModelNew:\n    number = 1\n{long}\n```\n"
    near = body.replace("step_39 = 39", "step_39 = 77").replace("class", "# again\nclass")
    other = "```python\nclass ModelNew:\n    def forward(self, x):\n        return x\n```\n"
    runs = [
        write(tmp_path / name, (reply, accepted(1.2), 1.9))
        for name, reply in (("a", body), ("b", near), ("c", other))
    ]
    exported = export(runs, Choice(near_duplicates=0.9))
    assert [t.run for t in exported.trajectories] == ["a", "c"]
    assert [(d.run, d.why) for d in exported.dropped] == [
        ("b", "near duplicate of run a, trajectory 0")
    ]
    assert len(export(runs).trajectories) == 3


def test_a_run_without_a_problem_and_a_turn_without_an_end_are_said_to_be_dropped(tmp_path):
    folder = tmp_path / "early"
    folder.mkdir()
    started = to_line(Logged(0, 0.0, RunStarted("early", ProblemSpec(path="x.py"), {}, {})))
    (folder / "events.jsonl").write_text(started + "\n")
    cut = write(tmp_path / "cut", (reply_with(0), accepted(1.1), 1.9))
    with cut.log.open("a") as log:
        log.write(to_line(Logged(9, 9.0, TurnStarted(1, TurnRequest("write", "m"), "0"))) + "\n")
    exported = export([RunFolder(folder), cut])
    assert [(d.run, d.what) for d in exported.dropped] == [
        ("early", "the whole run"),
        ("cut", "turn 1"),
    ]


@pytest.mark.parametrize("form", ["jsonl", "trl", "verl"])
def test_neither_secrets_nor_paths_nor_configuration_leave(tmp_path, monkeypatch, form):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "plainvalue12345")
    secret = (
        f"# {KEY}\n# plainvalue12345\napi_key = 'hunter2hunter2'\n# /home/someone/private/other.py\n"
        "# https://me:pass@host/x ghp_" + "x" * 30
    )
    reply = f"```python\n{secret}\nclass ModelNew:\n    y = sum(x)/n/m\n```\n"
    shown = replace(FACTS, source=f"{secret}\nclass Model: ...\n")
    run = write(tmp_path / "r", (reply, accepted(1.2), 1.9), facts=shown)
    exported = export([run])
    text = as_lines(rows(exported, form)) + statement(exported, form)
    leaked = [KEY, "plainvalue12345", "hunter2", "someone", "me:pass", "ghp_", "private"]
    assert [word for word in leaked if word in text] == []
    assert "sum(x)/n/m" in text
    assert exported.redacted >= 10


def test_what_looks_like_code_is_left_alone():
    code = "a = b / c / d\nx = tl.load(p)/w/h  # /2/3\ntoken_count = 12\nkey = 'abc'\n"
    cleaner = Scrubber({})
    assert (cleaner.clean(code), cleaner.taken) == (code, 0)


@pytest.mark.long
def test_the_prompts_of_a_recorded_run_are_those_its_models_saw(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    conduct(tmp_path / "run", config_of("window"), resume=False)
    run = RunFolder(tmp_path / "run")
    asked = {
        e.event.turn: e.event.prompt_sha256
        for e in read_events(run.log)
        if isinstance(e.event, TurnStarted)
    }
    exported = {t.turn: prompt_hash(t.messages) for t in export([run]).trajectories[0].turns}
    assert exported == asked


def test_rows_for_trainers_hold_the_turns_that_are_learnt_from(run):
    exported = export([run])
    trl, verl = rows(exported, "trl"), rows(exported, "verl")
    assert [row["turn"] for row in trl] == [0, 2, 4]
    assert trl[1]["completion"] == [{"role": "assistant", "content": reply_with(1)}]
    assert [row["extra_info"]["turn"] for row in verl] == [0, 2, 4]
    assert set(verl[0]) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert verl[0]["prompt"][0]["role"] == "system"


def test_the_command_writes_rows_and_the_statement_beside_them(run, tmp_path, capsys):
    out = tmp_path / "turns.jsonl"
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(run.path), "--format", "trl", "--out", str(out), "--prs"])
    assert stopped.value.code == 0
    assert [json.loads(line)["turn"] for line in out.read_text().splitlines()] == [0, 2]
    message = (tmp_path / "turns.jsonl.statement.txt").read_text()
    assert "masked, void: 1 turns" in message
    assert message == capsys.readouterr().err


def test_an_unknown_format_is_wrong_usage_and_every_known_one_is_named(run, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(run.path), "--format", "csv"])
    assert stopped.value.code == 2
    assert "use jsonl, trl, verl or hf-kernels" in capsys.readouterr().err


def test_every_format_names_a_function_that_is_there():
    assert all(callable(item.made_by()) for item in EXPORT_FORMATS)
