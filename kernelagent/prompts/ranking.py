"""Which of several files in a reply is judged, in one sentence; the same for the writer and for the terminal."""

from __future__ import annotations

from kernelagent.domain.events import CandidatesRanked, RankedCandidate

_WHY = 160


def ranking_text(event: CandidatesRanked) -> str:
    """The file that is judged first, then the others as they came out."""
    first, *others = event.ranked
    how = "as timed" if event.measured else "by its estimate, not measured"
    if first.us is None:
        why = "none has a time; it is the first that is left"
    elif any(other.us is not None for other in others):
        why = f"the fastest {how}"
    else:
        why = "the only one with a time"
    reported = "; ".join(_row(row) for row in event.ranked)
    return f"of {len(event.ranked)} files in the reply, file {first.place} is judged, {why} ({reported})"


def _row(row: RankedCandidate) -> str:
    if row.us is not None:
        return f"file {row.place}: {row.us:.1f} us"
    return f"file {row.place}: {(row.stopped or 'no time').strip().splitlines()[0][:_WHY]}"
