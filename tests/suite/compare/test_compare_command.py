"""`kernelagent compare`: what it prints as JSON is what its schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from kernelagent.cli.main import main
from kernelagent.cli.schemas import schemas

pytestmark = pytest.mark.long

FEW = ["compare", "--simulated", "2", "--strategies", "sequential,window:window=2", "--turns", "6"]


def test_the_json_of_a_comparison_satisfies_its_schema(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    svg = tmp_path / "curves.svg"
    with pytest.raises(SystemExit) as left:
        main([*FEW, "--seeds", "2", "--svg", str(svg), "--json"])
    assert left.value.code == 0
    result = json.loads(capfd.readouterr().out)
    jsonschema.validate(result, schemas()["compare.json"])
    assert {row["strategy"] for row in result["rows"]} == {"sequential", "window:window=2"}
    assert result["simulated"]
    assert svg.read_text(encoding="utf-8").startswith("<svg")


def test_the_schema_of_a_comparison_refuses_one_without_its_rows(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main([*FEW, "--json"])
    result = json.loads(capfd.readouterr().out)
    del result["rows"]
    with pytest.raises(jsonschema.ValidationError, match="rows"):
        jsonschema.validate(result, schemas()["compare.json"])
