"""What is typed reaches the configuration; an option is declared once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from kernelagent.cli.main import app
from kernelagent.cli.options import NAMES, RUN, Options, takes
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.options import OptionField, options_of
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.report.reproduce import recheck_command

ONLY_IN_A_FILE = {"learn", "reward", "vllm"}
COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]


def flags_of(command: str) -> set[str]:
    return {name for parameter in COMMANDS[command].params for name in parameter.opts}


def test_every_field_of_the_configuration_is_an_option_or_stands_in_a_file_only() -> None:
    assert RUN.keys() == {field.name for field in fields(RunConfig)} - ONLY_IN_A_FILE


def test_optimize_takes_every_declared_option() -> None:
    assert flags_of("optimize") >= {field.flag for field in (*RUN.values(), *NAMES.values())}


@pytest.mark.parametrize("command", ["evaluate", "mcp", "compare", "bench", "prompt", "scan"])
def test_an_option_has_the_same_kind_and_the_same_group_in_every_command(command: str) -> None:
    optimize = {parameter.name: parameter for parameter in COMMANDS["optimize"].params}
    shared = [p for p in COMMANDS[command].params if p.name in RUN and p.opts[0][:2] == "--"]
    assert shared
    for parameter in shared:
        assert parameter.rich_help_panel == optimize[parameter.name].rich_help_panel
        assert parameter.multiple == optimize[parameter.name].multiple


def test_what_is_typed_arrives_as_options_and_the_commands_own_as_parameters() -> None:
    program, received = typer.Typer(), []

    @program.command()
    @takes("turns", "set", "force", "mode", "module")
    def command(
        problem: Annotated[str, typer.Argument()], quiet: bool = False, *, options: Options
    ) -> None:
        received.append((problem, quiet, options))

    words = ["f.py", "--quiet", "--turns", "3", "--set", "note=a=b", "--train", "--module", "Norm"]
    assert CliRunner().invoke(program, words).exit_code == 0
    flags = {"turns": 3, "set": {"note": "a=b"}, "force": None, "mode": "train"}
    names = {"module": "Norm", "inputs": None, "init": None, "check": None}
    assert received == [("f.py", True, Options(flags, names))]
    assert CliRunner().invoke(program, ["f.py", "--turns", "0"]).exit_code == 2


def test_a_switch_that_is_off_leaves_the_files_word() -> None:
    assert Options.typed({"force": False, "yes": True}).flags == {"force": None, "yes": True}


def test_a_pair_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(UsageError, match="write key=value"):
        Options.typed({"set": ["window"]})


def test_the_values_of_a_literal_are_those_of_its_option() -> None:
    assert RUN["runtime"].option.values == ("inline", "package")
    assert RUN["sandbox"].option.values == ("auto", "require", "off")


def test_a_field_without_an_option_is_none() -> None:
    assert "learn" not in options_of(RunConfig)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (RUN["device"], "auto", []),
        (RUN["device"], "virtual", ["--device", "virtual"]),
        (RUN["dynamic"], ("0", "x:1"), ["--dynamic", "0", "--dynamic", "x:1"]),
        (RUN["set"], {"window": "4"}, ["--set", "window=4"]),
        (RUN["force"], True, ["--force"]),
        (RUN["rtol"], None, []),
        (NAMES["module"], "Norm", ["--module", "Norm"]),
    ],
)
def test_a_value_is_written_as_it_would_be_typed(
    field: OptionField, value: Any, words: list[str]
) -> None:
    assert field.typed(value) == words


def test_the_command_of_a_certificate_has_all_that_the_verdict_depends_on(tmp_path: Any) -> None:
    config = RunConfig(device="virtual", mode="train", dynamic=("0",), rtol=0.01, turns=3)
    spec = ProblemSpec(path="norm.py", module="Norm")
    assert recheck_command(spec, config, tmp_path / "out.py") == (
        f"kernelagent evaluate norm.py {tmp_path}/out.py --module Norm --device virtual "
        f"--mode train --rtol 0.01 --dynamic 0"
    )


def test_the_command_for_a_part_has_the_limit_that_the_run_had() -> None:
    spec = ProblemSpec(bundle="b/norm", module="norm", submodule="blocks.0.norm")
    config = RunConfig(device="virtual", judging_seconds=300)
    assert recheck_command(spec, config, Path("out.py")) == (
        "kernelagent evaluate b/norm out.py --module norm --device virtual --judging-seconds 300"
    )
