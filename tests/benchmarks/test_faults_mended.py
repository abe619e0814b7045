"""The desk of planted faults: what a writer finds there, and how what comes back is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fault_classes import CLASSES, OF_EACH_KERNEL, class_of, to_mend
from benchmarks.faults import KERNELS, MISTAKES
from benchmarks.faults_mended import (
    CANDIDATE,
    FEEDBACK,
    MENDED,
    Row,
    lay_out,
    scored,
    table,
    wilson,
)
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Evaluation
from kernelagent.tools.corpus.fixture import honest_kernel
from tests.evaluations import accepted, rejected

HONEST = {honest_kernel(name).strip() for name in KERNELS}


class ReadingJudges:
    """Accept the honest kernels by their text and refuse everything else, without running anything."""

    @contextmanager
    def open(self, settings: Any, say: Any) -> Iterator[ReadingJudges]:
        yield self

    def evaluate(self, candidate: Candidate, on_stage: Any) -> Evaluation:
        return accepted(2.0) if candidate.source.strip() in HONEST else rejected("insensitive")


def test_there_are_forty_faults_four_of_each_kernel_by_different_mistakes() -> None:
    items = to_mend()
    assert [item.number for item in items] == list(range(1, 41))
    for kernel in KERNELS:
        mine = {item.fault.mistake for item in items if item.fault.kernel == kernel}
        assert len(mine) == OF_EACH_KERNEL
    assert all(item.fault.equivalent is None for item in items)
    assert items == to_mend()


def test_ten_in_a_row_hold_each_kernel_once_so_that_no_writer_sees_it_twice() -> None:
    kernels = [item.fault.kernel for item in to_mend()]
    for first in range(0, 40, 10):
        assert sorted(kernels[first : first + 10]) == sorted(KERNELS)


def test_every_mistake_has_one_class_and_an_ideal_message() -> None:
    listed = [mistake for mistakes in CLASSES.values() for mistake in mistakes]
    assert sorted(listed) == sorted({mistake.name for mistake in MISTAKES})
    assert all(CLASSES[class_of(mistake)][mistake] for mistake in listed)


def test_each_class_is_met_about_equally_often() -> None:
    kinds = [item.kind for item in to_mend()]
    counts = [kinds.count(kind) for kind in CLASSES]
    assert max(counts) - min(counts) <= 1


def test_a_folder_holds_the_faulty_file_and_what_a_writer_is_told_and_nothing_else(
    tmp_path: Path,
) -> None:
    items = to_mend()[:3]
    assert lay_out(tmp_path, items, ReadingJudges()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01", "02", "03"]
    for item in items:
        folder = tmp_path / f"{item.number:02}"
        assert {path.name for path in folder.iterdir()} == {CANDIDATE, FEEDBACK}
        assert (folder / CANDIDATE).read_text() == item.fault.source
        assert (folder / FEEDBACK).read_text().startswith("Rejected (insensitive): ")
        assert item.fault.mistake not in (folder / FEEDBACK).read_text()


def test_mended_is_what_the_judge_accepts_and_what_is_missing_is_not(tmp_path: Path) -> None:
    items = to_mend()[:3]
    lay_out(tmp_path, items, ReadingJudges())
    (tmp_path / "01" / MENDED).write_text(honest_kernel(items[0].fault.kernel), encoding="utf-8")
    (tmp_path / "02" / MENDED).write_text(items[1].fault.source, encoding="utf-8")
    rows = scored(tmp_path, items, "nobody", ReadingJudges())
    assert [(row.number, row.mended, row.still) for row in rows] == [
        (1, True, None),
        (2, False, "insensitive"),
        (3, False, "nothing"),
    ]
    assert {row.told for row in rows} == {"insensitive"}


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert wilson(32, 40) == pytest.approx((0.6524, 0.8950), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(10, 10)[1] == pytest.approx(1.0)


def test_the_page_counts_by_who_wrote_and_by_class_and_names_what_was_not_mended() -> None:
    done = Row(1, "A", "row_sum", "wrong row", "place", "wrong_output", True)
    lost = Row(2, "A", "in_place", "wrong fill", "mask or bound", "nonfinite", False, "nothing")
    other = Row(1, "B", "row_sum", "wrong row", "place", "wrong_output", False, "data_race")
    text = table([done, lost, other])
    first, second = text.split("## ")[1:]
    assert first.startswith("A\n")
    assert "| place | 1 | 1 | 100% (21% to 100%) |" in first
    assert "| all | 2 | 1 | 50% (9% to 91%) |" in first
    assert "- 02, in_place, wrong fill: told `nonfinite`, then nothing was handed in" in first
    assert "then refused with `data_race`" in second


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_judge_has_something_to_say_of_each_of_the_forty(tmp_path: Path, judges: Any) -> None:
    assert lay_out(tmp_path, to_mend(), judges) == []
