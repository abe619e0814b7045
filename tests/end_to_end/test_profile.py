"""`kernelagent profile` as a user types it, on the virtual device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from kernelagent.cli.schemas import schemas

ROOT = Path(__file__).resolve().parents[2]


def profiled(*more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kernelagent", "profile", *more, "--device", "virtual"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


def test_the_module_itself_is_profiled_and_what_it_needs_at_least_is_said() -> None:
    done = profiled("examples/cross_entropy.py", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, schemas()["profile.json"])
    (item,) = result["reference"]
    assert [row["name"] for row in item["operations"]] == ["_log_softmax", "nll_loss_forward"]
    assert sum(row["share"] for row in item["operations"]) == pytest.approx(1, abs=1e-3)
    assert item["tier"] == "counted"
    assert 0 < item["headroom"]["left"] < 1
    # 16 rows of 32000 floats are read once.
    assert item["headroom"]["fewest_bytes"] >= 16 * 32000 * 4


@pytest.mark.long
def test_a_candidate_is_shown_beside_it_in_words(tmp_path: Path) -> None:
    out = tmp_path / "softmax.py"
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "kernelagent",
            "optimize",
            "examples/softmax_scale_mask.py",
            "--turns",
            "1",
            "--device",
            "virtual",
            "--runs",
            str(tmp_path / "runs"),
            "--out",
            str(out),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert made.returncode == 0, made.stderr
    done = profiled("examples/softmax_scale_mask.py", str(out))
    assert done.returncode == 0, done.stderr
    assert "estimate, not timed" in done.stdout
    assert "softmax_mask" in done.stdout
    assert "What a model would be told:" in done.stdout


def test_a_candidate_that_is_not_there_is_named() -> None:
    done = profiled("examples/cross_entropy.py", "nowhere.py")
    assert done.returncode == 2
    assert "nowhere.py" in done.stderr
