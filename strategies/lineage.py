"""Queries on a history: which models are left, which turn refined which, and whether it was faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelagent.domain.history import History, RequestKind, Turn, TurnRequest

GAIN = 0.01
"""A turn paid when it raised the score by this share; less is noise on any device."""


def evaluated(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns a verdict exists for: neither pending nor void."""
    return tuple(turn for turn in turns if turn.evaluation is not None)


def kind_after(parent: Turn | None) -> RequestKind:
    """What to ask for, given the turn that is refined."""
    if parent is None:
        return "write"
    return "optimise" if parent.accepted else "repair"


def available_models(models: Sequence[str], history: History) -> tuple[str, ...]:
    """The models that still have something to try, in the order they were named."""
    return tuple(model for model in models if model not in history.exhausted)


def model_for(models: Sequence[str], history: History, place: int) -> str | None:
    """Round robin: model number `place % len(models)`, or the next that is not exhausted; None if all are."""
    first = place % len(models)
    return next(iter(available_models((*models[first:], *models[:first]), history)), None)


def paid(child: Turn, parent: Turn) -> bool:
    """Whether the child is faster than its parent by more than noise."""
    return child.accepted and child.score >= parent.score * (1 + GAIN)


def side_by_side(
    history: History, in_flight: int, ask: Callable[[History], TurnRequest | None]
) -> tuple[TurnRequest, ...]:
    """Requests until `in_flight` are pending, each asked as if the ones before it were already."""
    requests: list[TurnRequest] = []
    for _ in range(in_flight - len(history.pending)):
        request = ask(history)
        if request is None:
            break
        requests.append(request)
        history = history.with_turn(Turn(len(history.turns), request))
    return tuple(requests)


@dataclass(frozen=True)
class Lineage:
    """The history as a forest: every evaluated turn, and what was asked of it."""

    nodes: dict[int, Turn]
    """The evaluated turns by index, oldest first."""
    asked: Mapping[int, tuple[Turn, ...]]
    """By parent: its children, oldest first, the pending and the void ones too."""
    trajectories: int
    """Trajectories begun so far."""

    @classmethod
    def of(cls, history: History) -> Lineage:
        return cls({}, {}, 0).with_turns(history.turns)

    def with_turns(self, turns: Sequence[Turn]) -> Lineage:
        """This forest with `turns`, asked for after all of its own, added to it."""
        asked = dict(self.asked)
        children: dict[int, list[Turn]] = {}
        begun = self.trajectories
        for turn in turns:
            begun = max(begun, turn.request.trajectory + 1)
            if turn.request.parent is not None:
                children.setdefault(turn.request.parent, []).append(turn)
        for parent, added in children.items():
            asked[parent] = (*asked.get(parent, ()), *added)
        added_nodes = {turn.index: turn for turn in evaluated(turns)}
        return Lineage(nodes={**self.nodes, **added_nodes}, asked=asked, trajectories=begun)

    def children(self, turn: Turn) -> tuple[Turn, ...]:
        return self.asked.get(turn.index, ())

    def parent(self, turn: Turn) -> Turn | None:
        """The evaluated turn that this one refined."""
        return None if turn.request.parent is None else self.nodes.get(turn.request.parent)

    def path(self, turn: Turn, length: int) -> tuple[int, ...]:
        """The last `length` turns of the line that leads to `turn`, itself included, oldest first."""
        line: list[int] = []
        at: Turn | None = turn
        while at is not None and len(line) < length:
            line.append(at.index)
            at = self.parent(at)
        return tuple(reversed(line))

    def trajectory_below(self, parent: Turn) -> int:
        """The first child goes on in its parent's trajectory, every other begins one of its own."""
        return self.trajectories if self.children(parent) else parent.request.trajectory
