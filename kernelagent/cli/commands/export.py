"""`kernelagent export`: what it does once its flags are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kernelagent.domain.configuration.config import resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import RunFolder
from kernelagent.suite.log import LOG, SuiteFolder, started
from kernelagent.suite.run_suite import run_folder
from kernelagent.training.export import Choice, as_lines, rows, statement
from kernelagent.training.export import export as export_runs
from kernelagent.training.trainers import write_parquet


def export(
    runs: Sequence[str], form: str, out: Path | None, choice: Choice, runs_folder: str | None
) -> ExitStatus:
    """Rows to `out` or stdout, the statement to stderr and beside `out`; 1 when no row is left."""
    where = Path(resolve({"runs": runs_folder}).runs)
    folders = [folder for run in runs for folder in _folders(run, where)]
    exported = export_runs(folders, choice)
    result, reported = rows(exported, form), statement(exported, form)
    if out is None:
        sys.stdout.write(as_lines(result))
    elif out.suffix == ".parquet":
        write_parquet(result, out)
    else:
        write_atomically(out, as_lines(result), force=True)
    if out is not None:
        write_atomically(out.with_name(f"{out.name}.statement.txt"), reported, force=True)
    sys.stderr.write(reported)
    return ExitStatus.OK if result else ExitStatus.NOT_FOUND


def _folders(run: str, runs: Path) -> list[RunFolder]:
    """The run of that name, or all runs of the suite in that folder."""
    if not (Path(run) / LOG).is_file():
        return [RunFolder.open(run, runs)]
    suite = SuiteFolder(Path(run))
    result = [run_folder(suite.runs_of(problem.key)) for problem in started(suite).problems]
    begun = [folder for folder in result if folder is not None]
    if not begun:
        raise UsageError(f"no run of the suite {run} has begun")
    return begun
