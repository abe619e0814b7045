from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.lanes import crossed, not_drawn, often


@dataclass(frozen=True)
class Item:
    nodeid: str
    marks: tuple[str, ...]

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def items() -> list[Item]:
    cases = [str(at) for at in range(7)]
    one = [Item(f"a.py::test_one[{case}]", ("long",)) for case in cases]
    other = [
        Item(f"a.py::test_other[{case}]", ("long", "always") if case == "1" else ("long",))
        for case in cases
    ]
    quick = [Item(f"a.py::test_quick[{case}]", ()) for case in cases]
    return [*one, *other, Item("a.py::test_alone", ("long",)), *quick]


def short(parameters):
    return [row for row in parameters if not row.marks]


def test_of_all_combinations_each_value_is_tried_on_every_commit():
    sizes, kinds = {"one": 1, "two": 2, "three": 3}, {"row": "r", "column": "c"}
    parameters = crossed(sizes, kinds)
    assert [row.values for row in parameters] == list(product(sizes.values(), kinds.values()))
    assert parameters[0].id == "one-row"
    tried = short(parameters)
    assert len(tried) == len(sizes)
    assert {row.values[0] for row in tried} == set(sizes.values())
    assert {row.values[1] for row in tried} == set(kinds.values())


def test_cases_that_are_not_kept_are_in_the_long_lane():
    parameters = often({"a": 1, "b": 2}, ["b"])
    assert [row.values for row in short(parameters)] == [(2,)]
    assert [mark.name for mark in parameters[0].marks] == ["long"]


def test_a_case_that_is_kept_and_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="no such cases: c"):
        often({"a": 1}, ["c"])


def cases_of(left, test):
    return {item.nodeid[-2] for item in left if f"::{test}[" in item.nodeid}


def test_a_draw_leaves_two_thirds_of_the_cases_of_a_slow_test_and_the_same_of_each():
    left = not_drawn(items(), "seed")
    assert len(cases_of(left, "test_one")) == 4
    assert cases_of(left, "test_other") == cases_of(left, "test_one") - {"1"}
    assert left == not_drawn(items(), "seed")
    assert len(left) == len(cases_of(left, "test_one")) + len(cases_of(left, "test_other"))


def test_in_some_draws_every_case_is_run_and_in_some_it_is_left_unless_it_is_always_run():
    draws = [not_drawn(items(), str(seed)) for seed in range(40)]
    assert cases_of(set.union(*draws), "test_one") == set("0123456")
    assert cases_of(set.intersection(*draws), "test_one") == set()
    assert "1" not in cases_of(set.union(*draws), "test_other")


SCHEDULED = """
from tests import lanes


def pytest_xdist_make_scheduler(config, log):
    return lanes.Units(config, log)
"""
FILES = {
    "test_before.py": "def test_one(): pass\ndef test_two(): pass\n",
    "test_dies.py": "import os\ndef test_dies(): os._exit(1)\ndef test_after(): pass\n",
    "test_alone.py": "def test_alone(): pass\n",
}


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies_is_one_failed_test_and_all_others_are_run_once(
    workers: int, tmp_path: Path
) -> None:
    for name, text in {"conftest.py": SCHEDULED, **FILES}.items():
        (tmp_path / name).write_text(text)
    distributed = f"-n {workers} --dist loadfile --no-loadscope-reorder -q -p no:cacheprovider"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *distributed.split(), "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 failed, 4 passed" in ended.stdout
    assert "test_dies.py::test_dies" in ended.stdout
