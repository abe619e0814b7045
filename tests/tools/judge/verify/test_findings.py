"""What is told of calls beyond the verdict's own that there was no time for."""

from __future__ import annotations

from kernelagent.tools.judge.verify.beyond.asking import Asked
from kernelagent.tools.judge.verify.findings import Findings


def test_all_that_was_not_tried_in_time_is_told_at_once() -> None:
    findings = Findings()
    for what in ("inputs with infinities", "larger_integers", "inputs with infinities"):
        findings.note_untried(what)
    (told,) = findings.disclosures.values()
    assert told.code == "beyond_not_tried"
    assert "how they are answered is not known: inputs with infinities, larger integers;" in (
        told.message
    )


def test_an_answer_that_did_not_come_in_time_neither_agrees_nor_differs() -> None:
    asked = Asked(late=True)
    assert asked.wrong is None
    assert not asked.agrees


def test_a_number_that_differs_between_calls_has_varied() -> None:
    findings = Findings()
    for power in (1, 2, 1):
        findings.note_values("default", ((power, 0.5), {}))
    assert findings.numbers == {
        ("default", "arguments[0][0]"): None,
        ("default", "arguments[0][1]"): 0.5,
    }
