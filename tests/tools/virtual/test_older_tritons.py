"""The virtual device under the Tritons that CUDA builds of torch bring along; all other tests have the pinned one."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "build" / "tritons"
"""Environments with one Triton each, made once; git ignores them and `make clean` takes them away."""
CHOSEN = (
    "tests/tools/virtual/test_operations.py",
    "tests/tools/virtual/test_triton_versions.py",
    "tests/tools/virtual/test_batched.py::test_programs_together_leave_and_show_what_they_do_one_by_one",
    "tests/tools/virtual/test_batched.py::test_block_pointers_lead_programs_together_where_they_lead_them_one_by_one",
    "tests/tools/virtual/test_batched.py::test_programs_that_are_run_one_by_one_are_counted_with_the_reason",
    "tests/tools/virtual/arithmetic/test_fusing.py",
    "tests/tools/virtual/arithmetic/test_as_on_a_gpu.py",
    "tests/tools/virtual/test_two_processes.py",
    "tests/end_to_end/test_main_job.py::test_a_live_module_gets_a_drop_in_that_shares_its_parameters",
)
"""Each module imported, each operation executed, programs together against one by one, candidates compiled in a
process of their own, a module optimized."""


def python_with(version: str) -> Path:
    """The Python of an environment with this Triton and all else that is installed here.

    Installed as users have it, and not a folder on `PYTHONPATH`, of which the judge's processes take but a part.
    Fails the test where pip cannot install.
    """
    kept = KEPT / version
    if not kept.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT, prefix=f"{version}-") as unfinished:
            made = Path(unfinished) / "environment"
            venv.create(made, symlinks=True)
            base = {"base": str(made), "platbase": str(made)}
            packages = Path(sysconfig.get_path("purelib", "venv", base))
            wanted = ["--no-deps", "--target", str(packages), f"triton=={version}"]
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", *wanted],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                pytest.fail(f"pip cannot install triton {version}:\n{done.stderr[-2000:]}", False)
            others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
            (packages / "others.pth").write_text("\n".join(sorted(others)) + "\n")
            made.rename(kept)
    return kept / "bin" / "python"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0"])
def test_what_the_virtual_device_does_under_the_pinned_triton_it_does_under_older_ones(
    version: str, tmp_path: Path
) -> None:
    python = str(python_with(version))
    found = subprocess.run(
        [python, "-I", "-c", "import triton; print(triton.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == version
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *CHOSEN],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, (
        f"under triton {version}:\n{done.stdout[-6000:]}{done.stderr[-1000:]}"
    )
