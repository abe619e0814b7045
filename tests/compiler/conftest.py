from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_PATH = Path(__file__).resolve().parents[1] / "core" / "evaluations.py"


@pytest.fixture
def evaluations() -> ModuleType:
    """The hand-made evaluations that the tests of the loop use."""
    spec = importlib.util.spec_from_file_location("core_evaluations", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
