"""A sample of the corpora: cheats are refused and honest kernels accepted, on this GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from kernelagent.tools.corpus.catalogue import entries
from kernelagent.tools.corpus.check import check
from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.sample import sample


def chosen(environment: Mapping[str, str]) -> tuple[Fixture, ...]:
    """What `make gpu` judges: the sample, with TRIES everything."""
    if "TRIES" not in environment:
        return sample()
    return tuple(dict.fromkeys(entry.fixture for entry in entries("cuda")))


@pytest.mark.timeout(3600 if "TRIES" in os.environ else 400)
def test_the_corpora_go_as_they_must(written: Callable[[str, str], None]) -> None:
    every = chosen({"TRIES": "1"})
    judged = list(check(chosen(os.environ), device="cuda"))
    wrong = [item for item in judged if not item.as_expected]
    lines = [
        "# The corpora on a GPU",
        "",
        f"{len(judged)} of {len(every)} fixtures, {len(wrong)} not as they must.",
        *(f"- {o.fixture.name}: {o.fixture.code} expected, {o.code}: {o.message}" for o in wrong),
    ]
    written("corpora_cuda.md", "\n".join(lines))
    assert wrong == []
