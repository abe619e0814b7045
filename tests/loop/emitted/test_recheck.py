"""What a certificate says, how it is read back, and what a second verdict makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernelagent.cli.main import main
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.certificate import Asked, Certified, certificate_in
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.evaluation import (
    Estimate,
    Evaluation,
    Hashes,
    Interval,
    Reason,
    Timing,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.dropin.emit import emit_module
from kernelagent.loop.emitted.recheck import (
    STATUS,
    as_text,
    changes,
    compared,
    judged_part,
    recheck,
    settings_for,
)
from kernelagent.loop.run_setup import asked_of
from kernelagent.report.reproduce import recheck_command
from kernelagent.tools.judge.problem.bundle import load_bundle
from tests.dropin.emitted import CERTIFICATE, CUDA, VIRTUAL, facts_of, measured, text_for

ASKED = Asked(dynamic=("0",), rtol=0.01, min_speedup=1.1, module="Block")


def record(tmp_path: Path, evaluation: Evaluation | None = None) -> Certified:
    """Through the emitted text, as a user has it."""
    from tests.dropin.emitted import CANDIDATE, Block

    text = emit_module(
        Candidate(CANDIDATE),
        facts_of(Block()),
        evaluation or measured(),
        replace(CERTIFICATE, asked=ASKED),
    )
    path = tmp_path / "emitted.py"
    path.write_text(text, encoding="utf-8")
    return certificate_in(path)


def timed(low: float, value: float, high: float, *, faster: bool) -> Evaluation:
    timing = Timing(10.0, 10.0 * value, Interval(value, low, high))
    return replace(measured(), timing=timing, faster=faster)


def test_a_certificate_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    result = record(tmp_path)
    assert (result.run, result.device, result.faster) == (CERTIFICATE.run, CUDA, True)
    assert result.speedup_eager == Interval(1.5, 1.45, 1.55)
    assert result.asked == ASKED


def test_an_emitted_file_is_read_without_being_imported(tmp_path: Path) -> None:
    path = tmp_path / "emitted.py"
    path.write_text("raise SystemExit(9)\n" + text_for(), encoding="utf-8")
    assert certificate_in(path).device == VIRTUAL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "carries no CERTIFICATE"),
        ("CERTIFICATE = {'run': 1}\n", "not understood"),
        ("CERTIFICATE = print()\n", "not understood"),
        ("def (\n", "no Python file"),
    ],
)
def test_a_file_without_a_certificate_is_wrong_usage(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        certificate_in(path)


def test_a_submodules_file_is_rechecked_with_the_names_its_model_was_given_by() -> None:
    model = ProblemSpec(path="model.py", module="Around", inputs="examples", init="sizes")
    part = ProblemSpec(bundle="b", module="part", submodule="part", whole=model)
    asked = asked_of(part, RunConfig())
    assert (asked.module, asked.inputs, asked.init) == ("Around", "examples", "sizes")
    command = recheck_command(part, RunConfig(), Path("model_part_optimized.py"))
    assert command == "kernelagent recheck model_part_optimized.py model.py"


@pytest.mark.long
def test_a_submodules_file_is_rechecked_against_against_that_part_of_the_model(
    tmp_path: Path,
) -> None:
    bundle = ProblemSpec(bundle="b", module="blocks_0", submodule="blocks.0")
    assert asked_of(bundle, RunConfig()).submodule == "blocks.0"
    assert asked_of(bundle, RunConfig()).init is None
    example = Path(__file__).resolve().parents[3] / "examples/models/decoder.py"
    whole = JudgeSettings(ProblemSpec(path=str(example)), device="virtual")
    with judged_part(whole, "blocks.0.norm") as settings:
        assert settings.problem.submodule == "blocks.0.norm"
        assert load_bundle(Path(str(settings.problem.bundle))).entry_point == "RMSNorm"
    with judged_part(whole, None) as settings:
        assert settings == whole


def test_the_judge_is_told_what_it_was_told_then(tmp_path: Path) -> None:
    settings = settings_for(record(tmp_path), ProblemSpec(path="toy.py"), {"target": None})
    assert settings.problem == ProblemSpec(path="toy.py", module="Block")
    assert (settings.device, settings.dynamic, settings.rtol) == ("cuda", ("0",), 0.01)
    assert settings.min_speedup == 1.1
    other = settings_for(record(tmp_path), ProblemSpec(bundle="b"), {"device": "virtual"})
    assert (other.problem, other.device) == (ProblemSpec(bundle="b"), "virtual")


@pytest.mark.parametrize(
    ("now", "verdict", "said", "status"),
    [
        (timed(1.4, 1.5, 1.6, faster=True), "holds", "still faster: 1.5x", ExitStatus.OK),
        (timed(1.1, 1.2, 1.3, faster=True), "holds", "by less than certified", ExitStatus.OK),
        (timed(0.9, 1.0, 1.1, faster=False), "gone", "not faster", ExitStatus.NOT_FOUND),
        (
            Evaluation("rejected", CUDA, reason=Reason("wrong_output", "it is wrong")),
            "broken",
            "wrong_output: it is wrong",
            ExitStatus.NOT_FOUND,
        ),
        (
            Evaluation("error", CUDA, reason=Reason("unverifiable", "the device is busy")),
            "cannot_judge",
            "busy",
            ExitStatus.ENVIRONMENT,
        ),
        (Evaluation("accepted", VIRTUAL), "cannot_judge", "no", ExitStatus.ENVIRONMENT),
    ],
)
def test_a_measured_gain_holds_where_it_is_measured_again(
    tmp_path: Path, now: Evaluation, verdict: str, said: str, status: ExitStatus
) -> None:
    result, why = compared(record(tmp_path), now)
    assert result == verdict
    assert said in why
    assert STATUS[result] == status


@pytest.mark.parametrize(("ratio", "verdict"), [(1.5, "holds"), (0.9, "holds"), (0.7, "gone")])
def test_where_nothing_was_timed_only_a_clearly_worse_estimate_counts(
    tmp_path: Path, ratio: float, verdict: str
) -> None:
    then = Evaluation("accepted", VIRTUAL, envelope=measured().envelope)
    estimate = Estimate(10.0, 10.0 * ratio, "dram", ratio, "x")
    now = Evaluation("accepted", VIRTUAL, estimate=estimate)
    assert compared(record(tmp_path, then), now)[0] == verdict


def test_what_changed_since_is_listed(tmp_path: Path) -> None:
    then = replace(measured(), hashes=Hashes("a" * 64, "b" * 64, "c" * 64))
    newer = replace(CUDA, torch="2.14.0", driver="590.2")
    now = replace(then, device=newer, hashes=Hashes("d" * 64, "e" * 64, "c" * 64))
    rows = [(c.what, c.certified, c.now) for c in changes(record(tmp_path, then), now)]
    assert rows == [
        ("torch", "2.13.0", "2.14.0"),
        ("driver", "580.1", "590.2"),
        ("problem", "a" * 12, "d" * 12),
    ]


TOY = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(4, 64)]
"""
KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def twice_plus(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2 + 1, at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        twice_plus[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


@pytest.mark.long
def test_a_file_is_judged_again_and_a_broken_one_is_found(tmp_path: Path) -> None:
    from kernelagent.domain.configuration.judge_settings import JudgeSettings
    from kernelagent.tools.judge_client import JudgeProcess

    problem = ProblemSpec(path=str(tmp_path / "toy.py"))
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    with JudgeProcess(JudgeSettings(problem, device="virtual")) as judge:
        evaluation = judge.evaluate_final(Candidate(KERNEL), lambda _: None)
        text = emit_module(Candidate(KERNEL), judge.facts, evaluation, CERTIFICATE)
    path = tmp_path / "toy_optimized.py"
    path.write_text(text, encoding="utf-8")
    result = recheck(path, problem, {}, lambda _: None)
    assert (result.verdict, result.changes) == ("holds", ())
    assert "not timed" in as_text(result)
    # What the drop-in does besides computing is ours, and no remark on the kernel.
    same = {"unreadable", "overrides", "keeps_state", "asks_where_it_runs"}
    assert not same & {one.code for one in result.evaluation.disclosures}
    path.write_text(text.replace("* 2 + 1, at", "* 2 + 2, at"), encoding="utf-8")
    assert recheck(path, problem, {}, lambda _: None).verdict == "broken"


def test_the_command_in_a_files_header_needs_no_names_that_its_certificate_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path)
    model = tmp_path / "model.py"
    model.write_text("from torch import nn\n\n\nclass Other(nn.Module):\n    pass\n", "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["recheck", str(tmp_path / "emitted.py"), str(model)])
    assert ended.value.code == ExitStatus.USAGE
    assert "no nn.Module named 'Block'" in capsys.readouterr().err
