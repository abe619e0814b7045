"""What a writer may ask of the judge beside its turns, asked of a real judge on `virtual`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.prompts.tools.tool_answers import answer_text, result_summary
from kernelagent.storage.cassette import recording
from kernelagent.tools.judge.judge import Judge
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Deadline
from kernelagent.tools.judge.workbench.answering import Workbench
from kernelagent.tools.sandbox.spawn import ForkServer

ROOT = Path(__file__).resolve().parents[4]
REPLIES = recording(str(ROOT / "tests" / "cassettes" / "layer_norm_gelu.jsonl"))
RIGHT = REPLIES[-1].text.partition("```python\n")[2].rpartition("```")[0]
LOOPS_BY_VALUES = f"""{RIGHT}

@triton.jit
def looping(x_ptr, out_ptr):
    total = 0.0
    for at in range(0, tl.load(x_ptr).to(tl.int32)):
        total += tl.load(x_ptr + at).to(tl.float32)
    tl.store(out_ptr, total)


class Alone(ModelNew):
    def forward(self, x):
        looping[(1,)](x, torch.empty(1, device=x.device))
        return super().forward(x)


ModelNew = Alone
"""


@pytest.fixture(scope="module")
def judge(fork_server: ForkServer) -> Iterator[Judge]:
    problem = ProblemSpec(path=str(ROOT / "examples" / "layer_norm_gelu.py"))
    judge = Judge(JudgeSettings(problem=problem, device="virtual"), fork_server)
    yield judge
    judge.close()


def asked(judge: Judge, tool: str, **arguments: object) -> tuple[ToolResult, str]:
    result = judge.call_tool(ToolCall.of(tool, **arguments), 60.0)
    assert result_summary(result)
    return result, answer_text(result, judge.device)


@pytest.mark.long
def test_probe_says_how_near_a_right_candidate_comes(judge: Judge) -> None:
    result, text = asked(judge, "probe", code=RIGHT)
    assert result.probed is not None
    (difference,) = result.probed.differences
    assert difference.within
    assert difference.ulps is not None
    assert difference.ulps < 50
    assert 0 < difference.rms_error < difference.rms_allowed
    assert "one comparison, on natural inputs; nothing was verified" in text
    assert "Launched: layer_norm_gelu." in text


@pytest.mark.long
def test_probe_says_where_a_wrong_candidate_differs_and_by_how_much(judge: Judge) -> None:
    wrong = RIGHT.replace("0.7071", "0.7", 1)
    assert wrong != RIGHT
    result, text = asked(judge, "probe", code=wrong)
    assert result.probed is not None
    assert result.probed.fault is not None
    assert result.probed.fault.code == "wrong_output"
    assert "furthest at [" in text
    assert ": too much." in text
    assert "allowed" in text


@pytest.mark.long
def test_probe_of_what_does_not_come_so_far_says_why(judge: Judge) -> None:
    _, broken = asked(judge, "probe", code="def (")
    assert "(syntax_error): line 1" in broken
    _, unwritten = asked(judge, "probe", code=RIGHT.replace("tl.store", "tl.stor"))
    assert "(compile_error)" in unwritten
    _, other = asked(judge, "probe", code=RIGHT, input_set="large")
    assert other == "Not answered: there is no input set 'large'; there is default."


@pytest.mark.long
def test_probe_leaves_the_judge_as_it_was(judge: Judge) -> None:
    before = dict(judge.context.oracle.weights)
    asked(judge, "probe", code=RIGHT)
    after = judge.context.oracle.weights
    assert all(before[name].equal(after[name]) for name in before)


def test_reference_tells_what_a_submodule_puts_out(judge: Judge) -> None:
    result, text = asked(judge, "reference", submodule="norm")
    assert result.reference is not None
    (output,) = result.reference.outputs
    assert output.shape == (2, 24, 512)
    assert output.mean == pytest.approx(0.0, abs=0.01)
    assert output.rms == pytest.approx(1.0, abs=0.1)
    assert text.startswith("Submodule `norm` on input set 'default': called once in one forward.")
    _, whole = asked(judge, "reference")
    assert "Its submodules: norm." in whole
    _, none = asked(judge, "reference", submodule="nrm")
    assert none == "Not answered: the module has no submodule 'nrm'; there is norm."


@pytest.mark.long
def test_machine_code_is_told_by_source_line(judge: Judge) -> None:
    store = next(n for n, text in enumerate(RIGHT.splitlines(), 1) if "tl.store(" in text)
    for form, word in (("sass", "STG"), ("ptx", "st.global")):
        result, text = asked(judge, "asm", code=RIGHT, line=store, form=form)
        assert result.assembly is not None
        assert result.assembly.total > 50
        assert dict(result.assembly.by_line)[store] > 0
        marked = [row for row in result.assembly.shown if row.startswith(">")]
        assert any(word in row for row in marked)
        assert f"Line {store}, marked with >:" in text


@pytest.mark.long
def test_machine_code_of_what_is_not_there_is_said_so(judge: Judge) -> None:
    assert asked(judge, "asm", code=RIGHT, kernel="other")[1] == (
        "No kernel `other` is launched; there is layer_norm_gelu."
    )
    assert "has no instruction of its own" in asked(judge, "asm", code=RIGHT, line=1)[1]
    assert "must be sass or ptx" in asked(judge, "asm", code=RIGHT, form="c")[1]
    assert "(compile_error)" in asked(judge, "asm", code=RIGHT.replace("tl.store", "tl.stor"))[1]


@pytest.mark.long
def test_configurations_of_one_source_are_ranked_by_estimate(judge: Judge) -> None:
    axes = {"num_warps": [1, 4], "num_stages": [2]}
    result, text = asked(judge, "sweep", code=RIGHT, axes=axes)
    assert result.swept is not None
    times = [row.us for row in result.swept.rows]
    assert len(times) == 2
    assert times == sorted(times, key=lambda us: us or 0.0)
    assert "estimate, not measured" in text
    best = result.swept.rows[0].values
    assert f"num_warps={best['num_warps']}" in result.swept.best
    assert "Hand in the one you choose to have it judged." in text
    assert asked(judge, "check", code=result.swept.best)[0].checked.fault is None  # type: ignore[union-attr]


def test_sweep_that_cannot_be_is_answered_in_words(judge: Judge) -> None:
    _, unknown = asked(judge, "sweep", code=RIGHT, axes={"ROWS_OF_A_TILE": [1]})
    assert "`ROWS_OF_A_TILE` is neither a constant of the file" in unknown
    _, many = asked(judge, "sweep", code=RIGHT, axes={"num_warps": list(range(1, 40))})
    assert "39 configurations; from 1 to 24" in many
    broken = RIGHT.replace("tl.store", "tl.stor")
    _, failed = asked(judge, "sweep", code=broken, axes={"num_warps": [4]})
    assert "num_warps=4: compile_error" in failed
    assert "Hand it in" not in failed


def test_sweep_ends_with_its_seconds_and_says_what_was_not_tried(judge: Judge) -> None:
    call = ToolCall.of("sweep", code=RIGHT, axes={"num_warps": [2, 4, 8]})
    result = judge.call_tool(call, 0.05)
    assert result.swept is not None
    assert result.swept.untried >= 1
    assert "not tried: the seconds" in answer_text(result, judge.device)


def test_benchmark_without_a_gpu_says_so(judge: Judge) -> None:
    _, text = asked(judge, "bench", code=RIGHT)
    assert text.startswith("Not answered: `bench` measures, and there is no GPU here")


@pytest.mark.parametrize(("left", "most"), [(300.0, 120.0), (80.0, 80.0)])
def test_one_call_may_take_longer_where_others_want_the_cores(
    judge: Judge, left: float, most: float
) -> None:
    class Started(Exception):
        pass

    def starts(source: str, *, deadline: Deadline | None) -> CandidateProcess:
        assert deadline is not None
        raise Started(deadline.seconds)

    bench = Workbench(judge.context, starts, left, busy=2.0)
    with pytest.raises(Started) as started:
        bench.answer(ToolCall.of("check", code=RIGHT))
    assert started.value.args == (most,)


def test_a_check_says_where_loaded_values_decide_what_it_counts(judge: Judge) -> None:
    result, text = asked(judge, "check", code=LOOPS_BY_VALUES)
    assert result.checked is not None
    assert result.checked.loops_by_values == ("looping",)
    assert "how many rounds a loop of `looping` has" in text
    _, plain = asked(judge, "check", code=RIGHT)
    assert "how many rounds" not in plain
    _, swept = asked(judge, "sweep", code=LOOPS_BY_VALUES, axes={"num_warps": [4]})
    assert "how many rounds a loop of `looping` has" in swept
