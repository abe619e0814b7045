"""Kernels that loaded memory which nobody had written: told, and called again and again on what they leave there.

What such memory holds on a GPU is what an earlier call left there. The executor knows each such load, whatever
comes of it (`tools/virtual/provenance/never_written.py`). A count that a kernel keeps there shows once it is far enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.calls.surroundings import USUAL, Surroundings
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.refusal_words import with_words

_CALLS = 200
_SECONDS = 3.0
"""Calls in a row, as far as they take no longer than this."""


def note_unwritten(findings: Findings, rows: Iterable[Mapping[str, Any]]) -> None:
    """Tells what the executor's log says of it."""
    result = {(str(r["kernel"]), int(line)) for r in rows for line, _ in r.get("unwritten", ())}
    if not result:
        return
    findings.unwritten |= result
    where = ", ".join(f"line {line} of `{kernel}`" for kernel, line in sorted(findings.unwritten))
    findings.disclosures["reads_unwritten"] = Disclosure(
        "reads_unwritten",
        f"memory is loaded that nobody has written since it was allocated ({where}): on a GPU it holds what "
        f"earlier calls left there, marks and counts of the kernel's own too, and what it decides by that was not "
        f"judged",
    )


def require_right_in_kept_memory(
    call: Callable[[Trial, Surroundings], Any],
    trial: Trial,
    prepare: Callable[[], None],
    of: frozenset[str],
) -> None:
    """Calls whose fresh memory holds what the one before left there, as a GPU's allocator hands it out again.

    `prepare` puts the state back before each; `of`: codes of a wrong answer. Raises `Rejected`.
    """
    trial, asked = replace(trial, in_place=False), replace(USUAL, memory="kept")
    end = time.monotonic() + _SECONDS
    for number in range(1, 1 + _CALLS):
        prepare()
        words = (
            f"in call {number} of a row of calls whose fresh memory holds what the one before left there, as a "
            f"GPU's allocator hands it out again"
        )
        with with_words(words, {"in_kept_memory": number}, of=of):
            call(trial, asked)
        if time.monotonic() > end:
            return
