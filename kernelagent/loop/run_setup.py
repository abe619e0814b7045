"""What a run takes from its problem and its configuration: the judge's share, names, versions, paths."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

import kernelagent
from kernelagent.domain.certificate import Asked
from kernelagent.domain.configuration.config import RunConfig, why_unfit
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.models.kinds import needs_no_endpoint
from kernelagent.prompts import prompts_version
from kernelagent.storage.output_file import default_name


def judge_settings(problem: ProblemSpec, config: RunConfig) -> JudgeSettings:
    """The judge's share of the configuration; raises `UsageError`."""
    names = [field.name for field in fields(JudgeSettings) if field.name != "problem"]
    values = {name: getattr(config, name) for name in names}
    values["problem"] = to_data(problem)
    try:
        return from_data(values, JudgeSettings)
    except msgspec.ValidationError as error:
        raise why_unfit(error) from error


def default_strategy(models: Sequence[str]) -> str:
    """`auto` with an LLM; the built-in policy and recordings know their own next step."""
    return "sequential" if all(map(needs_no_endpoint, models)) else "auto"


def versions() -> dict[str, str]:
    """Versions that matter for repeating a run; torch and triton from their metadata, unimported."""
    result = {
        "kernelagent": kernelagent.__version__,
        "prompts": prompts_version(),
        "python": platform.python_version(),
    }
    for name in ("torch", "triton", "litellm"):
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            continue
    return result


def asked_of(problem: ProblemSpec, config: RunConfig) -> Asked:
    """What the certificate keeps of how the run was asked for, so that `recheck` asks the same.

    Names are the whole model's, where the problem is a part of one: it is captured from there again.
    """
    named = problem.whole or problem
    return Asked(
        dynamic=tuple(config.dynamic),
        rtol=config.rtol,
        atol=config.atol,
        min_speedup=config.min_speedup,
        module=named.module if named.bundle is None else None,
        inputs=named.inputs,
        init=named.init,
        check=named.check,
        submodule=problem.submodule,
    )


def stem_of(problem: ProblemSpec) -> str:
    """The name that run and result carry."""
    if problem.path is not None:
        return Path(problem.path).stem
    return str(problem.module or problem.import_name or "module").rsplit(".", 1)[-1]


def out_path(problem: ProblemSpec, config: RunConfig) -> Path:
    """Where the module is written."""
    if config.out is not None:
        return Path(config.out)
    if problem.path is not None:
        return Path(default_name(Path(problem.path)))
    return Path(f"{stem_of(problem)}_optimized.py")
