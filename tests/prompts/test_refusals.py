"""What a writer reads of a limit: what it is for the file, and nothing that only the user can change."""

from __future__ import annotations

from kernelagent.domain.evaluation import Reason
from kernelagent.domain.replies.tool_calls import Checked
from kernelagent.prompts.refusals import for_the_writer, of_a_tool
from kernelagent.prompts.tools.checked import checked_text
from kernelagent.tools.judge.verify.process.deaths import out_of_time
from tests.prompts.test_costs import DEVICE

LATE = out_of_time("in its forward", 13.0998).reason


def test_flags_are_the_users_and_no_writer_reads_of_them() -> None:
    assert "--judging-seconds" in LATE.message
    text = for_the_writer(LATE)
    assert "--" not in text
    assert "longer than the 13.0998 s allowed" in text


def test_where_the_time_for_tools_ends_a_check_nothing_is_said_against_the_file() -> None:
    assert of_a_tool(LATE) == (
        "no time",
        "the time for this call (13.1 s) was not enough; nothing was found wrong",
    )
    assert checked_text(Checked(fault=LATE), DEVICE).startswith("Stopped (no time): the time")


def test_where_the_interpreter_sees_that_it_will_not_end_no_seconds_are_made_up() -> None:
    beyond = Reason("unverifiable", "beyond the time budget: `k` needs 90 s", {"means": "time"})
    assert of_a_tool(beyond)[1].startswith("the time for this call was not enough")


def test_other_faults_are_told_as_they_are() -> None:
    fault = Reason("compile_error", "`k` does not compile at line 3: --fast is no option")
    assert of_a_tool(fault) == ("compile_error", fault.message)
