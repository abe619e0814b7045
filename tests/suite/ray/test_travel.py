from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import cloudpickle
import pytest

from kernelagent.domain.errors import ProblemError, UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.suite.ray.connection import Connection
from kernelagent.suite.ray.packaging import pack
from kernelagent.suite.ray.pickled import modules_named

PROBLEM = "import json\nimport numpy\nfrom parts import half\nimport torch\n"


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    (folder / "parts").mkdir(parents=True)
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "parts" / "__init__.py").write_text("from parts.halves import half\nimport deeper\n")
    (folder / "parts" / "halves.py").write_text("half = 0.5\n")
    (folder / "deeper.py").write_text("deep = 1\n")
    (folder / "unrelated.py").write_text("token = 'stays at home'\n")
    return folder


def test_a_file_travels_with_the_local_modules_it_imports_and_nothing_else(home):
    parcel = pack(ProblemSpec(path=str(home / "problem.py")))
    assert set(parcel.files) == {
        "problem.py",
        "parts/__init__.py",
        "parts/halves.py",
        "deeper.py",
    }


def test_an_unpacked_problem_is_found_where_it_was_unpacked(home, tmp_path):
    parcel = pack(ProblemSpec(path=str(home / "problem.py"), module="Net"))
    there = tmp_path / "there"
    spec = parcel.unpack(there)
    assert spec == ProblemSpec(path=str(there / "problem.py"), module="Net")
    assert (there / "parts" / "halves.py").read_text() == "half = 0.5\n"


def test_a_message_from_there_names_the_path_from_here(home):
    parcel = pack(ProblemSpec(path=str(home / "problem.py")))
    reported = parcel.as_at_home("/node/1/problem.py and /node/1/deeper.py", Path("/node/1"))
    assert reported == f"{home}/problem.py and {home}/deeper.py"


def test_a_module_by_name_travels_with_its_package(home, monkeypatch):
    monkeypatch.chdir(home)
    parcel = pack(ProblemSpec(import_name="parts.halves"))
    assert set(parcel.files) == {"parts/__init__.py", "parts/halves.py", "deeper.py"}


def test_a_problem_that_reads_the_files_beside_it_is_refused(home):
    (home / "deeper.py").write_text("open(__file__ + '.weights')\n")
    with pytest.raises(ProblemError, match=r"deeper\.py, line 1: `__file__`"):
        pack(ProblemSpec(path=str(home / "problem.py")))


def test_a_module_from_a_folder_that_is_not_installed_is_refused(home, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "farther.py").write_text("far = 1\n")
    (home / "deeper.py").write_text("import farther\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    with pytest.raises(ProblemError, match=r"imports 'farther' from .*does not travel"):
        pack(ProblemSpec(path=str(home / "problem.py")))


def test_two_problems_with_the_same_text_but_other_modules_are_not_the_same(home):
    spec = ProblemSpec(path=str(home / "problem.py"))
    before = pack(spec).sha256
    assert pack(spec).sha256 == before
    (home / "parts" / "halves.py").write_text("half = 0.25\n")
    assert pack(spec).sha256 != before


def test_a_pickle_names_its_modules_without_being_run(home, monkeypatch):
    monkeypatch.syspath_prepend(str(home))
    module = importlib.import_module("deeper")
    module.Deep = type("Deep", (), {"__module__": "deeper"})
    pickled = cloudpickle.dumps([module.Deep, ValueError("x"), module.Deep])
    assert {"deeper", "builtins"} <= set(modules_named(pickled))
    del sys.modules["deeper"]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
def test_without_ray_the_extra_is_named():
    with pytest.raises(UsageError, match=r"kernelagent\[ray\]"):
        Connection("auto")
