"""The fault matrix: a sample on every commit, all of it in the long lane."""

from __future__ import annotations

import pytest

from benchmarks.model_faults import Case, cases, row, rows, table
from benchmarks.streaming_cost import MOST_SHARE, measure

pytestmark = pytest.mark.long

SAMPLE = {
    ("connection dropped", "before"),
    ("connection dropped", "mid, code incomplete"),
    ("connection dropped", "mid, code complete"),
    ("malformed chunk", "mid, code complete"),
    ("429 with Retry-After", "before"),
    ("key revoked", "before"),
    ("context overflow", "before"),
    ("refusal by status", "before"),
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-fault-server")


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize(
    "case",
    [case for case in cases() if (case.fault, case.when) in SAMPLE],
    ids=lambda case: f"{case.fault}, {case.when}",
)
def test_a_fault_costs_no_reply_that_was_paid(case: Case, streaming: bool) -> None:
    result = row(case, streaming=streaming)
    assert result.traceback is None
    assert result.lost == 0
    assert result.happened == result.expected, result.said


def test_no_fault_loses_a_reply_hangs_or_shows_a_traceback() -> None:
    result = rows()
    assert len(result) >= 60
    assert [item for item in result if not item.right] == [], table(result)


def test_a_streamed_token_costs_a_small_share_of_a_core_and_no_memory() -> None:
    cost = measure(3_000)
    assert cost.events == 29, "two a second, at 200 tokens a second"
    assert cost.share < MOST_SHARE
    assert cost.growth_mib < 4
