"""What is typed reaches the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from kernelagent.cli import agents as cli_agents
from kernelagent.cli import main as cli
from kernelagent.cli import suites as cli_suites
from kernelagent.cli.options import flags_of, names_of
from kernelagent.domain.config import RunConfig
from kernelagent.domain.errors import UsageError

ONLY_IN_A_FILE = {"learn", "reward", "vllm"}
OPTIONS = {field.name for field in fields(RunConfig)}


@pytest.mark.parametrize(
    "command", [cli.optimize, cli.evaluate, cli.compare, cli_agents.mcp, cli_suites.bench]
)
def test_every_parameter_that_names_an_option_of_a_run_is_taken(
    command: Callable[..., Any],
) -> None:
    parameters = dict.fromkeys(inspect.signature(command).parameters)
    named = {name.rstrip("_") for name in parameters} & OPTIONS
    assert named <= flags_of(parameters).keys()


def test_optimize_takes_every_option_that_is_not_only_for_a_file() -> None:
    parameters = dict.fromkeys(inspect.signature(cli.optimize).parameters)
    assert flags_of(parameters).keys() == OPTIONS - ONLY_IN_A_FILE


def test_a_switch_that_is_off_leaves_the_files_word() -> None:
    assert flags_of({"force": False, "yes": True}) == {"force": None, "yes": True}


def test_train_is_short_for_its_mode() -> None:
    assert flags_of({"mode": None, "train": True})["mode"] == "train"
    assert flags_of({"mode": None, "train": False})["mode"] is None


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert flags_of({"set_": ["window=4", "note=a=b"]})["set"] == {"window": "4", "note": "a=b"}
    with pytest.raises(UsageError, match="write key=value"):
        flags_of({"set_": ["window"]})


def test_how_to_find_the_problem_is_no_option_of_a_run() -> None:
    parameters = {"module": "Norm", "inputs": None, "device": "virtual"}
    assert names_of(parameters) == {"module": "Norm", "inputs": None, "init": None, "check": None}
