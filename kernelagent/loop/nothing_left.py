"""Whether a run has anything left to do: one that ended with its limits spent goes on only with higher ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelagent.domain.configuration.budget import RUN_LIMITS
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.loop.close_enough import close_enough
from kernelagent.loop.submodule import PartResult, PartsResult, with_its_number
from kernelagent.storage.run_log import RunFolder, read_events, resume_with
from kernelagent.storage.run_state import RunState, fold, to_continue

_AT_THEIR_END = frozenset({"better", "not_faster", "none"})


def nothing_left(problem: ProblemSpec, config: RunConfig, state: RunState) -> str | None:
    """Why going on with a run under `config` would only repeat its end; None where there is something to do."""
    if state.finished is None or state.finished.outcome not in _AT_THEIR_END:
        return None
    if to_continue(state)[1] or _other_than_limits(config, state) or not _settled(problem, state):
        return None
    spent = _spent(config, state)
    if spent:
        limits = " and ".join(
            f"{most:g} {RUN_LIMITS[option].unit}" for option, most in spent.items()
        )
        return f"the budget of {limits} is spent"
    if state.history.exhausted >= set(config.model):
        return f"{', '.join(sorted(state.history.exhausted))} has nothing left to try"
    return close_enough(state.history.turns, config.stop_at_headroom)


def go_on_with(folder: RunFolder, problem: ProblemSpec, config: RunConfig) -> str:
    """The command that goes on with a run, with what it lacks to do so."""
    state = fold(read_events(folder.log))
    if nothing_left(problem, config, state) is None:
        return resume_with(folder.path)
    spent = _spent(config, state)
    more = [f"--{option.replace('_', '-')} {2 * most:g}" for option, most in spent.items()]
    if close_enough(state.history.turns, config.stop_at_headroom):
        more.append("--stop-at-headroom 0")
    if not more or state.history.exhausted >= set(config.model):
        more.append("--model NAME")
    return " ".join([resume_with(folder.path), *more])


def ended_part(problem: ProblemSpec, folder: RunFolder, state: RunState) -> PartsResult:
    """What a run over a part of a model came to, from its log alone."""
    if problem.submodule is None or problem.whole is None or state.finished is None:
        raise UsageError(f"run {folder.id} is not over a part of a model, or has not ended")
    part = PartResult(
        problem.submodule, str(folder.path), state.finished.why, state.emitted, state.whole
    )
    return PartsResult(problem.whole.label, (with_its_number(part, state.winner),))


def _settled(problem: ProblemSpec, state: RunState) -> bool:
    """Whether what the run wrote is there, and was tried in the whole model where it is a part's."""
    if state.emitted is None:
        return True
    return Path(state.emitted).is_file() and (problem.whole is None or state.whole is not None)


def _other_than_limits(config: RunConfig, state: RunState) -> bool:
    """Whether anything else is asked for than when the run began, such as to write the file elsewhere."""
    began = from_data(state.config, RunConfig)
    limits = {option: getattr(config, option) for option in RUN_LIMITS}
    return replace(began, **limits) != config


def _spent(config: RunConfig, state: RunState) -> dict[str, float]:
    """The limits that are reached, by option."""
    budget = state.steering.raised(config.budget)
    limits = {option: getattr(budget, limit.name) for option, limit in RUN_LIMITS.items()}
    return {
        option: most
        for option, most in limits.items()
        if most is not None and RUN_LIMITS[option].used(state.spent, state.elapsed_s) >= most
    }
