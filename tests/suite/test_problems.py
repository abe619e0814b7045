from __future__ import annotations

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.suite.problems import find_problems

PROBLEM = "class Model: ...\ndef get_inputs(): return []\n"


@pytest.fixture
def kernelbench(tmp_path):
    """A folder laid out as KernelBench is."""
    for level, name in ((1, "10_b"), (1, "2_a"), (2, "1_c"), (3, "1_c")):
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(PROBLEM)
    (tmp_path / "KernelBench" / "level1" / "notes.py").write_text("x = 1\n")
    (tmp_path / "KernelBench" / "level1" / "broken.py").write_text("def (\n")
    return tmp_path / "KernelBench"


def keys(found):
    return [problem.key for problem in found.problems]


def test_problems_of_a_folder_come_by_level_and_number(kernelbench):
    result = find_problems([str(kernelbench)])
    assert keys(result) == ["level1-2_a", "level1-10_b", "level2-1_c", "level3-1_c"]
    assert [problem.split for problem in result.problems] == ["L1", "L1", "L2", "L3"]


def test_files_that_are_no_problem_are_said(kernelbench):
    left = find_problems([str(kernelbench)]).left_out
    assert sorted(name.rsplit("/", 1)[1] for name in left) == ["broken.py", "notes.py"]


@pytest.mark.parametrize("splits", [["L2", "L3"], ["level2", "l3"]])
def test_a_split_takes_its_levels_only(kernelbench, splits):
    assert keys(find_problems([str(kernelbench)], splits)) == ["level2-1_c", "level3-1_c"]


def test_a_folder_that_is_a_level_itself_has_its_split(kernelbench):
    result = find_problems([str(kernelbench / "level2")], ["L2"])
    assert keys(result) == ["1_c"]


def test_two_problems_of_one_name_have_two_keys(kernelbench):
    places = [str(kernelbench / f"level{n}" / "1_c.py") for n in (2, 3)]
    assert keys(find_problems(places)) == ["1_c", "1_c-2"]


def test_a_module_is_a_problem_too(kernelbench):
    (problem,) = find_problems(["pkg.mod:Net"]).problems
    assert (problem.spec.import_name, problem.spec.module) == ("pkg.mod", "Net")


def test_a_file_may_name_its_class(kernelbench):
    place = str(kernelbench / "level2" / "1_c.py")
    (problem,) = find_problems([f"{place}:Net"]).problems
    assert (problem.key, problem.spec.path, problem.spec.module) == ("1_c-Net", place, "Net")


@pytest.mark.parametrize(
    ("places", "splits", "word"),
    [(["nowhere.py"], [], "no file"), (["."], ["L7"], "in L7"), (["."], ["easy"], "--split easy")],
)
def test_what_cannot_be_found_is_wrong_usage(kernelbench, monkeypatch, places, splits, word):
    monkeypatch.chdir(kernelbench)
    with pytest.raises(UsageError, match=word):
        find_problems(places, splits)
