"""pytest as a stage: a row for each test, written as it ends."""

from __future__ import annotations

import re
import subprocess
import sys

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.plan import ROOT
from benchmarks.gpu_first.record import Record

_PLAIN = ("tests/gpu/test_cuda.py", "tests/gpu/test_profiles.py")
_LINE = re.compile(r"^\S+\.py::(\S+) (PASSED|FAILED|ERROR|SKIPPED)")


def plain(record: Record, options: Options) -> str:
    """The main job and the profiles; the others of tests/gpu have stages of their own."""
    return run_tests(record, _PLAIN)


def run_tests(record: Record, files: tuple[str, ...]) -> str:
    record.head("test", "outcome")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *files,
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:warnings",
    ]
    counts: dict[str, int] = {}
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as running:  # fmt: skip
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            if (ended := _LINE.match(line)) is not None:
                name, outcome = ended.groups()
                counts[outcome] = counts.get(outcome, 0) + 1
                record.add(name, outcome.lower())
    record.note("what failed, and why, stands in the log beside this page")
    message = ", ".join(f"{count} {outcome.lower()}" for outcome, count in sorted(counts.items()))
    return f"{message or 'no test ran'} (pytest ended with status {running.returncode})"
