"""The shipped corpora: complete, unambiguous, and judged as they must be on this machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kernelagent.cli.self_test import prove
from kernelagent.domain.rejection_codes import CODES
from kernelagent.tools.corpus.catalogue import COUNT, entries, threats
from kernelagent.tools.corpus.check import check
from kernelagent.tools.corpus.fixture import edited, problem_path
from kernelagent.tools.corpus.honest import HONEST
from kernelagent.tools.corpus.threats_page import page

ROOT = Path(__file__).resolve().parents[3]


def wrong(proof):
    return [(row.kind, row.threat, row.name, row.expected, row.got, row.message)
            for row in proof.rows if not row.as_expected]  # fmt: skip


def test_every_threat_of_the_study_has_a_row_and_a_word_how_it_is_met():
    assert [threat.number for threat in threats()] == list(range(1, COUNT + 1))
    assert all(threat.how for threat in threats())


def test_every_threat_that_is_refused_has_a_cheat_and_an_honest_twin():
    for threat in threats():
        if threat.closed in {"refused", "disclosed", "problem"}:
            assert threat.cheats, threat.number
            assert threat.twins, threat.number
        if threat.closed == "refused":
            assert all(c.code or c.discloses or c.least_us for c in threat.cheats), threat.number
            assert any(cheat.code for cheat in threat.cheats), threat.number
        assert all(twin.code is None for twin in threat.twins), threat.number


def test_codes_and_problems_of_fixtures_exist_and_names_are_unique():
    for entry in entries("cuda"):
        fixture = entry.fixture
        assert fixture.code is None or fixture.code in CODES
        assert problem_path(fixture.problem).is_file()
    different = {entry.fixture for entry in entries("cuda")}
    shared = [name for name, n in Counter(fixture.name for fixture in different).items() if n > 1]
    assert shared == []


def test_a_cheat_is_not_its_own_honest_kernel():
    honest = {entry.fixture.source for entry in entries("cuda") if entry.kind != "cheat"}
    for entry in entries("cuda"):
        if entry.kind == "cheat" and entry.fixture.policy == "triton" and entry.fixture.code:
            assert entry.fixture.source not in honest or entry.fixture.dynamic, entry.name


def test_an_edit_that_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="stands 2 times"):
        edited("a a", ("a", "b"))


def test_the_page_of_threats_is_the_corpus_own():
    assert (ROOT / "docs" / "threats.md").read_text(encoding="utf-8") == page()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_sample_of_the_corpora_is_judged_as_it_must_be():
    proof = prove("virtual", quick=True)
    assert len(proof.rows) > 30
    assert wrong(proof) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_whole_corpora_are_judged_as_they_must_be():
    proof = prove("virtual", quick=False)
    assert wrong(proof) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_honest_kernel_is_refused_with_other_seeds():
    on_virtual = [fixture for fixture in HONEST if not fixture.needs_gpu]
    refused = [
        (item.fixture.name, item.code, item.message)
        for item in check(on_virtual, device="virtual", jobs=2, times=20)
        if item.code is not None
    ]
    assert refused == []
