"""The library of kernels is what the policy writes today."""

from __future__ import annotations

import pytest

from kernelagent.models.compiler.make_patterns import USUAL, written
from kernelagent.models.patterns import PATTERNS, pattern


@pytest.mark.long
@pytest.mark.parametrize("name", PATTERNS)
def test_file_of_the_library_is_the_policys(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path_factory.mktemp("inductor"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", folder)
    assert pattern(name) == written(name), "run python -m kernelagent.models.compiler.make_patterns"


def test_every_name_has_its_module() -> None:
    assert USUAL.keys() == PATTERNS.keys()
