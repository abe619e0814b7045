"""What the pages and the report say about checks: each sentence names the test or the candidate that shows it."""

from __future__ import annotations

import re
from functools import cache

import pytest

from kernelagent.report.proof import SHOWN_BY
from kernelagent.tools.corpus.catalogue import entries, not_here, threats
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "how-verification-works.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")

CHECKING = re.compile(
    r"\b(checked|checks|compared|refuses?|refused|rejection|demands|forbids|verifie[sd]|unchanged|"
    r"must be|must fail|is found|is noticed|are exact|is dropped|are compared|watches|accepted|varied|exchanged|counted)\b"
)
QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]\([^)]*\)')
"""Names of verdicts and of other pages."""
WITHOUT = {"## What is not verified"}
"""Sections that say what is not checked."""


def sentences(text: str) -> list[str]:
    """Of the paragraphs and lists, without tables, code and headings."""
    result = []
    for block in re.split(r"\n\s*\n|\n(?=- )", text):
        lines = block.strip("\n").splitlines()
        if not lines or lines[0].startswith(("#", "|", "    ", "```", "!")):
            continue
        joined = " ".join(line.strip() for line in lines if not line.startswith("|"))
        result += re.split(r"(?<=[.)*])(?<!e\.g\.)\s+(?=[A-Z`*])", joined)
    return result


def section(text: str, heading: str) -> str:
    (found,) = re.findall(rf"^{re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found


def claims() -> list[str]:
    page = PAGE
    for heading in WITHOUT:
        page = page.replace(section(page, heading), "")
    text = page[page.index("Tensors cross") :] + "\n\n" + section(README, "## Why believe it")
    return [sentence for sentence in sentences(text) if CHECKING.search(QUOTED.sub("", sentence))]


@cache
def known_tests() -> frozenset[str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return frozenset(name for text in texts for name in re.findall(r"def (test_\w+)\(", text))


@cache
def known_candidates() -> frozenset[str]:
    names = {entry.fixture.name for entry in (*entries("cuda"), *not_here("cuda"))}
    return frozenset(names | {name.removeprefix("w-") for name in names})


def named(text: str) -> set[tuple[str, str]]:
    """What a text names as its evidence: `("corpus" or "test", name)`."""
    flat = " ".join(text.split())
    return {
        (kind, name)
        for kind, names in re.findall(r"(corpus|test): ((?:`[\w-]+`(?:, )?)+)", flat)
        for name in re.findall(r"`([\w-]+)`", names)
    }


def test_sentences_about_checks_name_what_shows_them():
    result = claims()
    assert len(result) > 20
    assert [sentence for sentence in result if not named(sentence)] == []


@pytest.mark.parametrize("text", [PAGE, README], ids=["verification", "readme"])
def test_what_is_named_as_evidence_exists(text):
    result = named(text)
    assert result
    known = {"test": known_tests(), "corpus": known_candidates()}
    assert [(kind, name) for kind, name in result if name not in known[kind]] == []


def test_candidates_in_the_table_of_gradients_exist():
    rows = re.findall(r"^\|.*\| `([\w-]+)` \|$", section(PAGE, "## Gradients (`--train`)"), re.M)
    assert len(rows) == 7
    assert set(rows) <= known_candidates()


def test_every_threat_is_shown_by_a_candidate_or_says_that_none_can_exist_here():
    for threat in threats():
        assert threat.cheats or threat.closed in {"design", "cuda"}, threat.number


def test_what_the_report_says_of_stages_and_inputs_is_shown():
    assert known_candidates().issuperset(SHOWN_BY.values())
