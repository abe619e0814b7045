from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from evaluations import DEVICE, FACTS, accepted, rejected

from kernelagent.events import Evaluated, Logged, ProblemDescribed, TurnVoid, to_line
from kernelagent.records import to_data, to_json
from kernelagent.schemas_of import FOLDER, schemas


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_shipped_schema_is_that_of_the_record(name: str) -> None:
    shipped = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert shipped == schemas()[name], "run `python -m kernelagent.schemas_of`"


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
