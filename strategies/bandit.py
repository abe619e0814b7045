"""A bandit: which request to which model pays, learnt during the run for each kind of bottleneck.

An arm is a kind of request, a model, and what the candidate to be refined is bound by. Pulling it
takes a turn; its reward is the gain over the parent, from 0 to 1. The next arm is the one of
highest upper confidence bound, or of the highest draw from its posterior.

Sources: UCB1 (Auer, Cesa-Bianchi, Fischer: "Finite-time Analysis of the Multiarmed Bandit Problem",
2002); Thompson sampling with a Beta posterior, payoffs in 0 to 1 counted as fractions of a success.
The candidate to refine is drawn as in the tree (`parents`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.history import History, RequestKind, Turn, TurnRequest
from kernelagent.strategies.lineage import Lineage, available_models, side_by_side
from kernelagent.strategies.options import a_share, at_least, one_of
from kernelagent.strategies.parents import dice, draw_parent

RULES = ("ucb", "thompson")
NOTHING = "nothing yet"


class Arm(NamedTuple):
    """One way to spend a turn."""

    kind: RequestKind
    model: str
    bottleneck: str
    """What the parent is bound by; see `bottleneck`."""


Known = Mapping[tuple[RequestKind, str, str], Sequence[float]]
"""By arm, as a plain tuple: what its pulls have paid."""


@dataclass(frozen=True)
class Bandit:
    """Before the first accepted kernel the choice is between repairing the last one and a new one."""

    models: tuple[str, ...]
    seed: int = 0
    rule: str = "ucb"
    """`ucb` or `thompson`."""
    exploration: float = 0.3
    """Factor on the confidence bound: 1 is UCB1, made for payoffs that fill 0 to 1; gains are small."""
    beam: int = 4
    penalty: float = 0.1
    window: int = 4
    in_flight: int = 1
    temperature: float = 1.0

    _remembered: _Remembered = field(
        default_factory=lambda: _Remembered(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        one_of(RULES, rule=self.rule)
        at_least(0, exploration=self.exploration)
        at_least(1, beam=self.beam, window=self.window, in_flight=self.in_flight)
        a_share(penalty=self.penalty)

    def next_turns(self, history: History) -> Sequence[TurnRequest]:
        return side_by_side(history, self.in_flight, self._pull)

    def _pull(self, history: History) -> TurnRequest | None:
        lineage, known = self._remembered.of(history)
        parent = self._parent(history, lineage)
        arms = [
            Arm(kind, model, bottleneck(None if kind == "write" else parent))
            for kind in kinds_for(parent)
            for model in available_models(self.models, history)
        ]
        if not arms:
            return None
        arm = self._choose(arms, known, history)
        if arm.kind == "write" or parent is None:
            return TurnRequest(
                "write", arm.model, trajectory=lineage.trajectories, temperature=self.temperature
            )
        return TurnRequest(
            kind=arm.kind,
            model=arm.model,
            parent=parent.index,
            window=lineage.path(parent, self.window),
            trajectory=lineage.trajectory_below(parent),
            temperature=self.temperature,
        )

    def _parent(self, history: History, lineage: Lineage) -> Turn | None:
        drawn = draw_parent(lineage, self.beam, self.penalty, dice(self.seed, history))
        return drawn or next(reversed(lineage.nodes.values()), None)

    def _choose(self, arms: Sequence[Arm], known: Known, history: History) -> Arm:
        paid = [known.get(arm, ()) for arm in arms]
        if self.rule == "ucb":
            worth = upper_bounds(paid, self.exploration)
        else:
            draw = dice(self.seed, history, "arm")
            worth = [draw.betavariate(1 + sum(p), 1 + len(p) - sum(p)) for p in paid]
        return arms[max(range(len(arms)), key=worth.__getitem__)]


def upper_bounds(paid: Sequence[Sequence[float]], exploration: float) -> list[float]:
    """Mean payoff plus √(2 ln N / n) for each arm; an arm never pulled comes before all others."""
    pulls = sum(map(len, paid))
    return [
        sum(p) / len(p) + exploration * math.sqrt(2 * math.log(pulls) / len(p)) if p else math.inf
        for p in paid
    ]


def payoffs(history: History, lineage: Lineage) -> Known:
    """What each pull of each arm paid; a pending turn is a pull that has paid nothing yet."""
    return _with_pulls({}, history.turns, lineage)


@dataclass
class _Remembered:
    """Forest and payoffs of a history; only turns added since the last call are walked.

    Finished turns never change, so results up to the first pending turn are cached. Where a different
    history is passed in, the cache is discarded.
    """

    settled: tuple[Turn, ...] = ()
    lineage: Lineage = field(default_factory=lambda: Lineage({}, {}, 0))
    known: Known = field(default_factory=dict)

    def of(self, history: History) -> tuple[Lineage, Known]:
        if history.turns[: len(self.settled)] != self.settled:
            self.settled, self.lineage, self.known = (), Lineage({}, {}, 0), {}
        rest = history.turns[len(self.settled) :]
        new = tuple(takewhile(lambda turn: not turn.pending, rest))
        if new:
            self.settled = (*self.settled, *new)
            self.lineage = self.lineage.with_turns(new)
            self.known = _with_pulls(self.known, new, self.lineage)
        waiting = rest[len(new) :]
        if not waiting:
            return self.lineage, self.known
        lineage = self.lineage.with_turns(waiting)
        return lineage, _with_pulls(self.known, waiting, lineage)


def _with_pulls(known: Known, turns: Sequence[Turn], lineage: Lineage) -> Known:
    result = defaultdict(list, {arm: list(paid) for arm, paid in known.items()})
    for turn in turns:
        parent = lineage.parent(turn)
        arm = (turn.request.kind, turn.request.model, bottleneck(parent))
        result[arm].append(payoff(turn, parent))
    return result


def payoff(turn: Turn, parent: Turn | None) -> float:
    """The gain over the parent in reward or in score, whichever is larger, from 0 to 1.

    The score counts too because the reward is clipped and, on `virtual`, holds no speed at all.
    """
    if not turn.accepted:
        return 0.0
    before = (parent.reward, parent.score) if parent is not None else (0.0, 0.0)
    return min(1.0, max(0.0, turn.reward - before[0], turn.score - before[1]))


def kinds_for(parent: Turn | None) -> tuple[RequestKind, ...]:
    """The kinds of request that make sense for a parent."""
    if parent is None:
        return ("write",)
    return ("optimise", "rethink") if parent.accepted else ("repair", "write")


def bottleneck(parent: Turn | None) -> str:
    """What limits the parent's costliest kernel, else what its estimate says, else that it is wrong."""
    if parent is None or parent.evaluation is None:
        return NOTHING
    return _bound(parent.evaluation) if parent.accepted else "not accepted"


def _bound(evaluation: Evaluation) -> str:
    classed = [kernel for kernel in evaluation.kernels if kernel.bound is not None]
    costliest = max(classed, key=lambda k: k.share_of_device_time or 0.0, default=None)
    if costliest is not None and costliest.bound is not None:
        return costliest.bound
    return evaluation.estimate.bound if evaluation.estimate else "unknown"
