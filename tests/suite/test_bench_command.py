from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from kernelagent.cli.main import main
from kernelagent.cli.schemas import schemas

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    "words",
    [["bench"], ["bench", "nowhere.py"], ["bench", "diff", "A"], ["bench", "--resume", "nowhere"]],
)
def test_a_suite_of_nothing_is_wrong_usage(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.long
def test_a_folder_in_kernelbenchs_form_runs_to_a_report(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    shutil.copy(EXAMPLES / "softmax_scale_mask.py", level / "2_softmax.py")
    (level / "10_broken.py").write_text("class Model: ...\ndef get_inputs(): return 1 / 0\n")
    words = ["--split", "L1", "--turns", "1", "--device", "virtual", "--json"]
    assert run("bench", "KernelBench", *words) == 0
    report = json.loads(capfd.readouterr().out)
    jsonschema.validate(report, schemas()["bench.json"])
    assert [row["key"] for row in report["problems"]] == ["level1-2_softmax", "level1-10_broken"]
    assert report["failed"] == ["level1-10_broken"]
    assert report["all"]["best_of_history"]["correct"]["value"] == 0.5
    assert report["all"]["best_of_history"]["eager"] is None
    (suite,) = (tmp_path / ".kernelagent" / "suites").iterdir()
    assert "not timed" in (suite / "report.md").read_text()
    assert (suite / "modules" / "level1-2_softmax.py").is_file()
    # Everything has ended: going on runs nothing, and comes to the same.
    lines = (suite / "suite.jsonl").read_text().count("ProblemBegun")
    assert run("bench", "--resume", str(suite), "--json") == 0
    again = json.loads(capfd.readouterr().out)
    assert again["problems"] == report["problems"]
    assert (suite / "suite.jsonl").read_text().count("ProblemBegun") == lines
    assert run("bench", "diff", str(suite), str(suite), "--json") == 0
    jsonschema.validate(json.loads(capfd.readouterr().out), schemas()["bench_diff.json"])
