"""JSON Schemas of what the program prints and logs, made from the records themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from kernelagent.apply import Applied
from kernelagent.browse import DiffView, RunsView, RunView, TurnView
from kernelagent.doctor import Findings
from kernelagent.evaluation import Evaluation
from kernelagent.events import KINDS, SCHEMA
from kernelagent.lab.study import CompareView
from kernelagent.memory.lesson import Lesson
from kernelagent.memory.library import LearntView, LessonsView
from kernelagent.profile import Profile
from kernelagent.proof import Proof
from kernelagent.recheck import Recheck
from kernelagent.report.record import Report
from kernelagent.submodule import PartsResult
from kernelagent.suite.pairs import SuiteDiff
from kernelagent.suite.summary import SuiteReport
from kernelagent.whole_model import Scan, WholeModel

FOLDER = Path(__file__).parent / "schemas"


def schemas() -> dict[str, dict[str, Any]]:
    """File name to schema, for what the commands print with --json and each kind of event."""
    made = {
        "evaluation.json": msgspec.json.schema(Evaluation),
        "doctor.json": msgspec.json.schema(Findings),
        "bench.json": msgspec.json.schema(SuiteReport),
        "bench_diff.json": msgspec.json.schema(SuiteDiff),
        "profile.json": msgspec.json.schema(Profile),
        "proof.json": msgspec.json.schema(Proof),
        "report.json": msgspec.json.schema(Report),
        "recheck.json": msgspec.json.schema(Recheck),
        "scan.json": msgspec.json.schema(Scan),
        "submodules.json": msgspec.json.schema(PartsResult),
        "whole_model.json": msgspec.json.schema(WholeModel),
        "applied.json": msgspec.json.schema(Applied),
        "runs.json": msgspec.json.schema(RunsView),
        "show.json": msgspec.json.schema(RunView),
        "show_turn.json": msgspec.json.schema(TurnView),
        "diff.json": msgspec.json.schema(DiffView),
        "lesson.json": msgspec.json.schema(Lesson),
        "lessons.json": msgspec.json.schema(LessonsView),
        "learnt.json": msgspec.json.schema(LearntView),
        "compare.json": msgspec.json.schema(CompareView),
    }
    for name, kind in KINDS.items():
        made[f"event.{name}.json"] = {
            "type": "object",
            "required": ["schema", "seq", "time_s", "kind", "data"],
            "properties": {
                "schema": {"const": SCHEMA},
                "seq": {"type": "integer", "minimum": 0},
                "time_s": {"type": "number"},
                "kind": {"const": name},
                "data": {"$ref": f"#/$defs/{name}"},
            },
            "$defs": msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")[1],
        }
    return {name: _text(schema) for name, schema in made.items()}


def _text(schema: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(schema))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **plain}


def write() -> None:
    """Write all schemas into the package; run after a record has changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
