"""The options of a run, read for what does not fit together, before anything is started."""

from __future__ import annotations

from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.problem import ProblemSpec
from kernelagent.dropin.runtime_package import require_package
from kernelagent.loop.run_setup import default_strategy, judge_settings, out_path
from kernelagent.storage.output_file import check_writable, require_folder
from kernelagent.strategies import load_strategy
from kernelagent.tools.virtual.cost.ceilings import ceilings_for


def check_configuration(problem: ProblemSpec, config: RunConfig) -> None:
    """Raises `UsageError` for a value, or for two values together, that no run can have."""
    settings = judge_settings(problem, config)
    if config.device == "virtual" or config.target != type(config)().target:
        ceilings_for(settings.target)
    strategy = config.strategy or default_strategy(config.model)
    load_strategy(strategy, config.model, config.seed, config.set)
    if config.runtime == "package":
        require_package()
    check_writable(out_path(problem, config), force=config.force)
    require_folder(Path(config.runs), "--runs")
