"""What `recheck` and `apply` do once their flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kernelagent.cli.commands.optimize import confirm_sending, of_run
from kernelagent.cli.terminal.json_output import print_json
from kernelagent.cli.terminal.stages import stages_of
from kernelagent.domain.certificate import certificate_in
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.configuration.options import options_of
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.arguments import problem_spec
from kernelagent.loop.choosing_parts import Proposal, proposed
from kernelagent.loop.preflight.endpoint import check_keys
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.prompts.beginning import problem_line
from kernelagent.report.terminal.scan_text import scan_text
from kernelagent.storage.run_log import RunFolder


def recheck(
    emitted: str,
    problem: str,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    submodule: str | None = None,
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent recheck`; 0 the gain holds, 1 it does not, 3 this machine cannot say."""
    from kernelagent.loop.emitted import recheck as rechecks

    path = Path(emitted)
    if not path.is_file():
        raise UsageError(f"there is no emitted file {emitted}")
    spec = problem_spec(problem, names)
    check_problem(rechecks.as_certified(certificate_in(path), spec))
    on_stage = stages_of(emitted, as_json=as_json)
    result = rechecks.recheck(path, spec, flags, on_stage, submodule)
    if as_json:
        print_json(result)
    else:
        sys.stdout.write(rechecks.as_text(result))
    return rechecks.STATUS[result.verdict]


def apply(
    model: str | None,
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
    from kernelagent.prompts.last_screen import putting_back

    folder = RunFolder.open(run, Path(resolve({"runs": runs_folder}).runs))
    given = None if model is None else Path(model)
    done = put(given, folder, branch=branch, commit=commit, force=force)
    if as_json:
        print_json(done)
    elif done.commit is None:
        sys.stdout.write(f"written: {done.path}\n")
        if done.submodule is not None:
            sys.stdout.write(
                "\n".join(("put it back:", *putting_back(Path(done.path), [done.submodule]))) + "\n"
            )
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

    spec = problem_spec(model, names)
    check_problem(spec)
    config = resolve(flags, config_file)
    result = submodule.scanned(spec, config)
    if as_json:
        print_json(result)
    else:
        step = proposed(result, built_in=submodule.by_built_in(config))
        if step is None:
            sys.stdout.write(scan_text(result))
        else:
            command = _optimizing(model, spec, config, step)
            sys.stdout.write(scan_text(result, command, step.why))
    return ExitStatus.OK


def _optimizing(model: str, spec: ProblemSpec, config: RunConfig, step: Proposal) -> str:
    """The command that optimizes what was scanned or a part of it, where and as it was scanned."""
    words = ["kernelagent", "optimize", model]
    if step.part is not None:
        words += ["--submodule", step.part]
    if step.needs_model:
        words += ["--model", "PROVIDER/NAME"]
    for name, option in options_of(ProblemSpec).items():
        if name != "module" or ":" not in model:
            words += option.typed(getattr(spec, name))
    for name in ("device", "target"):
        words += options_of(RunConfig)[name].typed(getattr(config, name))
    words += ["--train"] if config.mode == "train" else []
    return shlex.join(words)


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

    from kernelagent.cli.terminal.console import Progress
    from kernelagent.loop import submodule
    from kernelagent.loop.nothing_left import go_on_with

    if model is None:
        raise UsageError("say of which model: a Python file, or pkg.mod:Name")
    if path is not None and top is not None:
        raise UsageError("--submodule names the part and --top chooses it; give one of them")
    spec, config = problem_spec(model, names), resolve(flags, config_file)
    names_in_file = check_problem(spec)
    check_keys(config)
    confirm_sending(config)
    talk = Console(stderr=True, quiet=quiet)
    progress = Progress(talk)
    report = partial(talk.print, highlight=False, markup=False, soft_wrap=True)
    subscribers = () if quiet else (progress,)
    why = f"to see what {path} gets" if path is not None else "to find the parts with most to gain"
    report(f"{problem_line(spec, names_in_file)}\nthe whole model runs first, {why}")
    watched: dict[str, Any] = {
        "report": report,
        "subscribers": subscribers,
        "stop_asked": stop_asked,
    }
    try:
        if path is not None:
            result = submodule.optimize_parts(spec, config, [(path,)], **watched)
        else:
            scan_ = submodule.scanned(spec, config)
            result = submodule.optimize_top(spec, config, scan_, top or 1, **watched)
    finally:
        progress.close()
    if as_json:
        print_json(result)
    else:
        sys.stdout.write(submodule.text_of(result))
    if result.interrupted:
        for part in result.parts:
            if part.run:
                folder = RunFolder(Path(part.run))
                asked = of_run(folder, {})
                sys.stderr.write(f"{go_on_with(folder, *asked)}\n")
    return result.exit_status
