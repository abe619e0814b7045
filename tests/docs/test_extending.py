"""The examples of docs/extending.md, executed as a reader would use them."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import History, TurnRequest
from kernelagent.loop.session import Session
from kernelagent.models import Model, ModelQuery
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.strategies import Strategy, load_strategy
from kernelagent.tools.corpus.check import check
from tests.docs.pages import ROOT, blocks, files
from tests.evaluations import DEVICE, FACTS, Recorded, accepted, rejected, reply_with

PAGE = ROOT / "docs" / "extending.md"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Imports a file of the page by its name."""
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module


@pytest.fixture
def installed(example, tmp_path):
    """The page's package as an installer leaves it: its metadata beside the module."""
    (packaging,) = [block.text for block in blocks(PAGE) if block.language == "toml"]
    project = tomllib.loads(packaging)["project"]
    folder = tmp_path / "my_strategies-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n",
        encoding="utf-8",
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return example


def session(folder: RunFolder, strategy: Strategy, model: Model, verdicts) -> Session:
    return Session(
        facts=FACTS,
        device=DEVICE,
        strategy=strategy,
        models={model.name: model},
        evaluator=Recorded(verdicts),
        budget=Budget(turns=len(verdicts)),
        publish=EventLog(folder, clock=lambda: 1.0).publish,
        clock=lambda: 0.0,
        keep_prompt=folder.keep_prompt,
        keep_candidate=folder.keep_candidate,
    )


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path / ".kernelagent" / "runs", "toy", now=0.0)


def writer(example, tmp_path) -> Model:
    """The page's model over a program that counts the codes it is asked for."""
    program = tmp_path / "program.py"
    counted = reply_with(0).replace("number = 0", "number = {}")
    program.write_text(
        "import pathlib, sys\n"
        "assert 'kernel' in sys.stdin.read()\n"
        "count = pathlib.Path(__file__).with_name('count')\n"
        "n = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (n + 1))\n"
        f"print({counted!r}.replace('{{}}', str(n)))\n",
        encoding="utf-8",
    )
    return example("my_models").ProgramModel("program", (sys.executable, str(program)))


def test_strategy_of_another_package_is_found_by_its_entry_point(installed):
    strategy = load_strategy("restart", ("a",), options={"every": "3"})
    assert strategy == installed("my_strategies").Restart(("a",), every=3)
    with pytest.raises(UsageError, match="it has: every"):
        load_strategy("restart", ("a",), options={"often": "3"})


@pytest.mark.long
def test_strategy_and_model_of_the_page_drive_a_session(installed, folder, tmp_path):
    strategy = load_strategy("restart", ("program",), options={"every": "3"})
    verdicts = [rejected(), accepted(1.2), accepted(1.5), accepted(1.1), accepted(1.3)]
    run = session(folder, strategy, writer(installed, tmp_path), verdicts)
    assert "budget" in run.run()
    asked = [(turn.request.kind, turn.request.parent) for turn in run.history.turns]
    assert asked == [
        ("write", None),
        ("write", None),
        ("optimise", 1),
        ("write", None),
        ("optimise", 2),
    ]


def test_program_that_fails_is_a_model_that_cannot_be_asked(example):
    failing = (sys.executable, "-c", "raise SystemExit('no licence')")
    model = example("my_models").ProgramModel("program", failing)
    ask = ModelQuery(0, TurnRequest("write", "program"), (), History())
    with pytest.raises(ModelError, match="ended with 1: no licence"):
        model.reply(ask, print)


@pytest.mark.long
def test_fixtures_of_the_page_are_judged_as_they_say(example):
    page = example("my_fixtures")
    judged = list(check([page.CHEAT, page.TWIN], device="virtual"))
    assert {item.fixture.name for item in judged if item.as_expected} == {
        "answers-with-zeros",
        "multiplies-by-the-reciprocal",
    }, judged
