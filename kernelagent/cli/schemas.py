"""JSON Schemas of what the program prints and logs, made from the records themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from kernelagent.cli.doctor import Findings
from kernelagent.cli.self_test import Proof
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import KINDS, SCHEMA
from kernelagent.domain.profile import Profile
from kernelagent.domain.whole_model import Scan, WholeModel
from kernelagent.dropin.apply import Applied
from kernelagent.loop.emitted.recheck import Recheck
from kernelagent.loop.submodule import PartsResult
from kernelagent.report.record import Report
from kernelagent.report.terminal.browse import DiffView, RunsView, RunView, TurnView
from kernelagent.storage.lessons.lesson import Lesson
from kernelagent.storage.lessons.library import LearntView, LessonsView
from kernelagent.suite.compare.study import CompareView
from kernelagent.suite.pairs import SuiteDiff
from kernelagent.suite.summary import SuiteReport


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


def write(folder: Path) -> None:
    """Write every schema into `folder`; the build puts them into the package as `schemas/`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / name).write_text(as_text(schema), encoding="utf-8")


def as_text(schema: dict[str, Any]) -> str:
    """A schema as it is written and printed: indented, keys in order."""
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
