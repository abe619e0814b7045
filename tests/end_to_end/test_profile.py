"""`kernelagent profile` as a user types it, on the virtual device."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from kernelagent.cli.main import main
from kernelagent.cli.schemas import schemas

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def kernelagent(*words: str) -> int:
    """The exit status of the command, called in this process."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--device", "virtual"])
    return int(ended.value.code or 0)


@pytest.mark.long
def test_the_module_itself_is_profiled_and_what_it_needs_at_least_is_said(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert kernelagent("profile", "examples/cross_entropy.py", "--json") == 0
    result = json.loads(capfd.readouterr().out)
    jsonschema.validate(result, schemas()["profile.json"])
    (item,) = result["reference"]
    assert [row["name"] for row in item["operations"]] == ["_log_softmax", "nll_loss_forward"]
    assert sum(row["share"] for row in item["operations"]) == pytest.approx(1, abs=1e-3)
    assert item["tier"] == "counted"
    assert 0 < item["headroom"]["left"] < 1
    # 16 rows of 32000 floats are read once.
    assert item["headroom"]["fewest_bytes"] >= 16 * 32000 * 4


@pytest.mark.long
def test_a_candidate_is_shown_beside_it_in_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "softmax.py"
    words = ("examples/softmax_scale_mask.py", "--turns", "1", "--runs", str(tmp_path / "runs"))
    assert kernelagent("optimize", *words, "--out", str(out)) == 0
    capfd.readouterr()
    assert kernelagent("profile", "examples/softmax_scale_mask.py", str(out)) == 0
    shown = capfd.readouterr().out
    assert "estimate, not timed" in shown
    assert "softmax_mask" in shown
    assert "What a model would be told:" in shown


def test_a_candidate_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert kernelagent("profile", "examples/cross_entropy.py", "nowhere.py") == 2
    assert "nowhere.py" in capfd.readouterr().err
