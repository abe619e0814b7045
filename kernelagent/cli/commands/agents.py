"""What `mcp`, `prompt` and `record` do once their flags are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelagent.cli.commands.optimize import new_or_resumed
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.history import History, Message
from kernelagent.domain.replies.tool_registry import offered_on
from kernelagent.domain.serialization import to_json
from kernelagent.loop.arguments import problem_spec
from kernelagent.models.kinds import MCP
from kernelagent.prompts import as_markdown, fit_prompt, tells_of_tools, tools_text
from kernelagent.storage.output_file import write_atomically
from kernelagent.storage.run_log import RunFolder


def mcp(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
    stop_asked: Callable[[], bool],
) -> ExitStatus:
    """`kernelagent mcp`; the exit status is the run's, as of `optimize`."""
    from rich.console import Console

    from kernelagent.cli.agent_run import AgentRun
    from kernelagent.cli.mcp_server import serve
    from kernelagent.cli.terminal.console import Progress

    flags = {**flags, "model": (MCP,)}
    spec, config, folder = new_or_resumed(problem, names, flags, config_file, resume)
    progress = Progress(Console(stderr=True))
    run = AgentRun(spec, config, folder=folder, subscribers=(progress,), stop_asked=stop_asked)
    try:
        serve(run)
        return run.stop()
    finally:
        progress.close()


def first_prompt(
    problem: str,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    max_tokens: int | None,
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent prompt PROBLEM`: the judge reads the problem, the strategy asks, nothing is sent."""
    from kernelagent.loop.run_setup import default_strategy, judge_settings
    from kernelagent.strategies import load_strategy
    from kernelagent.tools.judge_client import JudgeProcess

    config = resolve(flags, config_file)
    if not Path(problem).is_file() and (Path(config.runs) / problem).is_dir():
        raise UsageError(f"{problem} is a run; say which turn: kernelagent prompt {problem} 0")
    spec = problem_spec(problem, names)
    chosen = config.strategy or default_strategy(config.model)
    strategy = load_strategy(chosen, config.model, config.seed, config.set)
    requests = strategy.next_turns(History())
    if not requests:
        raise UsageError(f"the strategy {chosen} asks for nothing at the start")
    with JudgeProcess(judge_settings(spec, config)) as judge:
        fitted = fit_prompt(
            judge.facts,
            judge.device,
            History(),
            requests[0],
            max_tokens=max_tokens,
            style=config.prompts,
            tools=_tools_sentence(config, requests[0].model, judge.device.kind),
            candidates=config.candidates,
        )
    _print(fitted.messages, as_json=as_json)
    left_out = f"; left out: {', '.join(fitted.cut)}" if fitted.cut else ""
    sys.stderr.write(f"about {fitted.tokens} tokens{left_out}\n")
    return ExitStatus.OK


def _tools_sentence(config: RunConfig, model: str, device: str) -> str:
    """What a writer is told that can call tools in blocks alone; others have them as functions, or not at all."""
    in_blocks = model.startswith("files:") and config.tool_calls and tells_of_tools(config.prompts)
    if not in_blocks:
        return ""
    return tools_text(offered_on(device), config.tool_calls, config.tool_seconds)


def prompt_sent(run: str, turn: int, runs_folder: str | None, *, as_json: bool) -> ExitStatus:
    """`kernelagent prompt RUN TURN`; raises `UsageError` when the run kept no such prompt."""
    from kernelagent.storage.cassette import prompt_of

    folder = RunFolder.open(run, Path(resolve({"runs": runs_folder}).runs))
    messages = prompt_of(folder, turn)
    if messages is None:
        kept = len(list((folder.path / "prompts").glob("*.json")))
        raise UsageError(
            f"run {folder.id} has no prompt of turn {turn}, counted from 0; it keeps {kept} prompts"
        )
    _print(messages, as_json=as_json)
    return ExitStatus.OK


def record(run: str, cassette: Path, runs_folder: str | None, *, force: bool) -> ExitStatus:
    """`kernelagent record RUN FILE`; raises `UsageError` when there is nothing to record."""
    from kernelagent.storage.cassette import cassette_text, of_run

    folder = RunFolder.open(run, Path(resolve({"runs": runs_folder}).runs))
    replies = of_run(folder)
    if not replies:
        raise UsageError(f"run {folder.id} holds no reply")
    if cassette.exists() and not force:
        raise UsageError(f"{cassette} exists; --force overwrites it")
    write_atomically(cassette, cassette_text(replies), force=True)
    sys.stdout.write(f"{len(replies)} replies written: {cassette}\n")
    return ExitStatus.OK


def _print(messages: Sequence[Message], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(to_json(list(messages)) + b"\n")
    else:
        sys.stdout.write(as_markdown(messages))
    sys.stdout.flush()
