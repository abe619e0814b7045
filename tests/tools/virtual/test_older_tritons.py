"""The virtual device under the Tritons that CUDA builds of torch bring along; all other tests have the pinned one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "build" / "tritons"
"""Folders with one Triton each, which are made once; git ignores them and `make clean` takes them away."""
CHOSEN = (
    "tests/tools/virtual/test_operations.py",
    "tests/tools/virtual/test_triton_versions.py",
    "tests/tools/virtual/test_batched.py::test_programs_together_leave_and_show_what_they_do_one_by_one",
    "tests/tools/virtual/test_batched.py::test_block_pointers_lead_programs_together_where_they_lead_them_one_by_one",
    "tests/tools/virtual/test_batched.py::test_programs_that_are_run_one_by_one_are_counted_with_the_reason",
    "tests/tools/virtual/test_fusing.py",
    "tests/tools/virtual/test_as_on_a_gpu.py",
    "tests/tools/virtual/test_two_processes.py",
    "tests/end_to_end/test_main_job.py::test_a_live_module_gets_a_drop_in_that_shares_its_parameters",
)
"""Each module imported, each operation executed, programs together against one by one, candidates compiled in a
process of their own, a module optimized."""


def folder_with(version: str) -> Path:
    """A folder to put first on `PYTHONPATH`; fails the test where pip cannot install into one."""
    folder = KEPT / version
    if folder.is_dir():
        return folder
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT, prefix=f"{version}-") as unfinished:
        made = Path(unfinished) / "packages"
        wanted = ["--no-deps", "--target", str(made), f"triton=={version}"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", *wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(f"pip cannot install triton {version}:\n{done.stderr[-2000:]}", False)
        shutil.rmtree(made / "bin", ignore_errors=True)
        made.rename(folder)
    return folder


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0"])
def test_what_the_virtual_device_does_under_the_pinned_triton_it_does_under_older_ones(
    version: str, tmp_path: Path
) -> None:
    folder = folder_with(version)
    environment = os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "TRITON_CACHE_DIR": str(tmp_path / "cache"),
    }
    found = subprocess.run(
        [sys.executable, "-c", "import triton; print(triton.__version__)"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=True,
    )
    assert found.stdout.strip() == version
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *CHOSEN],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, (
        f"under triton {version}:\n{done.stdout[-6000:]}{done.stderr[-1000:]}"
    )
