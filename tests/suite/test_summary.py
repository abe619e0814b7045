from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.cli.schemas import schemas
from kernelagent.domain.evaluation import DeviceFacts, Disclosure, Evaluation, Interval, Timing
from kernelagent.domain.events import (
    Evaluated,
    Logged,
    RunFinished,
    RunStarted,
    TurnStarted,
    to_line,
)
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_json
from kernelagent.report.html import as_html
from kernelagent.report.markdown import as_markdown
from kernelagent.suite.curves import curves_of
from kernelagent.suite.pairs import compare
from kernelagent.suite.report import document, write_reports
from kernelagent.suite.results import ProblemResult, Score, results_of
from kernelagent.suite.run_suite import conduct
from kernelagent.suite.statistics import group, resampled
from kernelagent.suite.summary import report_of
from tests.suite.recorded_suite import Silent, begin, recorded

CUDA = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.13.0", "3.9.0")


def row(key, last, best, *, degenerate=False):
    return ProblemResult(
        key, f"{key}.py", None, "ended", 0, "done", None, degenerate, 2, last, best, 0, 0.0, 0, 1, 1
    )


def score(eager, compiled=None):
    return Score(0, correct=eager is not None, eager=eager, compiled=compiled)


ROWS = [
    row("a", score(None), score(2.0, 1.0)),
    row("b", score(1.0, 0.5), score(1.2, 0.6)),
    row("c", score(0.5), score(0.5), degenerate=True),
    row("d", score(None), score(None)),
]


def test_fast_p_counts_all_problems_and_its_bound_is_included():
    result = group(ROWS).best_of_history.eager
    assert {p: s.value for p, s in result.fast.items()} == {
        "0": 0.75,
        "1": 0.5,
        "1.2": 0.5,
        "1.5": 0.25,
        "2": 0.25,
    }
    assert group(ROWS).last_turn.eager.fast["1"].value == 0.25


def test_the_geometric_means_include_losses_and_say_what_a_failure_counts():
    result = group(ROWS).best_of_history.eager
    assert result.geometric_mean_of_correct.value == pytest.approx((2.0 * 1.2 * 0.5) ** (1 / 3))
    assert result.geometric_mean_of_all.value == pytest.approx((2.0 * 1.2 * 0.5 * 1.0) ** (1 / 4))


def test_torch_compile_has_its_own_count_over_what_was_measured():
    result = group(ROWS).best_of_history.compile
    assert result.measured == 2
    assert result.fast["1"].value == 0.25


def test_nothing_timed_gives_no_speed_at_all():
    estimated = [row("a", Score(0, True, estimate=3.0), Score(0, True, estimate=3.0))]
    result = group(estimated).best_of_history
    assert (result.eager, result.compile, result.correct.value) == (None, None, 1.0)
    assert result.estimate.against == "estimate"


@pytest.mark.long
def test_an_interval_is_over_problems_and_the_same_every_time():
    many = [row(str(i), score(1.5 if i % 4 else None), score(1.5)) for i in range(100)]
    item = group(many).last_turn.correct
    assert item == group(many).last_turn.correct
    half = 1.96 * math.sqrt(0.75 * 0.25 / 100)
    assert item.low == pytest.approx(0.75 - half, abs=0.02)
    assert item.high == pytest.approx(0.75 + half, abs=0.02)
    certain = group(many).best_of_history.correct
    assert (certain.low, certain.high) == (1.0, 1.0)


def timed(speedup: float, modes: dict[str, float], *codes: str) -> Evaluation:
    timing = Timing(
        10.0, 10.0 * speedup, Interval(speedup, speedup - 0.1, speedup + 0.1), compile=modes
    )
    reported = tuple(Disclosure(code, "what it says") for code in codes)
    return Evaluation("accepted", CUDA, timing=timing, disclosures=reported)


def write_run(folder: Path, evaluations: list[Evaluation]) -> None:
    folder.mkdir(parents=True)
    events = [RunStarted("r", ProblemSpec(path="x.py"), {}, {})]
    for turn, result in enumerate(evaluations):
        events += [TurnStarted(turn, TurnRequest("write", "m"), "0")]
        events += [Evaluated(turn, str(turn), f"n = {turn}\n", result, 1.0, "")]
    events += [RunFinished("none", 1, "done")]
    text = "".join(to_line(Logged(i, float(i), e)) + "\n" for i, e in enumerate(events))
    (folder / "events.jsonl").write_text(text)


def test_the_best_compile_mode_of_a_problem_is_the_one_compared_with(tmp_path):
    folder = begin(tmp_path / "s", 2, 1)
    write_run(
        folder.runs_of("p0") / "r",
        [timed(1.5, {"default": 12.0, "max-autotune": 8.0}), timed(1.2, {"default": 9.0})],
    )
    write_run(folder.runs_of("p1") / "r", [timed(3.0, {}, "degenerate")])
    first, second = results_of(folder)
    assert (first.best.turn, first.best.eager, first.best.compiled) == (0, 1.5, 0.8)
    assert (first.last.turn, first.last.eager, first.last.compiled) == (1, 1.2, 0.9)
    assert second.degenerate


