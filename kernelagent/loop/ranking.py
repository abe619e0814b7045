"""A reply with several files: each gets a look without verifying, and the best of them is judged.

On `virtual` the look is the tool `check`, whose estimate ranks; on `cuda` it is `bench`, which times
(never run on a GPU so far). A ranking that the log has already is taken from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Reason
from kernelagent.domain.events import CandidatesRanked, Event, RankedCandidate
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.domain.replies.tool_registry import BENCH, CHECK
from kernelagent.loop.queries.tools import ToolHost


@dataclass(frozen=True)
class Ranker:
    """Chooses among the files of one reply."""

    host: ToolHost | None
    """Who looks; None: nobody does, and the first file is taken."""
    device: str
    """`cuda` or `virtual`."""
    seconds: float
    """For all looks at one reply together."""
    publish: Callable[[Event], None]
    earlier: Mapping[int, CandidatesRanked] = field(default_factory=dict)
    """By turn: what an interrupted part of the run has ranked."""

    def ranking(
        self, turn: int, candidates: Sequence[Candidate], repeated: Mapping[str, str]
    ) -> CandidatesRanked:
        """The order, logged before anything is judged; `repeated`: by id, what was tried before."""
        ids = {candidate.id for candidate in candidates}
        before = self.earlier.get(turn)
        if before is not None and {row.candidate for row in before.ranked} == ids:
            return before
        rows: list[RankedCandidate] = []
        left = self.seconds
        for place, candidate in enumerate(candidates, 1):
            row = RankedCandidate(place, candidate.id, stopped=repeated.get(candidate.id))
            if row.stopped is None and self.host is not None:
                if left > 0:
                    result = self.host.call_tool(self._look(candidate), left)
                    left -= result.seconds
                    row = _with_result(row, result)
                else:
                    row = replace(row, stopped="not looked at: the seconds were used up")
            rows.append(row)
        order = sorted(rows, key=lambda row: _rank(row, repeated))
        event = CandidatesRanked(
            turn, tuple(order), measured=self.device == "cuda", seconds=self.seconds - left
        )
        self.publish(event)
        return event

    def _look(self, candidate: Candidate) -> ToolCall:
        return ToolCall.of(BENCH if self.device == "cuda" else CHECK, code=candidate.source)


def _rank(row: RankedCandidate, repeated: Mapping[str, str]) -> tuple[int, float, int]:
    """What has a time before what has none, what was tried before last; then the order of the reply."""
    if row.candidate in repeated:
        return 2, 0.0, row.place
    return (1, 0.0, row.place) if row.gain is None else (0, -row.gain, row.place)


def _with_result(row: RankedCandidate, result: ToolResult) -> RankedCandidate:
    if result.checked is not None and result.checked.estimate is not None:
        estimate = result.checked.estimate
        return replace(row, us=estimate.candidate_us, gain=estimate.ratio)
    if result.benched is not None and result.benched.timing is not None:
        timing = result.benched.timing
        return replace(row, us=timing.candidate_us, gain=timing.speedup_eager.value)
    part = result.checked or result.benched
    fault = None if part is None else part.fault
    return replace(row, stopped=_words(fault) or result.unfit)


def _words(fault: Reason | None) -> str | None:
    return None if fault is None else f"{fault.code}: {fault.message}"
