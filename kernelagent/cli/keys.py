"""`kernelagent keys set|list|forget`: keys in the OS keyring, never in a file of ours, never shown."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from kernelagent.cli.terminal.completion import among
from kernelagent.domain.errors import EnvironmentFault, UsageError

keyring = typer.Typer(
    no_args_is_help=True, help="Keep the keys of model providers in the OS keyring."
)
_NO_KEYRING = (
    "the package keyring is not installed: pip install -e '.[keyring]'; or set the variable in "
    "the environment"
)


def _known() -> tuple[str, ...]:
    from kernelagent.loop.preflight.endpoint import KEYS

    return tuple(dict.fromkeys(name for names in KEYS.values() for name in names))


def _complete(incomplete: str) -> list[str]:
    return among(_known())(incomplete)


Variable = Annotated[
    str, typer.Argument(help="For example OPENAI_API_KEY.", autocompletion=_complete)
]


@keyring.command("set")
def set_(variable: Variable) -> None:
    """Keep a key: asked for without an echo, or read from a pipe.

    Example: kernelagent keys set OPENAI_API_KEY
    """
    _require_name(variable)
    store = _store()
    if sys.stdin.isatty():
        key = str(typer.prompt(variable, hide_input=True))
    else:
        key = sys.stdin.readline().strip()
    if not key:
        raise UsageError("no key was given; nothing was changed")
    _run(lambda: store.set_password(_service(), variable, key))
    sys.stdout.write(f"{variable} is kept in the keyring; the environment wins over it\n")


@keyring.command("list")
def list_() -> None:
    """Say which keys are there, and where; the keys themselves are never shown.

    Example: kernelagent keys list
    """
    from kernelagent.models.endpoint.keys import from_keyring

    for name in _known():
        where = "environment" if os.environ.get(name) else None
        where = where or ("keyring" if from_keyring(name) else "-")
        sys.stdout.write(f"{name:22} {where}\n")


@keyring.command("forget")
def forget(variable: Variable) -> None:
    """Take a key out of the keyring.

    Example: kernelagent keys forget OPENAI_API_KEY
    """
    store = _store()
    _run(lambda: store.delete_password(_service(), variable))
    sys.stdout.write(f"{variable} is no longer in the keyring\n")


def _require_name(variable: str) -> None:
    if not variable.isidentifier() or variable.upper() != variable:
        raise UsageError(
            f"{variable!r} is not the name of a variable; give the name, for example OPENAI_API_KEY, "
            f"and the key itself when it is asked for"
        )


def _service() -> str:
    from kernelagent.models.endpoint.keys import SERVICE

    return SERVICE


def _store() -> Any:
    try:
        import keyring as store
    except ImportError as error:
        raise EnvironmentFault(_NO_KEYRING) from error
    return store


def _run(act: Any) -> None:
    try:
        act()
    except Exception as error:  # keyrings are plug-ins
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EnvironmentFault(
            f"the keyring did not take it: {why}; set the variable in the environment instead"
        ) from error
