"""The example package outside the tree: what its entry points name is found and works."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.domain.history import History, Message, Turn
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models import ModelQuery, ModelSettings
from kernelagent.models.kinds import load_model, stays_on_this_machine
from kernelagent.strategies import load_strategy
from tests.evaluations import FACTS, accepted

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as an installer leaves it: its module, and its entry points as metadata."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for module in PLUGIN.glob("*.py"):
        shutil.copy(module, tmp_path)
    metadata = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    lines = [f"Name: {project['name']}", f"Version: {project['version']}"]
    (metadata / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")
    groups = project["entry-points"].items()
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups
    )
    (metadata / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)


def settings() -> ModelSettings:
    return ModelSettings(ProblemSpec(path="model.py"), FACTS, "sm_90", "virtual")


@pytest.mark.usefixtures("installed")
def test_the_strategy_hands_the_best_candidate_from_model_to_model() -> None:
    relay = load_strategy("relay", ["a", "b"], options={"turns_each": "1"})
    (first,) = relay.next_turns(History())
    assert (first.kind, first.model) == ("write", "a")
    done = History((Turn(0, first, reply="...", evaluation=accepted(1.2)),))
    (second,) = relay.next_turns(done)
    assert (second.kind, second.model, second.parent) == ("optimise", "b", 0)


@pytest.mark.usefixtures("installed")
def test_the_model_answers_with_what_its_program_prints() -> None:
    model = load_model("program:cat", settings())
    (request,) = load_strategy("relay", ["program:cat"]).next_turns(History())
    query = ModelQuery(0, request, (Message("user", "write a kernel"),), History())
    assert model.reply(query, lambda _: None).text == "write a kernel"


@pytest.mark.usefixtures("installed")
def test_a_package_of_anybodys_counts_as_sending_the_source_elsewhere() -> None:
    assert not stays_on_this_machine("program:cat")


def test_without_the_package_its_model_is_unknown() -> None:
    with pytest.raises(UsageError, match="there is no model 'program:cat'"):
        load_model("program:cat", settings())
