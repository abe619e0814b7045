"""`kernelagent export`: what it does once its flags are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelagent.config import resolve
from kernelagent.errors import ExitStatus, UsageError
from kernelagent.export import Choice, as_lines, refuse_unknown, rows, statement
from kernelagent.export import export as export_runs
from kernelagent.outfile import write_atomically
from kernelagent.runlog import RunFolder
from kernelagent.suite.conduct import run_folder
from kernelagent.suite.log import LOG, SuiteFolder, started
from kernelagent.trainers import write_parquet


def export(
    runs: Sequence[str], form: str, out: Path | None, choice: Choice, runs_folder: str | None
) -> ExitStatus:
    """Rows to `out` or stdout, the statement to stderr and beside `out`; 1 when no row is left."""
    chosen = refuse_unknown(form)
    where = Path(resolve({"runs": runs_folder}).runs)
    folders = [folder for run in runs for folder in _folders(run, where)]
    exported = export_runs(folders, choice)
    found, told = rows(exported, chosen), statement(exported, chosen)
    if out is None:
        sys.stdout.write(as_lines(found))
    elif out.suffix == ".parquet":
        write_parquet(found, out)
    else:
        write_atomically(out, as_lines(found), force=True)
    if out is not None:
        write_atomically(out.with_name(f"{out.name}.statement.txt"), told, force=True)
    sys.stderr.write(told)
    return ExitStatus.OK if found else ExitStatus.NOT_FOUND


def _folders(run: str, runs: Path) -> list[RunFolder]:
    """The run of that name, or all runs of the suite in that folder."""
    if not (Path(run) / LOG).is_file():
        return [RunFolder.open(run, runs)]
    suite = SuiteFolder(Path(run))
    found = [run_folder(suite.runs_of(problem.key)) for problem in started(suite).problems]
    begun = [folder for folder in found if folder is not None]
    if not begun:
        raise UsageError(f"no run of the suite {run} has begun")
    return begun
