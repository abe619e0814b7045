"""What a user does to a run that goes on: commands in, `Steered` events out, and the fold over them.

The files of the commands are `inbox`; the loop that obeys is `session`. Because every act is an
event, a resumed run and a replayed log are steered as the run itself was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from kernelagent.domain.configuration.budget import RUN_LIMITS, Budget
from kernelagent.domain.events import Act, Event, RunFinished, RunResumed, Steered, TurnStarted
from kernelagent.domain.history import History, RequestKind, Turn, TurnRequest

LIMITS = {
    name: limit.name for limit in RUN_LIMITS.values() for name in (limit.name, *limit.other_names)
}
"""How a user may name a limit, and the field of `Budget` that it is."""
_WHOLE = {limit.name for limit in RUN_LIMITS.values() if limit.whole}


@dataclass(frozen=True)
class Command:
    """One act, as it was asked for; whether anything comes of it the controller decides."""

    act: Act
    text: str = ""
    """The hint, or the direction."""
    turn: int | None = None
    limits: dict[str, str] = field(default_factory=dict)
    """New limits by name; `+5` adds to the one in force."""
    id: str = ""
    """The name of its file; a run takes no command twice."""


@dataclass(frozen=True)
class Steering:
    """What the user's acts so far mean for the next step."""

    paused: bool = False
    ending: Literal["stop", "emit"] | None = None
    """How the run is to end now."""
    hints: tuple[str, ...] = ()
    """For the next turn or batch; gone once all of it has begun."""
    bans: tuple[str, ...] = ()
    pinned: int | None = None
    limits: dict[str, float] = field(default_factory=dict)
    """By field of `Budget`; only ever above what the run began with."""
    taken: frozenset[str] = frozenset()
    """The commands that are in the log already."""

    @property
    def why_ending(self) -> str | None:
        """A sentence when the user has ended the run, else None."""
        if self.ending is None:
            return None
        return {"stop": "stopped by the user", "emit": "accepted by the user"}[self.ending]

    def after(self, event: Event) -> Steering:
        """This steering once `event` has happened."""
        match event:
            case Steered() as e:
                known = replace(self, taken=self.taken | {e.command})
                return known if e.refused is not None else known._with(e)
            case TurnStarted(batch=batch) as e if self.hints and e.turn == max(batch, default=0):
                # Hints are used up once the whole batch has begun: one that a kill cut short is asked again, with them.
                return replace(self, hints=())
            case RunFinished() | RunResumed() if self.paused or self.ending:
                return replace(self, paused=False, ending=None)
            case _:
                return self

    def _with(self, event: Steered) -> Steering:
        match event.act:
            case "pause" | "resume":
                return replace(self, paused=event.act == "pause")
            case "stop" | "emit":
                return replace(self, ending=event.act)
            case "hint":
                return replace(self, hints=(*self.hints, event.text))
            case "pin":
                return replace(self, pinned=event.turn)
            case "unpin":
                return replace(self, pinned=None)
            case "ban":
                return replace(self, bans=(*self.bans, event.text))
            case "unban":
                return replace(self, bans=tuple(ban for ban in self.bans if ban != event.text))
            case "budget":
                return replace(self, limits=self.limits | event.limits)

    def requests(self, asked: Sequence[TurnRequest], history: History) -> list[TurnRequest]:
        """What the strategy asks for, each with the pinned turn as its parent and in its window."""
        if self.pinned is None:
            return list(asked)
        pinned = history.turn(self.pinned)
        return [_from_parent(request, pinned) for request in asked]

    @property
    def words(self) -> str:
        """What the user has to say, for the end of the next prompt."""
        message = []
        if self.bans:
            listed = "\n".join(f"- {ban}" for ban in self.bans)
            message.append(
                f"The user has ruled these directions out; stay away from them:\n{listed}"
            )
        if self.hints:
            listed = "\n".join(f"- {hint}" for hint in self.hints)
            message.append(f"The user says for this turn:\n{listed}")
        return "\n\n".join(message)

    def raised(self, budget: Budget) -> Budget:
        """The limits in force: the higher of the run's own and the user's."""
        own = asdict(budget)
        higher = {
            name: max(own[name], limit)
            for name, limit in self.limits.items()
            if own[name] is not None
        }
        return replace(
            budget, **{name: int(v) if name in _WHOLE else v for name, v in higher.items()}
        )


def decide(
    command: Command,
    steering: Steering,
    history: History,
    budget: Budget,
    unheard: str | None = None,
) -> Steered:
    """What comes of a command; one that fits nothing is refused with a sentence, never dropped.

    `budget`: the run's own. `unheard`: why no words reach a model of this run, where none does.
    """
    taken = Steered(command.id, command.act, command.text.strip(), command.turn)
    match command.act:
        case "pause" if steering.paused:
            return replace(taken, refused="the run is paused already")
        case "resume" if not steering.paused:
            return replace(taken, refused="the run is not paused")
        case "unpin" if steering.pinned is None:
            return replace(taken, refused="no turn is pinned")
        case "emit" if history.best is None:
            return replace(taken, refused="no turn has been accepted yet; nothing can be emitted")
        case "hint" | "ban" if not taken.text:
            return replace(taken, refused=f"a {command.act} without words")
        case "hint" | "ban" if unheard is not None:
            return replace(taken, refused=unheard)
        case "ban" if taken.text in steering.bans:
            return replace(taken, refused="this direction is ruled out already")
        case "unban" if taken.text not in steering.bans:
            listed = "; ".join(steering.bans) or "none"
            return replace(taken, refused=f"no such direction; ruled out: {listed}")
        case "pin":
            return replace(taken, refused=_why_not_pinned(command.turn, history))
        case "budget":
            return _budgeted(taken, command.limits, steering.raised(budget))
        case _:
            return taken


def _why_not_pinned(turn: int | None, history: History) -> str | None:
    known = {t.index: t for t in history.turns}
    if turn not in known:
        return f"there is no turn {turn}; turns so far: {len(known)}"
    if known[turn].candidate is None:
        return f"turn {turn} has no candidate to go on from"
    return None


def _budgeted(taken: Steered, asked: dict[str, str], in_force: Budget) -> Steered:
    limits: dict[str, float] = {}
    for name, text in asked.items():
        if name not in LIMITS:
            return replace(taken, refused=f"no limit {name!r}; limits: {', '.join(sorted(LIMITS))}")
        now = asdict(in_force)[LIMITS[name]]
        if now is None:
            return replace(taken, refused=f"the run has no limit of {name}: nothing to raise")
        try:
            amount = float(text)
        except ValueError:
            return replace(taken, refused=f"{name}={text}: write a number, or +5 to add")
        new = now + amount if text.lstrip().startswith("+") else amount
        if not now <= new < float("inf"):
            return replace(taken, refused=f"{name}={text}: a limit is only raised; it is {now:g}")
        limits[LIMITS[name]] = new
    if not limits:
        return replace(taken, refused="no limit named; write, for example, turns=+5")
    return replace(taken, limits=limits)


def _from_parent(request: TurnRequest, parent: Turn) -> TurnRequest:
    window = request.window
    if parent.index not in window:
        window = tuple(sorted((*window, parent.index)))
    kind: RequestKind = request.kind
    if kind != "rethink":
        kind = "optimise" if parent.accepted else "repair"
    return replace(request, parent=parent.index, window=window, kind=kind)
