"""The form's fields read what was typed as the command line would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.options import options_of
from kernelagent.domain.errors import UsageError
from kernelagent.tui.option_input import FORM, value_of


def typed(name: str, text: str) -> Any:
    return value_of(options_of(RunConfig)[name], text)


def test_what_is_read_fits_the_configuration() -> None:
    read = {"model": typed("model", "compiler, openai/gpt-5"), "turns": typed("turns", " 7 ")}
    assert read.keys() == set(FORM)
    config = replace(RunConfig(), **read)
    assert (config.model, config.budget.turns) == (("compiler", "openai/gpt-5"), 7)


@pytest.mark.parametrize("text", ["", "0", "many", "-1"])
def test_turns_that_are_no_number_from_one_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="turns: a number from 1"):
        typed("turns", text)


def test_no_model_at_all_is_refused_with_what_may_be_typed() -> None:
    with pytest.raises(UsageError, match="model: compiler, replay:PATH"):
        typed("model", " , ")
