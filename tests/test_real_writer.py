"""What real writers wrote: the page follows from its rows, and what was accepted is accepted again.

KernelBench's problems are not in this repository: `KERNELBENCH` names a folder with them, and blocks of transformers need
that package. Without them nothing is judged.
"""

from __future__ import annotations

import os
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.real_writer import ARMS, CASSETTES, RESULTS, kept, next_at
from benchmarks.real_writer_problems import PROBLEMS
from benchmarks.real_writer_table import Row, page
from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.storage.cassette import recording
from kernelagent.tools.judge_client import JudgeProcess

KERNELBENCH = os.environ.get("KERNELBENCH")
RECORDED = sorted(path.stem for path in CASSETTES.glob("*.jsonl"))


def test_the_page_follows_from_the_rows() -> None:
    assert page(kept()) == (RESULTS / "real_writer.md").read_text(encoding="utf-8")


def test_each_run_has_its_cassette_and_each_cassette_its_rows() -> None:
    rows = kept()
    assert {f"{row.arm}-{row.problem}" for row in rows} == set(RECORDED)
    for name in RECORDED:
        replies = recording(str(CASSETTES / f"{name}.jsonl"))
        verdicts = [row.verdict for row in rows if f"{row.arm}-{row.problem}" == name]
        assert [reply.verdict for reply in replies] == verdicts
        assert all(reply.prompt is None for reply in replies), "prompts hold KernelBench's text"


def test_an_arm_is_compared_on_the_problems_that_all_have() -> None:
    rows = [
        Row("sequential", "a", "norm", 0, "accepted", ratio=2.0, faster=True),
        Row("sequential", "b", "norm", 0, "accepted", ratio=8.0, faster=True),
        Row("window", "a", "norm", 0, "wrong_output"),
        Row("window", "a", "norm", 1, "accepted", ratio=4.0, faster=True),
    ]
    text = page(rows)
    assert "The 1 problems that every arm has" in text
    assert "| `window` | 1 | 1 of 2 | 1 | 1 | 4.00× [4.00, 4.00] | 2.00× [2.00, 2.00] |" in text


def test_a_time_of_day_that_has_passed_is_tomorrows() -> None:
    late = datetime(2026, 1, 31, 23, 40)
    assert next_at("23:50", late) == datetime(2026, 1, 31, 23, 50)
    assert next_at("01:15", late) == datetime(2026, 2, 1, 1, 15)


@pytest.mark.long
@pytest.mark.parametrize("name", RECORDED)
def test_what_was_accepted_last_is_accepted_again(name: str, tmp_path: Path) -> None:
    arm = max((arm for arm in ARMS if name.startswith(f"{arm}-")), key=len)
    asked = next(item for item in PROBLEMS if item.name == name.removeprefix(f"{arm}-"))
    if asked.file and KERNELBENCH is None:
        pytest.skip("KERNELBENCH names no folder")
    if asked.block and find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    path, module = asked.laid_out(Path(KERNELBENCH or "."), tmp_path)
    replies = recording(str(CASSETTES / f"{name}.jsonl"))
    last = [reply for reply in replies if reply.verdict == "accepted"][-1]
    candidate = parse_reply(last.text)
    assert isinstance(candidate, Candidate)
    spec = ProblemSpec(path=str(path), module=module)
    with JudgeProcess(JudgeSettings(spec, device="virtual", judging_seconds=600)) as judge:
        assert judge.evaluate(candidate, lambda _: None).accepted
