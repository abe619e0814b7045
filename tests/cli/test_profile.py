"""`profile` where the device's kernels cannot be traced."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kernelagent.cli.commands.profile import of_reference
from kernelagent.domain.errors import EnvironmentFault, ExitStatus, NoTrace


class Judge:
    """A judge on a machine where asking for the reference's profile raises."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def profile_reference(self) -> Any:
        raise self._fault


def test_a_candidate_is_profiled_where_the_reference_cannot_be_traced() -> None:
    judge = cast("Any", Judge(NoTrace("no kernel was seen")))
    assert of_reference(judge, needed=False) == ((), "no kernel was seen")


def test_without_a_candidate_there_is_nothing_left_to_show() -> None:
    with pytest.raises(NoTrace) as fault:
        of_reference(cast("Any", Judge(NoTrace("no kernel was seen"))), needed=True)
    assert fault.value.exit_status is ExitStatus.ENVIRONMENT


def test_any_other_fault_of_the_machine_is_not_passed_over() -> None:
    with pytest.raises(EnvironmentFault, match="gone"):
        of_reference(cast("Any", Judge(EnvironmentFault("the judge is gone"))), needed=False)
