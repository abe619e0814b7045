"""The drop-in of an emitted file is known byte for byte, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Disclosure
from kernelagent.dropin.emit import SECTION_BEGINS, emit_module
from kernelagent.dropin.own_text import without_drop_in
from kernelagent.loop.emitted.emitted_candidate import read_without_drop_in
from kernelagent.tools.judge.source_reading.reading import disclosures
from tests.dropin.emitted import CANDIDATE, CERTIFICATE, Block, estimated, facts_of

ASKS = CANDIDATE.replace("import torch\n", "import time\n\nimport torch\n").replace(
    "        CALLS[0] += 1\n", "        CALLS[0] += time.time() > 0\n"
)


def emitted(source=CANDIDATE, runtime="inline", constructor="init", **envelope):
    facts = replace(facts_of(Block()), constructor=constructor)
    return emit_module(Candidate(source), facts, estimated(**envelope), CERTIFICATE, runtime)


@pytest.mark.parametrize("runtime", ["inline", "package"])
@pytest.mark.parametrize("constructor", ["init", "from_reference"])
@pytest.mark.parametrize("modes", [["eval"], ["eval", "train"]])
def test_what_is_left_is_the_candidate_with_its_line_numbers(runtime, constructor, modes):
    text = emitted(ASKS, runtime, constructor, modes=modes)
    own = without_drop_in(text)
    assert own is not None
    assert "guard" not in own.partition(SECTION_BEGINS)[2]
    before = text.partition(SECTION_BEGINS)[0]
    assert own.startswith(before)
    remarks = {d.code: d.message for d in disclosures(own)}
    line = 1 + before[: before.index("time.time()")].count("\n")
    assert set(remarks) == {"asks_where_it_runs", "keeps_state"}
    assert f"line {line} `time.time()" in remarks["asks_where_it_runs"]


def test_a_name_that_both_need_does_not_hide_the_drop_in():
    text = emitted(
        "import warnings as _warnings\n_Guard = _Watch = 1\n" + CANDIDATE.partition("\n\n")[2]
    )
    assert without_drop_in(text) is not None


TEXT = emitted()
AFTER = TEXT.index(SECTION_BEGINS)


@pytest.mark.long
@given(at=st.integers(AFTER, len(TEXT) - 1), change=st.sampled_from("a0_ \n#("))
def test_a_drop_in_with_any_other_character_is_read_whole_or_keeps_it(at, change):
    changed = TEXT[:at] + change + TEXT[at + 1 :]
    own = without_drop_in(changed)
    if changed != TEXT and own is not None:
        # Data and how the module is constructed are whatever they are: they are read.
        assert own != without_drop_in(TEXT)


@pytest.mark.parametrize(
    "envelope",
    ["{}", "[]", "{'input_sets': 5, 'constructor': 'init'}", "f()", "{'input_sets': [[]]}", "1"],
)
def test_an_envelope_that_is_never_written_is_no_drop_in_of_ours(envelope):
    begins = TEXT.index("ENVELOPE_VERIFIED: ")
    ends = TEXT.index("\n\n\n", begins)
    assert without_drop_in(
        f"{TEXT[:begins]}ENVELOPE_VERIFIED: dict[str, Any] = {envelope}{TEXT[ends:]}"
    ) is None  # fmt: skip


@pytest.mark.long
def test_a_file_without_a_drop_in_and_one_with_two_are_none_of_ours():
    assert without_drop_in(CANDIDATE) is None
    assert without_drop_in(TEXT + TEXT[AFTER:]) is None
    assert without_drop_in(TEXT + "time = 1\n") is None


@pytest.mark.long
def test_remarks_on_the_drop_in_go_and_those_on_the_candidate_and_other_disclosures_stay():
    text = emitted(ASKS)
    other = Disclosure("library_share", "torch computes everything")
    judged = replace(estimated(), disclosures=(other, *disclosures(text)))
    codes = [d.code for d in judged.disclosures]
    assert "unreadable" in codes
    left = read_without_drop_in(judged, text).disclosures
    assert left[0] == other
    assert {d.code for d in left[1:]} == {"asks_where_it_runs", "keeps_state"}
    changed = text.replace("    def forward(self, *args", "    def forward (self, *args", 1)
    assert changed != text
    assert read_without_drop_in(judged, changed) == judged
