"""What a process is given to read that is to import the user's code as the judge did."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.places import at_home, places_of


@pytest.mark.long
def test_the_problems_folder_and_those_of_what_it_imports_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "package" / "helper_of_a_test.py"
    helper.parent.mkdir()
    helper.write_text("", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("helper_of_a_test", helper)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "helper_of_a_test", importlib.util.module_from_spec(spec))
    (tmp_path / "problem").mkdir()
    places = places_of(ProblemSpec(path=str(tmp_path / "problem" / "model.py")))
    assert (tmp_path / "problem").resolve() in places
    assert helper.parent.resolve() in places


@pytest.mark.long
def test_installed_packages_and_the_standard_library_are_not() -> None:
    places = places_of(ProblemSpec(import_name="somewhere"))
    assert Path(torch.__file__).resolve().parent not in places
    assert Path(importlib.util.__file__).resolve().parent not in places


def test_a_relative_path_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = ProblemSpec(path="model.py")
    found = at_home(ProblemSpec(path="model.py", whole=whole, module="Model"))
    assert found == ProblemSpec(path=str((tmp_path / "model.py").resolve()), module="Model")
