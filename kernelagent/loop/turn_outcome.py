"""A turn from its reply to its outcome: the candidate is read, refused if repeated, evaluated, rewarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kernelagent.domain.candidate import Candidate, NoCandidate, parse_candidates
from kernelagent.domain.configuration.budget import CHARACTERS_PER_TOKEN
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.events import BestChanged, Evaluated, ReplyReceived, TurnVoid, stage_event
from kernelagent.domain.history import Turn
from kernelagent.domain.rewards import reward
from kernelagent.loop.loop_state import LoopState
from kernelagent.loop.ranking import Ranker
from kernelagent.prompts.feedback import feedback_for, void_feedback
from kernelagent.prompts.ranking import ranking_text
from kernelagent.prompts.repeats import readded_lines, same_as, summary


class Evaluator(Protocol):
    """Judges candidates; a failed candidate is a value, a failed judge raises."""

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation: ...


@dataclass(frozen=True)
class TurnFinisher:
    """Finishes turns; the history and the log have each outcome before the next turn is asked."""

    state: LoopState
    evaluator: Evaluator
    keep_candidate: Callable[[int, Candidate], object]
    config: RunConfig
    ranker: Ranker

    def finish(self, turn: Turn) -> None:
        """Give a turn with a reply its outcome; a reply cut off by a kill counts as far as it came."""
        if turn.reply is None:
            turn = self._with_lost_end(turn)
        self.state.history = self.state.history.with_turn(turn)
        parsed = parse_candidates(turn.reply or "", turn.finish, self.config.candidates)
        if isinstance(parsed, NoCandidate):
            self._void(turn, parsed.why)
            return
        repeated = self._repeated(parsed)
        if len(repeated) == len(parsed):
            self._void(turn, repeated[parsed[-1].id])
            return
        chosen, how = parsed[-1], ""
        if len(parsed) > 1:
            ranking = self.ranker.ranking(turn.index, parsed, repeated)
            chosen = next(c for c in parsed if c.id == ranking.chosen)
            how = f"\nRanked: {ranking_text(ranking)}."
        self._evaluated(replace(turn, candidate=chosen), chosen, how)

    def _with_lost_end(self, turn: Turn) -> Turn:
        # The count that the provider would have reported is lost with the end of the reply.
        tokens = len(turn.arrived) // CHARACTERS_PER_TOKEN
        model = turn.request.model
        self.state.publish(
            ReplyReceived(turn.index, model, turn.arrived, tokens_out=tokens, finish="lost")
        )
        return replace(turn, reply=turn.arrived, finish="lost", arrived="")

    def _repeated(self, candidates: Sequence[Candidate]) -> dict[str, str]:
        """For each candidate that an earlier turn has tried, by id: why it is not judged again."""
        earlier = ((c, same_as(self.state.history, c)) for c in candidates)
        return {
            candidate.id: f"repeated: this is the candidate of turn {turn.index} again, but for names, "
            f"comments or layout, and nothing new can come of it ({summary(turn)}); change "
            f"what it does"
            for candidate, turn in earlier
            if turn is not None
        }

    def _void(self, turn: Turn, why: str) -> None:
        self.state.publish(TurnVoid(turn.index, why))
        void = Turn(
            turn.index,
            turn.request,
            turn.reply,
            turn.finish,
            feedback=void_feedback(why),
            void=why,
        )
        self.state.history = self.state.history.with_turn(void)

    def _evaluated(self, turn: Turn, candidate: Candidate, how: str) -> None:
        """`how`: goes into the feedback: how this candidate was chosen where the reply held several; else empty."""
        self.keep_candidate(turn.index, candidate)
        before = self.state.history.best
        evaluation = self.evaluator.evaluate(
            candidate, lambda stage: self.state.publish(stage_event(turn.index, stage))
        )
        done = Turn(
            index=turn.index,
            request=turn.request,
            reply=turn.reply,
            finish=turn.finish,
            candidate=candidate,
            evaluation=evaluation,
            feedback=self._feedback(evaluation, turn) + how,
            reward=reward(evaluation, self.config.reward),
        )
        self.state.history = self.state.history.with_turn(done)
        self.state.publish(
            Evaluated(
                turn.index,
                candidate.id,
                candidate.source,
                evaluation,
                done.reward,
                done.feedback,
            )
        )
        best = self.state.history.best
        if best is not None and (before is None or best.index != before.index):
            self.state.publish(BestChanged(best.index, best.score))

    def _feedback(self, evaluation: Evaluation, turn: Turn) -> str:
        again = readded_lines(self.state.history, turn)
        parent = turn.request.parent
        before = None if parent is None else self.state.history.turn(parent).evaluation
        words = feedback_for(evaluation, before)
        return words + (f"\n{again}" if again is not None else "")
