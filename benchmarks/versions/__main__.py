"""The examples under each version of torch, with the triton it brings, and each Python.

    python -m benchmarks.versions [--torch 2.11.0 ...] [--python PROGRAM ...] [--only EXAMPLE ...]

Each row installs an environment of gigabytes and deletes it again; the rows that are there already
are kept, so that the table can be made in parts. Needs a package index that pip can reach.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.commit import head_of
from benchmarks.gpu_first.plan import ROOT
from benchmarks.gpu_first.programs import program
from benchmarks.gpu_first.record import table, write_whole
from benchmarks.gpu_first.sizes import examples

RESULT = ROOT / "benchmarks" / "results" / "versions.md"
TORCH = ("2.11.0", "2.12.1", "2.13.0")
PYTHON = ("3.12", "3.11", "3.13")
_COLUMNS = (
    "torch",
    "triton",
    "Python",
    "captured",
    "accepted on `virtual`",
    "seconds",
    "commit",
    "what failed",
)
_TRIAL_S = 900.0
_INSTALL_S = 1800.0


@dataclass(frozen=True)
class Row:
    """One environment and what became of the examples in it."""

    torch: str
    triton: str
    python: str
    captured: int
    accepted: int
    of: int
    seconds: float
    """For all the examples, installing not included."""
    failed: list[str]
    commit: str = "not recorded"

    @property
    def key(self) -> tuple[str, str]:
        """With torch's build (`+cpu`, `+cu130`): each brings another triton."""
        return self.torch, self.python

    def cells(self) -> list[str]:
        return [
            self.torch, self.triton, self.python, f"{self.captured} of {self.of}",
            f"{self.accepted} of {self.of}", f"{self.seconds:.0f}", self.commit,
            "; ".join(self.failed),
        ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    known = set() if options.again else {(_release(row.torch), row.python) for row in _known()}
    for torch in options.torch:
        for python in options.python:
            result = _python(python)
            if result is None:
                print(f"there is no Python {python} here; name its program with --python")
                continue
            program_path, version = result
            if (_release(torch), version) in known:
                continue
            row = _row(torch, program_path, version, options)
            print(" | ".join(row.cells()), flush=True)
            # What other calls have written meanwhile is kept.
            _write([*(other for other in _known() if other.key != row.key), row])
    return 0


def _row(torch: str, python: str, version: str, options: argparse.Namespace) -> Row:
    folder = Path(tempfile.mkdtemp(prefix="versions-", dir=options.work))
    paths = [path for path in examples() if path.stem in (options.only or (path.stem,))]
    try:
        return _tried(torch, python, version, folder, paths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tried(torch: str, python: str, version: str, folder: Path, paths: list[Path]) -> Row:
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    inside = str(folder / "venv" / "bin" / "python")
    # With temporary files of its own: whoever tidies up /tmp meanwhile does not end it.
    install = ["env", f"TMPDIR={folder}", inside, "-m", "pip", "install", "--quiet"]
    install += ["--no-cache-dir", "--no-compile", f"torch=={torch}", *_needed()]
    installed = program(install, seconds=_INSTALL_S)
    if installed.status != 0:
        why = f"not installed: {installed.shown}"
        return Row(torch, "", version, 0, 0, len(paths), 0.0, [why])
    began, reported = time.monotonic(), {}
    for path in paths:
        ended = program(
            [inside, "-m", "benchmarks.versions.trial", str(path)], seconds=_TRIAL_S, folder=ROOT
        )
        reported[path.stem] = ended.data or {"why": ended.shown}
    failed = [
        f"{name}: {(item.get('why_not') or item.get('why') or item.get('verdict'))[:160]}"
        for name, item in reported.items()
        if item.get("verdict") != "accepted"
    ]
    return Row(
        torch=next((item["torch"] for item in reported.values() if "torch" in item), torch),
        triton=next((item["triton"] for item in reported.values() if "triton" in item), ""),
        python=version,
        captured=sum(bool(item.get("captured")) for item in reported.values()),
        accepted=sum(item.get("verdict") == "accepted" for item in reported.values()),
        of=len(paths),
        seconds=round(time.monotonic() - began),
        failed=failed,
        commit=head_of(ROOT),
    )


def _needed() -> list[str]:
    """What the package depends on, but for torch; a CPU build of torch brings no triton, so that the
    package's own range chooses it there."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [item for item in data["project"]["dependencies"] if not item.startswith("torch")]


def _python(asked: str) -> tuple[str, str] | None:
    """The program and version of a Python, asked for by its path or as `3.12`."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{asked}*/bin/python"))
    for name in (asked, f"python{asked}", *map(str, installed)):
        path = shutil.which(name)
        if path is None:
            continue
        ended = program([path, "-c", "import platform; print(platform.python_version())"])
        if ended.status == 0:
            return path, ended.output.strip()
    return None


def _release(text: str) -> str:
    return text.partition("+")[0]


def _data() -> Path:
    return RESULT.with_suffix(".json")


def _known() -> list[Row]:
    try:
        rows = [Row(**item) for item in json.loads(_data().read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    # What could not be installed is tried again.
    return [row for row in rows if row.triton]


def _write(rows: list[Row]) -> None:
    rows = sorted(rows, key=lambda row: row.key)
    write_whole(_data(), json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    lines = [
        "# Versions",
        "",
        "`make matrix`: each row is an environment of its own with the triton that this torch brings. "
        "Every example is captured by the built-in policy, and what it writes is judged on `virtual` "
        "(no GPU: nothing is timed).",
        "",
        *table(_COLUMNS, [row.cells() for row in rows]),
    ]
    write_whole(RESULT, "\n".join(lines) + "\n")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("--torch", nargs="+", default=TORCH)
    parser.add_argument("--python", nargs="+", default=PYTHON, help="versions, or programs")
    parser.add_argument("--only", nargs="+", help="these examples; default: all")
    parser.add_argument("--work", type=Path, help="where the environments are made and deleted")
    parser.add_argument(
        "--again", action="store_true", help="make rows anew that are there already"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
