"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from tests.tools.cuda.profile.compiled_forward import Forward, Written


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return Written(tmp_path_factory.mktemp("written"))


@pytest.fixture
def forward(written: Written) -> Forward:
    return Forward(written.launches, written.compiled("_twice"))
