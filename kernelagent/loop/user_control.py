"""What the user may do to a run that goes on: stop it, pause it, steer it through its inbox."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kernelagent.domain.configuration.budget import Budget
from kernelagent.domain.events import Remarked
from kernelagent.loop.loop_state import LoopState
from kernelagent.models.kinds import why_unheard
from kernelagent.storage.inbox import Commands, NoCommand
from kernelagent.storage.steering import decide

LOOK_S = 0.2
"""How often a paused run looks into its inbox."""


@dataclass
class UserControl:
    """Asked between two steps of the loop."""

    state: LoopState
    commands: Commands
    stop_asked: Callable[[], bool]
    clock: Callable[[], float]
    wait: Callable[[float], object]
    models: Collection[str] = ()
    """The names of the run's models: words are refused where none of them reads a prompt."""
    paused_s: float = 0.0
    """How long the run has stood still, which no budget counts."""

    def why_ending(self, budget: Budget) -> str | None:
        """Apply the user's commands, waiting while paused; the reason where the run is to end now."""
        self._apply_commands(budget)
        if self.state.steering.paused:
            self._pause(budget)
        return "stopped by the user" if self.stop_asked() else self.state.steering.why_ending

    def _pause(self, budget: Budget) -> None:
        began = self.clock()
        while self.state.steering.paused and not (self.state.steering.ending or self.stop_asked()):
            self.wait(LOOK_S)
            self._apply_commands(budget)
        self.paused_s += self.clock() - began

    def _apply_commands(self, budget: Budget) -> None:
        state = self.state
        for command in self.commands.waiting():
            if isinstance(command, NoCommand):
                state.publish(Remarked("warning", command.why))
            elif command.id not in state.steering.taken:
                unheard = why_unheard(self.models)
                state.publish(decide(command, state.steering, state.history, budget, unheard))
            self.commands.done(command.id)
