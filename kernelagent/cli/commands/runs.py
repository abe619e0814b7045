"""What the commands about runs do: list, show, compare turns, and compare strategies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from kernelagent.cli.terminal.json_output import print_json
from kernelagent.domain.configuration.config import resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.events import Act, RunResumed, RunStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.models.kinds import why_unheard
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.steering import Command


def runs(runs_folder: str | None, *, prune: bool, yes: bool, as_json: bool) -> ExitStatus:
    """`kernelagent runs`; with --prune deletes runs that came to nothing, once they were shown."""
    from kernelagent.report.terminal import browse
    from kernelagent.report.terminal.browse_text import data_console, runs_table

    rows = browse.all_runs(_folder(runs_folder))
    if prune:
        rows = browse.prunable(rows)
    if as_json and not prune:
        print_json(browse.RunsView(rows))
        return ExitStatus.OK
    if not as_json:
        data_console().print(runs_table(rows))
    if prune:
        deleted = browse.prune(rows, lambda _: _agreed(len(rows)), yes=yes)
        if as_json:
            print_json(browse.RunsView(deleted))
        else:
            sys.stdout.write(f"{len(deleted)} of {len(rows)} runs deleted\n")
    return ExitStatus.OK


def show(run: str, turn: int | None, runs_folder: str | None, *, as_json: bool) -> ExitStatus:
    """`kernelagent show RUN [TURN]`."""
    from kernelagent.report.terminal.browse import run_view, turn_view
    from kernelagent.report.terminal.browse_text import data_console, print_run, print_turn

    folder = RunFolder.open(run, _folder(runs_folder))
    if turn is None:
        whole = run_view(folder)
        print_json(whole) if as_json else print_run(data_console(), whole)
    else:
        item = turn_view(folder, turn)
        print_json(item) if as_json else print_turn(data_console(), item)
    return ExitStatus.OK


def diff(
    run: str, before: int, after: int, runs_folder: str | None, *, as_json: bool
) -> ExitStatus:
    """`kernelagent diff RUN A B`."""
    from kernelagent.report.terminal.browse import diff_view
    from kernelagent.report.terminal.browse_text import data_console, print_diff

    view = diff_view(RunFolder.open(run, _folder(runs_folder)), before, after)
    print_json(view) if as_json else print_diff(data_console(), view)
    return ExitStatus.OK


def report(run: str, runs_folder: str | None, *, as_json: bool) -> ExitStatus:
    """`kernelagent report RUN`: writes the files again and prints the Markdown, or the JSON."""
    from kernelagent.report.files import reports, write_for
    from kernelagent.report.terminal.browse import contents_of

    folder = RunFolder.open(run, _folder(runs_folder))
    events = contents_of(folder.log).events
    write_for(folder, events)
    sys.stderr.write(
        f"written: {folder.path / 'report.html'}, report.md and report.json beside it\n"
    )
    sys.stdout.write(reports(events, folder.path)["report.json" if as_json else "report.md"])
    sys.stdout.flush()
    return ExitStatus.OK


def steer(run: str, act: str, words: Sequence[str], runs_folder: str | None) -> ExitStatus:
    """`kernelagent steer RUN ACT [WORDS]`: leaves one command in the run's inbox."""
    folder = RunFolder.open(run, _folder(runs_folder))
    _leave(folder, command_of(act, words))
    sys.stdout.write(f"sent to run {folder.id}: {' '.join([act, *words])}\n")
    return ExitStatus.OK


def _leave(folder: RunFolder, command: Command) -> None:
    """Put a command into the run's inbox; raises `UsageError` where nothing can come of it."""
    from kernelagent.storage.inbox import is_going_on, send

    if command.act in {"hint", "ban"} and is_going_on(folder):
        unheard = why_unheard(_models_of(folder))
        if unheard is not None:
            raise UsageError(f"run {folder.id}: {unheard}")
    send(folder, command)


