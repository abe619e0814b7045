"""What a machine with a GPU asks of the processes around a candidate, as far as it shows without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelagent.tools.candidate_runner.candidate import failure_of
from kernelagent.tools.candidate_runner.integrity.watch import starting_a_process
from kernelagent.tools.cuda.chain import digest
from kernelagent.tools.judge.contribution.check import _coverage_holds
from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.confinement import ROOT
from kernelagent.tools.sandbox.file_access import first_lines, package_folders

_POISONED = """
import sys; sys.path.insert(0, sys.argv[1])
import torch
from kernelagent.tools.sandbox import fork_server as warm
torch.cuda._is_in_bad_fork = lambda: True
try:
    warm.import_all(["torch"])
except RuntimeError as error:
    print(error)
"""


class AcceleratorError(RuntimeError):
    """The name torch has for what a device reports."""


class PTXASError(Exception):
    """The name triton has for what ptxas refuses."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AcceleratorError("CUDA error: an illegal memory access was encountered"), "out_of_bounds"),
        (AcceleratorError("CUDA error: misaligned address"), "out_of_bounds"),
        (AcceleratorError("CUDA error: unspecified launch failure"), "runtime_error"),
        (PTXASError("Internal Triton PTX codegen error"), "compile_error"),
    ],
)
def test_what_a_device_reports_becomes_the_code_that_says_most(error: Exception, code: str) -> None:
    assert failure_of(error, "the forward").code == code


@pytest.mark.parametrize("name", ["ptxas-blackwell", "ptxas", "gcc", "/sbin/ldconfig", "file"])
def test_the_programs_that_triton_starts_are_no_offence(name: str) -> None:
    assert starting_a_process(None, (name,)) is None  # type: ignore[arg-type]


def test_any_other_program_is_one() -> None:
    assert starting_a_process(None, ("/usr/bin/curl",)) is not None  # type: ignore[arg-type]


def test_a_digest_takes_a_slice_that_begins_between_two_words() -> None:
    whole = torch.arange(9, dtype=torch.bfloat16)
    part = whole[1:]
    assert part.storage_offset() % 2 == 1
    assert torch.equal(digest(part), digest(part.clone()))


def test_packages_are_found_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package_folders(("elsewhere", "not_installed_at_all")) == [str(tmp_path)]


def test_a_package_found_through_the_path_comes_before_one_that_is_installed(
    tmp_path: Path,
) -> None:
    (tmp_path / "torch.py").write_text("NAME = 'ours'\n")
    code = first_lines(1) + "import torch; print(torch.NAME)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "ours"


@pytest.mark.long
def test_an_import_that_begins_cuda_is_named_before_any_fork_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _POISONED, ROOT],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "no fork of the fork server can use a GPU" in done.stdout


def test_a_share_that_is_asked_for_needs_a_trace_and_enough_of_it() -> None:
    _coverage_holds("triton", None, "no trace")
    _coverage_holds("coverage:0.5", 0.6, None)
    with pytest.raises(Rejected, match="no trace here") as unknown:
        _coverage_holds("coverage:0.5", None, "no trace here")
    assert unknown.value.reason.code == "unverifiable"
    with pytest.raises(Rejected, match="40%") as small:
        _coverage_holds("coverage:0.5", 0.4, None)
    assert small.value.reason.code == "kernel_not_contributing"
