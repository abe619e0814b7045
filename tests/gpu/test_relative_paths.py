"""The command as a user types it: the problem by a relative path, from a folder of the user's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(180)
def test_a_problem_by_a_relative_path_is_optimized_and_its_file_works(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    examples.mkdir()
    shutil.copy(ROOT / "examples" / "rms_norm_residual.py", examples)
    words = [
        "optimize",
        "examples/rms_norm_residual.py",
        "--turns",
        "1",
        "--device",
        "cuda",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "kernelagent", *words, "--out", "emitted.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["turns"][0]["verdict"] == "accepted", report["turns"][0]["reason"]
    assert report["turns"][0]["timing"] is not None
    assert (tmp_path / "emitted.py").exists() == (done.returncode == 0)