def test_degenerate_problems_are_listed_and_the_suite_told_with_and_without(tmp_path):
    folder = begin(tmp_path / "s", 2, 1)
    write_run(folder.runs_of("p0") / "r", [timed(1.1, {})])
    write_run(folder.runs_of("p1") / "r", [timed(3.0, {}, "degenerate")])
    report = report_of(folder)
    assert report.degenerate == ("p1",)
    assert report.all.best_of_history.eager.fast["2"].value == 0.5
    assert report.without_degenerate.problems == 1
    assert report.without_degenerate.best_of_history.eager.fast["2"].value == 0.0
    assert "without the degenerate ones (p1)" in as_markdown(document(report))


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "20260101-000000-suite-0000"
    folder = begin(path, 3, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        conduct(folder, Silent(), run_one=recorded(0.0))
    return folder


@pytest.mark.long
def test_the_report_is_valid_by_its_schema_and_calls_an_estimate_one(suite):
    report = report_of(suite)
    jsonschema.validate(json.loads(to_json(report)), schemas()["bench.json"])
    assert report.finished
    assert report.all.best_of_history.eager is None
    text = as_markdown(document(report))
    assert "estimated_fast_1.2 vs eager (ESTIMATE, not measured)" in text
    assert "| fast_p vs eager (measured) | not timed |" in text


@pytest.mark.long
def test_the_reports_are_written_beside_the_log(suite):
    write_reports(suite, report_of(suite))
    page = (suite.path / "report.html").read_text(encoding="utf-8")
    assert "Problems with a correct candidate (fast_0)" in page
    assert page.count("<svg") == len({curve.asks for curve in report_of(suite).curves}) == 2
    assert json.loads((suite.path / "report.json").read_text())["schema"] == "kernelagent.bench/1"


def scores(*ratios):
    """One score a turn; None: refused."""
    return tuple(Score(t, correct=r is not None, eager=r) for t, r in enumerate(ratios))


def test_curves_are_shares_of_all_problems_after_so_many_turns_of_each():
    rows = [
        replace(ROWS[0], by_turn=scores(None, 0.5, 2.0, None)),
        replace(ROWS[1], by_turn=scores(1.0)),
        replace(ROWS[3], by_turn=()),
    ]
    result = {(c.of, c.asks): c.shares for c in curves_of(rows, resampled(3, 200))}
    thirds = {key: [round(3 * share.value) for share in shares] for key, shares in result.items()}
    assert thirds == {
        ("best_of_history", "correct"): [1, 2, 2, 2],
        ("last_turn", "correct"): [1, 2, 2, 1],
        ("best_of_history", "eager"): [1, 1, 2, 2],
        ("last_turn", "eager"): [1, 1, 2, 1],
    }
    assert all(s.low <= s.value <= s.high for shares in result.values() for s in shares)


def test_a_suite_without_a_turn_has_no_curves():
    assert curves_of([ROWS[0], ROWS[1]], resampled(2, 10)) == ()
    assert curves_of([], ()) == ()


@given(st.lists(st.lists(st.none() | st.floats(0.1, 4), max_size=6), min_size=1, max_size=6))
def test_the_best_of_history_never_falls_and_is_never_below_the_last_turn(turns):
    rows = [replace(ROWS[0], by_turn=scores(*ratios)) for ratios in turns]
    result = {(c.of, c.asks): c.shares for c in curves_of(rows, resampled(len(rows), 5))}
    for asks in {asks for _, asks in result}:
        best = [share.value for share in result["best_of_history", asks]]
        last = [share.value for share in result["last_turn", asks]]
        assert best == sorted(best)
        assert all(item >= other for item, other in zip(best, last, strict=True))


@pytest.mark.long
def test_the_report_says_how_each_number_is_got_again(tmp_path, monkeypatch):
    # Enough turns for a candidate that is better beyond doubt, so that a module is written.
    monkeypatch.chdir(tmp_path)
    suite = begin(tmp_path / "20260101-000000-suite-0000", 8, 12)
    conduct(suite, Silent(), run_one=recorded(0.0))
    report = report_of(suite)
    text = as_markdown(document(report))
    assert f"$ kernelagent bench --resume {report.folder}" in text
    commands = [row.reproduce for row in report.problems if row.reproduce]
    assert commands
    assert all(f"$ {command}" in text for command in commands)


def test_what_a_log_says_cannot_become_markup(suite):
    report = report_of(suite)
    nasty = replace(report.problems[0], key="<script>x</script>", why="a | b")
    reported = replace(report, problems=(nasty,))
    assert "<script>" not in as_html(document(reported))


def test_a_suite_paired_with_itself_shows_no_change(suite):
    result = compare(suite, suite)
    jsonschema.validate(json.loads(to_json(result)), schemas()["bench_diff.json"])
    assert result.correct_change.value == 0.0
    assert result.geometric_mean_change is None or result.geometric_mean_change.value == 1.0
    assert (result.gained, result.lost) == ((), ())


def test_pairs_show_what_was_gained_and_lost(tmp_path):
    item, other = begin(tmp_path / "one", 2, 1), begin(tmp_path / "other", 2, 1)
    write_run(item.runs_of("p0") / "r", [timed(1.0, {})])
    write_run(item.runs_of("p1") / "r", [timed(1.5, {})])
    write_run(other.runs_of("p0") / "r", [timed(2.0, {})])
    result = compare(item, other)
    assert result.lost == ("p1",)
    assert [pair.change for pair in result.pairs] == [2.0, None]
    assert result.geometric_mean_change.value == pytest.approx(2.0)
    assert result.correct_change.value == -0.5
