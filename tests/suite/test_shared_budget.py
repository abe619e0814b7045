from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.cli.main import main
from kernelagent.domain.configuration.budget import Budget, Spent
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.errors import UsageError
from kernelagent.domain.events import ReplyReceived, RunFinished, RunStarted, TurnStarted, TurnVoid
from kernelagent.domain.history import TurnRequest
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.suite.log import SuiteFolder
from kernelagent.suite.problems import FoundProblems, SuiteProblem
from kernelagent.suite.run_suite import begin, conduct
from kernelagent.suite.shared_budget import SharedBudget, most_for_one
from kernelagent.suite.summary import report_of
from kernelagent.suite.text import preamble
from tests.suite.recorded_suite import Silent


def never() -> bool:
    return False


def suite(folder: Path, problems: int, total: float | None, **options) -> SuiteFolder:
    named = tuple(SuiteProblem(f"p{n}", ProblemSpec(path="toy.py")) for n in range(problems))
    config = resolve({"model": ["openai/gpt-5"], "budget_usd": 1.0, **options})
    return begin(folder, FoundProblems(named), config, 1, total)


def costing(dollars: float | None, seen: list[float] | None = None, tokens: int = 10):
    """Runs that take one reply each, at this price."""
    running: list[str] = []

    def run_one(problem, config: RunConfig, folder, subscribers, stop_asked):
        running.append(problem.key)
        if seen is not None:
            seen.append(len(running))
        time.sleep(0.01)
        made = folder or RunFolder(Path(config.runs) / "20260101-000000-toy-0000")
        made.path.mkdir(parents=True, exist_ok=True)
        log = EventLog(made)
        for subscriber in subscribers:
            log.subscribe(subscriber)
        log.publish(RunStarted("r", problem.spec, to_data(config), {}))
        log.publish(TurnStarted(0, TurnRequest("write", "m"), "0"))
        log.publish(ReplyReceived(0, "m", "", tokens, 0, dollars))
        log.publish(TurnVoid(0, "no code"))
        log.publish(RunFinished("none", 1, "done"))
        log.close()
        running.remove(problem.key)
        return 1, "done"

    return run_one


def test_a_problem_is_begun_only_while_all_it_may_cost_is_left(tmp_path):
    folder = suite(tmp_path, 8, 2.0)
    assert conduct(folder, Silent(), run_one=costing(0.4)) is False
    report = report_of(folder)
    # 0.4, 0.8 and 1.2 dollars are spent; 0.8 are left, and one problem may cost 1.
    assert [row.status for row in report.problems].count("ended") == 3
    assert report.total_usd == 2.0
    assert report.spend.dollars == pytest.approx(1.2)
    assert report.too_dear is not None
    assert "0.80 of the suite's 2 dollars are left" in report.too_dear
    assert any("Not every problem was begun" in line for line in preamble(report))


def test_a_larger_total_lets_the_suite_go_on_and_end(tmp_path):
    folder = suite(tmp_path, 4, 1.0)
    assert conduct(folder, Silent(), run_one=costing(0.4)) is False
    assert conduct(folder, Silent(), total_usd=5.0, run_one=costing(0.4)) is True
    report = report_of(folder)
    assert report.finished
    assert (report.total_usd, report.too_dear) == (5.0, None)
    assert report.spend.dollars == pytest.approx(1.6)


def test_a_suite_without_a_total_runs_everything(tmp_path):
    folder = suite(tmp_path, 4, None)
    assert conduct(folder, Silent(), run_one=costing(0.9)) is True
    assert report_of(folder).total_usd is None


def test_side_by_side_no_more_runs_than_the_total_has_room_for(tmp_path):
    seen: list[int] = []
    folder = suite(tmp_path, 12, 2.5)
    conduct(folder, Silent(), jobs=6, run_one=costing(0.01, seen))
    assert max(seen) == 2
    assert report_of(folder).finished


def test_replies_without_a_price_end_a_suite_whose_total_cannot_be_kept(tmp_path):
    folder = suite(tmp_path, 3, 2.0)
    assert conduct(folder, Silent(), run_one=costing(None)) is False
    report = report_of(folder)
    assert [row.status for row in report.problems] == ["ended", "unfinished", "unfinished"]
    assert "nobody knows the price of 10 tokens" in str(report.too_dear)


def test_a_total_that_no_problem_fits_into_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="less than one problem may cost"):
        suite(tmp_path, 2, 0.5)
    with pytest.raises(UsageError, match="needs --budget-usd"):
        most_for_one(Budget(turns=3), 10.0)
    assert list(tmp_path.iterdir()) == []


def test_the_flag_is_refused_before_a_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("class Model: ...\ndef get_inputs(): ...\n")
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "a.py", "--turns", "3", "--total-usd", "2", "--device", "virtual"])
    assert stopped.value.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


@pytest.mark.long
def test_who_waits_for_room_stops_when_the_user_does():
    shared_budget = SharedBudget(total=1.0, each=1.0, spent=0.0)
    assert shared_budget.take(0.0, never) is None
    asked = threading.Event()
    threading.Timer(0.05, asked.set).start()
    assert shared_budget.take(0.0, asked.is_set) == "stopped by the user"


@given(
    costs=st.lists(st.floats(0, 1), max_size=30),
    total=st.floats(1, 6),
)
def test_no_order_of_costs_goes_over_the_total(costs, total):
    shared_budget = SharedBudget(total, each=1.0, spent=0.0)
    for cost in costs:
        if shared_budget.take(0.0, never) is None:
            shared_budget.settle(0.0, Spent(dollars=cost))
    assert shared_budget.spent <= total + 1e-9


def test_a_run_that_goes_on_needs_only_the_rest_of_its_own_budget():
    shared_budget = SharedBudget(total=3.0, each=1.0, spent=2.6)
    assert shared_budget.take(0.7, never) is None
    shared_budget.settle(0.7, Spent(dollars=0.3))
    assert shared_budget.spent == pytest.approx(2.9)
    assert "are left" in str(shared_budget.take(0.0, never))
