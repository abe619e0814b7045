from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import jsonschema
import pytest

from kernelagent.cli.schemas import schemas, write
from kernelagent.domain.events import Evaluated, Logged, ProblemDescribed, TurnVoid, to_line
from kernelagent.domain.serialization import to_data, to_json
from tests.evaluations import DEVICE, FACTS, accepted, rejected

ROOT = Path(__file__).resolve().parents[2]


def test_the_build_writes_every_schema_as_a_file(tmp_path: Path) -> None:
    write(tmp_path / "schemas")
    written = {file.name: json.loads(file.read_text()) for file in tmp_path.rglob("*.json")}
    assert written == schemas()


@pytest.mark.long
def test_a_wheel_has_the_schemas_in_it(tmp_path: Path) -> None:
    # A copy, as setuptools builds in the folder of the source.
    tree = tmp_path / "tree"
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns(".*", "build", "tests"), symlinks=True
    )
    words = ["setup.py", "-q", "bdist_wheel", "--dist-dir", str(tmp_path / "dist")]
    subprocess.run([sys.executable, *words], cwd=tree, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = [Path(name).name for name in opened.namelist() if "/schemas/" in name]
    assert sorted(names) == sorted(schemas())


@pytest.mark.long
def test_a_wheel_is_built_with_no_more_than_what_its_build_asks_for(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package in needed_by(project["build-system"]["requires"]):
        for file in importlib.metadata.files(package) or ():
            here = tmp_path / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not here.exists():
                here.symlink_to(Path(str(file.locate())).parents[len(file.parts) - 2])
    done = subprocess.run(
        # -S: nothing of the environment that the tests run in.
        [sys.executable, "-S", "-c", "from kernelagent.cli.schemas import schemas; schemas()"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def needed_by(requirements: list[str]) -> set[str]:
    """The packages of some requirements and of what these need, extras aside."""
    known: set[str] = set()
    while requirements:
        line = requirements.pop()
        name = re.split(r"[^\w.-]", line)[0].lower()
        if "extra ==" not in line and name not in known:
            known.add(name)
            requirements += importlib.metadata.requires(name) or ()
    return known


@pytest.mark.parametrize("evaluation", [accepted(1.3), rejected()], ids=["accepted", "rejected"])
def test_evaluations_are_valid(evaluation: object) -> None:
    jsonschema.validate(json.loads(to_json(evaluation)), schemas()["evaluation.json"])


def test_an_unknown_verdict_is_not_valid() -> None:
    wrong = {**to_data(rejected()), "verdict": "perhaps"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schemas()["evaluation.json"])


@pytest.mark.parametrize(
    "event",
    [
        ProblemDescribed(FACTS, DEVICE, "none"),
        Evaluated(1, "abc", "x = 1\n", accepted(1.1), 1.9, "fine"),
        TurnVoid(2, "no code"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_log_lines_are_valid(event: object) -> None:
    line = json.loads(to_line(Logged(3, 1.5, event)))  # type: ignore[arg-type]
    jsonschema.validate(line, schemas()[f"event.{type(event).__name__}.json"])
