"""Which launches are executed from their Triton IR as well, and how the interpreter does some of their programs again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelagent.tools.virtual.device.binding import Bound, Kernel
from kernelagent.tools.virtual.executor.deadline import Clock, deadline
from kernelagent.tools.virtual.executor.launch import Launch
from kernelagent.tools.virtual.executor.launch_log import Logged
from kernelagent.tools.virtual.executor.requests import LaunchRequest
from kernelagent.tools.virtual.interpreter.interpreter import Program

if TYPE_CHECKING:
    from kernelagent.tools.virtual.executor.launching import Launcher

_RERUN_S = 0.5
"""How long programs may be interpreted again."""


def before(launcher: Launcher, wanted: LaunchRequest) -> Any:
    """What a launch begins with that is compared; None: it is not, because it does not run as it is."""
    ordinary = launcher.mode == "execute" and launcher.watch_races
    otherwise = launcher.in_turns, launcher.order, launcher.errs, launcher.replay
    if not ordinary or launcher.numbers_in_lanes or any(item is not None for item in otherwise):
        return None
    if launcher.compared is None:
        from kernelagent.tools.virtual.executor.compared import Compared

        launcher.compared = Compared()
    return launcher.compared.begins(wanted, launcher.arena.memory)


def compare(launcher: Launcher, kept: Any, logged: Logged, wanted: LaunchRequest) -> None:
    """Raises `MemoryFault` where the compiled code stores something else than the launch has left."""
    from kernelagent.tools.virtual.executor.compared import Usual

    ordered = wanted.handle in launcher.order_matters
    rerun = partial(_interpreted_again, launcher.interpreter, logged.kernel)
    usual = Usual(logged.kernel, wanted, ordered, logged.seconds, rerun)
    launcher.compared.ends(kept, launcher.arena.memory, usual)


def _interpreted_again(
    interpreter: Any,
    kernel: Kernel,
    bound: Bound,
    launch: Launch,
    programs: Sequence[Program],
    ordered: bool,
) -> bool:
    """The same programs once more, in other memory; whether they ended."""
    given = kernel.function, bound.arguments, launch
    interpreter.store_as("execute", one_value_each=False)
    interpreter.watch_fresh(None)
    interpreter.note_choices(None)
    limit = deadline(_RERUN_S, Clock(launch, _RERUN_S, projects=False).late)
    how = interpreter.how
    try:
        if ordered:
            interpreter.reference.builder.pointees = launch.pointees
            interpreter.reference.run(*given, programs=programs, limit=limit)
        else:
            interpreter.run(*given, programs=programs, limit=limit)
    except Exception:  # noqa: BLE001 - the interpreted kernel may raise anything
        return False
    finally:
        interpreter.how = how
    return True
