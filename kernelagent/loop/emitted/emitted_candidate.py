"""Where an emitted file is judged: the disclosures from reading its text are those of the candidate's part alone."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.evaluation import Evaluation
from kernelagent.dropin.own_text import without_drop_in
from kernelagent.tools.judge.source_reading.reading import disclosures


def read_without_drop_in(evaluation: Evaluation, source: str) -> Evaluation:
    """Replaces the disclosures from reading the whole file by those from reading it without its drop-in.

    Only where the drop-in is byte for byte what this version emits: what that does is in the file's header and tested.
    Any other file keeps the disclosures of its whole text.
    """
    own = without_drop_in(source)
    if own is None:
        return evaluation
    whole = disclosures(source)
    kept = [disclosure for disclosure in evaluation.disclosures if disclosure not in whole]
    if len(kept) == len(evaluation.disclosures):
        return evaluation
    return replace(evaluation, disclosures=(*kept, *disclosures(own)))
