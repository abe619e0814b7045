"""What can be found wrong before a run is begun: in milliseconds, without torch and without the judge.

`configuration` reads the options, `problem_file` looks at the user's file without executing it,
`endpoint` at keys and addresses. What only running the user's code can show is left to the judge.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.problem import NamesInFile, ProblemSpec
from kernelagent.loop.preflight.configuration import check_configuration
from kernelagent.loop.preflight.endpoint import check_endpoint, check_keys
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.prompts import prompts_version


def check_before_start(
    problem: ProblemSpec, config: RunConfig, ready: Container[str] = ()
) -> NamesInFile | None:
    """Everything but the network, and what the file names; raises `UsageError`, `ProblemError` or `ModelError`.

    `ready`: models that need no key, because they are made already.
    """
    check_configuration(problem, config)
    # Reads the templates, where they are the user's own.
    prompts_version(config.prompts)
    names = check_problem(problem)
    check_keys(replace(config, model=tuple(n for n in config.model if n not in ready)))
    return names


def check_reachable(config: RunConfig, ready: Container[str] = ()) -> None:
    """Whether the endpoint answers and takes the key; nothing of the user's is sent.

    `ready`: models that are not checked, because they already exist. Raises `ModelError`.
    """
    check_endpoint(config, ready)