def _models_of(folder: RunFolder) -> tuple[str, ...]:
    """The models of a run by its beginning; () once it was resumed, which may have named others."""
    events = [logged.event for logged in read_events(folder.log)]
    if any(isinstance(event, RunResumed) for event in events):
        return ()
    begun = next((event for event in events if isinstance(event, RunStarted)), None)
    return tuple((begun.config if begun else {}).get("model") or ())


def command_of(act: str, words: Sequence[str]) -> Command:
    """A command as a person types it; raises `UsageError`."""
    text = " ".join(words).strip()
    match act:
        case "pause" | "resume" | "stop" | "emit" | "unpin":
            if text:
                raise UsageError(f"{act} takes no words, not {text!r}")
            return Command(act)
        case "hint" | "ban" | "unban":
            if not text:
                raise UsageError(f"say what: kernelagent steer RUN {act} TEXT")
            return Command(act, text=text)
        case "pin":
            if not text.isdecimal():
                raise UsageError(f"say which turn: kernelagent steer RUN pin 7, not {text!r}")
            return Command(act, turn=int(text))
        case "budget":
            pairs = dict(word.partition("=")[::2] for word in text.split())
            if not pairs or not all(pairs.values()):
                raise UsageError("say what to raise: kernelagent steer RUN budget turns=+5")
            return Command(act, limits=pairs)
        case _:
            raise UsageError(f"no act {act!r}; acts: {', '.join(get_args(Act))}")


def compare(
    problems: Sequence[ProblemSpec],
    strategies: str,
    seeds: int,
    flags: Mapping[str, Any],
    config_file: Path | None,
    svg_file: Path | None,
    *,
    simulated: int | None,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent compare`; true runs of the problems, or simulated ones with --simulated."""
    from kernelagent.report.terminal.browse_text import data_console
    from kernelagent.suite.compare.curve import plot, svg
    from kernelagent.suite.compare.families import FAMILIES, SimulatedRuns, problems_of
    from kernelagent.suite.compare.real import RealRuns
    from kernelagent.suite.compare.study import compare as study

    names = [name.strip() for name in strategies.split(",") if name.strip()]
    config = resolve(flags, config_file)
    every = range(seeds)
    if simulated is not None:
        if config.memory is not None:
            raise UsageError(
                "the simulated writer has nothing to remember: give problems with --memory, or run "
                "python -m benchmarks.memory for the simulated study"
            )
        imagined = [p for family in FAMILIES.values() for p in problems_of(family, simulated)]
        made_up = SimulatedRuns(imagined, config.budget)
        labels = [p.name for p in imagined]
        result = study(names, labels, made_up, seeds=every, simulated=True)
    elif problems:
        true = RealRuns.of(problems, config)
        result = study(true.pairs(names), list(true.problems), true, seeds=every)
    else:
        raise UsageError("say which problems to compare strategies on, or --simulated N")
    curves = result.curves("turns")
    if svg_file is not None:
        text = svg(curves, title="Best score against turns", warning=result.warning)
        svg_file.write_text(text, encoding="utf-8")
    if as_json:
        print_json(result.view())
        return ExitStatus.OK
    console = data_console()
    console.print(plot(curves, warning=result.warning))
    for row in result.rows("turns"):
        low, high = row.worth.low, row.worth.high
        console.print(
            f"{row.strategy}: {row.worth.value:.3f} [{low:.3f}, {high:.3f}] best score, geometric "
            f"mean; {row.correct:.0%} with an accepted kernel; {row.turns:.1f} turns, "
            f"{row.tokens:.0f} tokens a run; {row.duplicates} evaluated twice"
        )
    if svg_file is not None:
        sys.stdout.write(f"written: {svg_file}\n")
    return ExitStatus.OK


def _folder(given: str | None) -> Path:
    return Path(resolve({"runs": given}).runs)


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to agree; say --yes to delete without asking")
    sys.stderr.write(f"delete these {count} runs? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
