"""What `recheck` and `apply` do once their flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kernelagent.cli.commands.optimize import confirm_sending
from kernelagent.cli.json_output import print_json
from kernelagent.domain.config import resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.loop.arguments import problem_spec
from kernelagent.loop.preflight.endpoint import check_keys
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.storage.run_log import RunFolder


def recheck(
    emitted: str,
    problem: str,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent recheck`; 0 the gain holds, 1 it does not, 3 this machine cannot say."""
    from kernelagent.loop import recheck as rechecks

    path = Path(emitted)
    if not path.is_file():
        raise UsageError(f"there is no emitted file {emitted}")
    result = rechecks.recheck(path, problem_spec(problem, names), flags, lambda _: None)
    if as_json:
        print_json(result)
    else:
        sys.stdout.write(rechecks.as_text(result))
    return rechecks.STATUS[result.verdict]


def apply(
    model: str,
    run: str,
    runs_folder: str | None,
    *,
    branch: str | None,
    commit: bool,
    force: bool,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent apply`; 0 when the module is where it was asked for."""
    from kernelagent.dropin.apply import apply as put

    folder = RunFolder.open(run, Path(resolve({"runs": runs_folder}).runs))
    done = put(Path(model), folder, branch=branch, commit=commit, force=force)
    if as_json:
        print_json(done)
    elif done.commit is None:
        sys.stdout.write(f"written: {done.path}\n")
    else:
        sys.stdout.write(
            f"committed: {done.path} on branch {done.branch} ({done.commit[:12]}); your checkout "
            f"is as it was. `git merge {done.branch}` takes it over (move an uncommitted copy away "
            f"first)\n"
        )
    return ExitStatus.OK


def scan(
    model: str,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent scan`; 0 when the model ran."""
    from kernelagent.loop import submodule

    result = submodule.scanned(problem_spec(model, names), resolve(flags, config_file))
    if as_json:
        print_json(result)
    else:
        sys.stdout.write(submodule.scan_text(result))
    return ExitStatus.OK


def optimize_parts(
    model: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    path: str | None,
    top: int | None,
    stop_asked: Callable[[], bool],
    *,
    as_json: bool,
    quiet: bool = False,
) -> ExitStatus:
    """`kernelagent optimize --submodule` and `--top`; 0 when one was written, 1 otherwise."""
    from rich.console import Console

    from kernelagent.cli.console import Progress
    from kernelagent.loop import submodule

    if model is None:
        raise UsageError("say of which model: a Python file, or pkg.mod:Name")
    if path is not None and top is not None:
        raise UsageError("--submodule names the part and --top chooses it; give one of them")
    spec, config = problem_spec(model, names), resolve(flags, config_file)
    check_problem(spec)
    check_keys(config)
    confirm_sending(config)
    talk = Console(stderr=True, quiet=quiet)
    progress = Progress(talk)
    report = partial(talk.print, highlight=False, markup=False, soft_wrap=True)
    subscribers = () if quiet else (progress,)
    watched: dict[str, Any] = {"subscribers": subscribers, "stop_asked": stop_asked}
    try:
        if path is not None:
            result = submodule.optimize_parts(spec, config, [(path,)], **watched)
        else:
            scan_ = submodule.scanned(spec, config)
            result = submodule.optimize_top(spec, config, scan_, top or 1, report=report, **watched)
    finally:
        progress.close()
    if as_json:
        print_json(result)
    else:
        sys.stdout.write(submodule.text_of(result))
    return result.exit_status
