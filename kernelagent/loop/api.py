"""The library call: a live module in, a drop-in module out. It never judges; the judge's process does."""

from __future__ import annotations

import difflib
import importlib.util
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.configuration.options import options_of
from kernelagent.domain.errors import EnvironmentFault, UsageError
from kernelagent.domain.evaluation import Evaluation, Interval
from kernelagent.domain.events import Logged
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.whole_model import WholeModel
from kernelagent.loop.arguments import candidate_in, problem_spec
from kernelagent.loop.emitted.emitted_candidate import read_without_drop_in
from kernelagent.loop.queries.exclusive_gpu import alone_on
from kernelagent.loop.run import RunResult
from kernelagent.loop.run import optimize as run_optimize
from kernelagent.loop.run_setup import judge_settings
from kernelagent.loop.submodule import bundle_folder, optimize_part
from kernelagent.prompts.last_screen import not_all_tried, where_verified, whole_model_lines
from kernelagent.prompts.wording import line_for, number
from kernelagent.tools.judge_client import JudgeProcess

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, repr=False)
class Result:
    """What `optimize` returns; the module that was given stays as it is."""

    module: torch.nn.Module
    """The drop-in (of the part, with `submodule`); the original object itself when nothing better was found."""
    faster: bool | None
    """True or False where it was measured, None where nothing was timed."""
    speedup: Interval | None
    """Against the eager module, measured; None where nothing was timed (never an estimate)."""
    evaluation: Evaluation | None
    """The winner's verdict with all its evidence."""
    path: Path | None
    """The emitted file."""
    report: Path
    """`report.md` of the run."""
    run: Path
    """Its folder."""
    why: str = ""
    """Why the run ended, and why nothing was written where nothing was."""
    whole: WholeModel | None = None
    """With `submodule`: the whole model with the drop-in in it."""

    def __repr__(self) -> str:
        """What was written and its number, in a few lines."""
        lines = [f"nothing better: {self.why}"]
        if self.path is not None and self.evaluation is not None:
            lines = [f"{self.path}: {number(self.evaluation)}"]
            if where := where_verified(self.evaluation.envelope):
                lines.append(f"where: {where}{not_all_tried(self.evaluation)}")
        if self.whole is not None:
            lines.append(f"whole model: {whole_model_lines(self.whole)[0]}")
        return "\n".join((*lines, f"report: {self.report}"))


def optimize(
    module: torch.nn.Module, example_inputs: Any, *, submodule: str | None = None, **options: Any
) -> Result:
    """Optimize a live, trained module on inputs like `example_inputs`.

    `example_inputs`: a tensor, a tuple of positional arguments, `{"args": ..., "kwargs": ...}`, or
    a dict of several named input sets. `submodule`: the path of a part that is optimized instead, on what it gets
    when the module is called with them; the whole must stay right with it. `options` are the flags of
    `kernelagent optimize` with underscores (`turns=5`, `device="virtual"`, `train=True`, `model="openai/gpt-5"`).
    What goes on is logged by the logger `kernelagent` at level INFO. Raises `KernelAgentError`.
    """
    from kernelagent.tools.judge.problem.bundle import save_bundle

    config = resolve(_as_flags(options))
    stem = type(module).__name__
    bundle = bundle_folder(Path(config.runs), stem)
    save_bundle(bundle, module, example_inputs)
    problem = ProblemSpec(bundle=str(bundle), module=stem)
    if submodule is None:
        return _result(module, run_optimize(problem, config, subscribers=(_tell,)))
    part, result = optimize_part(problem, config, (submodule,), subscribers=(_tell,))
    there = None if part.emitted is None else Path(part.emitted)
    made = replace(result, path=there, why=part.why)
    return replace(_result(module.get_submodule(submodule), made), whole=part.whole)


def _tell(logged: Logged) -> None:
    line = line_for(logged)
    if line is not None:
        logging.getLogger("kernelagent").info("%s", line)


def evaluate(problem: str | ProblemSpec, candidate: str | Path, **options: Any) -> Evaluation:
    """Judge one candidate (source text, or the path of a file) against a problem file or `pkg.mod:Name`."""
    names = {key: options.pop(key, None) for key in ("module", "inputs", "init", "check")}
    spec = problem if isinstance(problem, ProblemSpec) else problem_spec(problem, names)
    config = resolve(_as_flags(options))
    parsed = _candidate(candidate)
    opened = JudgeProcess(judge_settings(spec, config))
    with opened as judge, alone_on(judge.device, config.device):
        evaluation = judge.evaluate_final(parsed, lambda _: None)
    return read_without_drop_in(evaluation, parsed.source)


def _candidate(given: str | Path) -> Candidate:
    if isinstance(given, str) and "\n" in given:
        return Candidate(given)
    path = Path(given)
    if not path.is_file():
        raise UsageError(f"there is no candidate file {given}")
    parsed = candidate_in(path)
    if not isinstance(parsed, Candidate):
        raise UsageError(f"{given}: {parsed.why}")
    return parsed


def _as_flags(options: Mapping[str, Any]) -> dict[str, Any]:
    known = [field.name for field in fields(RunConfig)]
    flags = dict(options)
    for name, option in options_of(RunConfig).items():
        short = option.option.shorthand
        if short is not None and flags.pop(short[0], False):
            flags[name] = short[0]
    for name in flags:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            also = f" (possible options: {', '.join(near)})" if near else ""
            raise UsageError(
                f"there is no option {name!r}{also}; `kernelagent optimize --help` has all"
            )
    if isinstance(flags.get("model"), str):
        flags["model"] = (flags["model"],)
    if isinstance(flags.get("out"), Path):
        flags["out"] = str(flags["out"])
    return flags


def _result(module: torch.nn.Module, result: RunResult) -> Result:
    winner = result.winner
    outcome = result.path is not None and winner is not None
    timing = winner.timing if winner is not None else None
    return Result(
        module=_drop_in(result.path, module) if result.path is not None else module,
        faster=winner.faster if outcome and winner is not None else False,
        speedup=timing.speedup_eager if timing is not None else None,
        evaluation=winner,
        path=result.path,
        report=result.run / "report.md",
        run=result.run,
        why=result.why,
    )


def _drop_in(path: Path, module: torch.nn.Module) -> torch.nn.Module:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise EnvironmentFault(f"the emitted module {path} cannot be imported")
    emitted = importlib.util.module_from_spec(spec)
    sys.modules[name] = emitted
    spec.loader.exec_module(emitted)
    replaced: torch.nn.Module = emitted.optimized(module)
    return replaced
