from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def changed_tests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changed_tests", ROOT / ".ci/changed_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("kernelagent/loop/queries/query.py", "tests/loop/queries/test_query.py"),
        ("kernelagent/loop/run.py", "tests/loop"),
        ("tools/judge/verify/compare/gate.py", "tests/tools/judge/verify"),
        ("strategies/tree.py", "tests/strategies"),
        ("tests/loop/queries/test_query.py", "tests/loop/queries/test_query.py"),
        ("tests/tui/drawn_screens.py", "tests/tui"),
        ("docs/guide.md", "tests/docs"),
        ("LICENSE", None),
    ],
)
def test_a_changed_file_needs_the_tests_that_mirror_it(changed_tests, changed, tests):
    assert changed_tests.mirror_of(changed) == tests
