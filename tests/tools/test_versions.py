"""A version that nobody has tried is refused in one sentence, before any process starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kernelagent.domain.errors import EnvironmentFault
from kernelagent.tools.versions import RANGES, require_supported, why_not

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", list(RANGES))
def test_the_first_and_the_last_version_are_supported_and_their_neighbours_are_not(
    name: str,
) -> None:
    (major, first), (_, last) = RANGES[name]
    assert why_not(name, f"{major}.{first}.0+cu130") is None
    assert why_not(name, f"{major}.{last}.9") is None
    for minor in (first - 1, last + 1):
        sentence = why_not(name, f"{major}.{minor}.1")
        assert sentence is not None
        assert (
            f"{name} {major}.{first} to {major}.{last} is needed, and {major}.{minor}.1" in sentence
        )


def test_what_is_installed_here_is_supported() -> None:
    require_supported()


def test_what_does_not_tell_its_version_is_left_to_its_import() -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    require_supported(unknown)


def test_a_torch_out_of_range_is_named() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"torch 2\.11 to 2\.13 is needed, and 2\.10\.0 is installed"
    ):
        require_supported({"torch": "2.10.0", "triton": "3.6.0"}.__getitem__)


def with_old_torch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where torch says that it is 2.10.0."""
    installed = folder / "torch-2.10.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0\n")
    return subprocess.run(
        [sys.executable, "-m", "kernelagent", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.long
def test_doctor_looks_no_further_and_says_which_are_taken(tmp_path: Path) -> None:
    done = with_old_torch(tmp_path, "doctor", "--json")
    assert done.returncode == 3
    findings = {row["code"]: row for row in json.loads(done.stdout)["findings"]}
    assert findings["torch"]["status"] == "missing"
    assert "torch 2.11 to 2.13" in findings["torch"]["advice"]
    assert "device" not in findings


@pytest.mark.long
def test_a_command_ends_with_that_sentence_alone(tmp_path: Path) -> None:
    done = with_old_torch(tmp_path, "scan", str(EXAMPLES / "rms_norm_residual.py"))
    assert done.returncode == 3
    assert done.stderr.strip() == (
        "kernelagent: torch 2.11 to 2.13 is needed, and 2.10.0 is installed"
    )
