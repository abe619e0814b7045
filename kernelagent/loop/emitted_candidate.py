"""An emitted file judged as a candidate: what it does besides computing is asked of the candidate alone."""

from __future__ import annotations

from dataclasses import replace

from kernelagent.domain.evaluation import Evaluation
from kernelagent.dropin.own_text import without_drop_in
from kernelagent.tools.judge.source_reading.reading import disclosures


def read_without_drop_in(evaluation: Evaluation, source: str) -> Evaluation:
    """The evaluation with the remarks on the candidate's text, where the rest is the drop-in as this version emits it.

    What the drop-in does is in the file's header and tested; a file that was changed is read whole.
    """
    own = without_drop_in(source)
    if own is None:
        return evaluation
    whole = disclosures(source)
    kept = [one for one in evaluation.disclosures if one not in whole]
    if len(kept) == len(evaluation.disclosures):
        return evaluation
    return replace(evaluation, disclosures=(*kept, *disclosures(own)))
