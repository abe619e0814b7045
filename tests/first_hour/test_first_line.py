"""What a run was asked for is said before anything slow begins: the judge has not been started."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from kernelagent.cli.terminal.console import Progress
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault
from kernelagent.domain.events import Logged, RunStarted, from_line, to_line
from kernelagent.domain.problem import NamesInFile, ProblemSpec
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.loop.queries.exclusive_gpu import OpenedJudge, Say
from kernelagent.loop.run import optimize
from kernelagent.prompts.wording import line_for
from kernelagent.tui.view import View

MODEL = """
import torch

class Width:
    pass

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

class Other(torch.nn.Module):
    pass

def get_inputs():
    return [torch.randn(4, 8)]

def width():
    return [8]
"""


class JudgesThatNeverCome:
    """What was said by the time that a judge is asked for is kept."""

    here = True

    def __init__(self, screen: io.StringIO) -> None:
        self.screen = screen
        self.said_before = ""

    def open(self, settings: JudgeSettings, say: Say) -> OpenedJudge:
        self.said_before = self.screen.getvalue()
        raise EnvironmentFault("no judge today")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def test_file_class_functions_device_model_and_limits_are_said_before_the_judge_starts(
    here: Path,
) -> None:
    screen = io.StringIO()
    judges = JudgesThatNeverCome(screen)
    events: list[Logged] = []
    with pytest.raises(EnvironmentFault, match="no judge today"):
        optimize(
            ProblemSpec(path="model.py", init="width"),
            RunConfig(turns=1, budget_minutes=3.0),
            subscribers=(Progress(Console(file=screen, width=40)), events.append),
            judges=judges,
        )
    first, second = judges.said_before.splitlines()
    assert first.endswith(
        ": model.py: class Model, inputs from get_inputs, constructor arguments from width"
    )
    assert second == ("device auto, model compiler, strategy sequential; at most 1 turn, 3 minutes")
    view = View()
    view.take_all(events)
    assert view.lines[0] == judges.said_before.strip()


@pytest.mark.parametrize(
    ("text", "module"),
    [
        (MODEL, "Model"),
        (MODEL.replace("Model(", "Block("), None),
        (MODEL.replace("Model(", "Block(").replace("class Other", "Other = class_of"), None),
        ("import torch\nclass Net(torch.nn.Module): ...\ndef get_inputs(): ...\n", "Net"),
        ("class Model: ...\nclass Net(Base): ...\ndef get_inputs(): ...\n", None),
        ("from a import Net\nModel = Net\ndef get_inputs(): ...\n", None),
    ],
    ids=["model", "two-modules", "one-of-two-classes", "the-only-one", "no-module", "imported"],
)
def test_a_class_is_named_only_where_the_text_leaves_no_choice(
    here: Path, text: str, module: str | None
) -> None:
    text = text.replace("Other = class_of(torch.nn.Module):\n    pass\n", "")
    (here / "model.py").write_text(text, encoding="utf-8")
    assert check_problem(ProblemSpec(path="model.py")) == NamesInFile(module, "get_inputs")


def test_what_a_file_makes_while_it_runs_is_not_guessed(here: Path) -> None:
    (here / "model.py").write_text("from somewhere import *\n", encoding="utf-8")
    assert check_problem(ProblemSpec(path="model.py", module="A")) == NamesInFile("A")
    line = line_for(Logged(0, 0.0, RunStarted("r", ProblemSpec(path="model.py"), {}, {})))
    assert line == "run r: model.py"


def test_a_part_of_a_model_is_called_by_its_place_there() -> None:
    part = ProblemSpec(bundle="b", submodule="h.0.mlp", whole=ProblemSpec(path="gpt.py"))
    line = line_for(Logged(0, 0.0, RunStarted("r", part, {}, {})))
    assert line == "run r: h.0.mlp of gpt.py"


def test_a_log_without_the_names_is_still_read() -> None:
    line = to_line(Logged(0, 0.0, RunStarted("r", ProblemSpec(path="a.py"), {}, {})))
    older = line.replace(', "names": null', "")
    assert older != line
    assert from_line(older) == from_line(line)
