"""What `--help` says of an option's value: a switch has none, and a number with limits is a number.

`Any` stands for the classes of click, which Typer carries in a private package.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


class PlainCommand(TyperCommand):
    """A command whose switches are not called `<bool>`, nor its numbers `<int range>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx), ctx)


class PlainGroup(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx), ctx)


def say_plainly(app: typer.Typer) -> None:
    """Every command and group of `app` is shown so."""
    app.info.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            say_plainly(group.typer_instance)


def _plain(params: list[Any], ctx: Any) -> list[Any]:
    for param in params:
        if not isinstance(param, TyperOption) or param.metavar is not None:
            continue
        if param.is_flag:
            param.metavar = ""
        else:
            # The limits stand beside it: `<int> [x>=1]`.
            param.metavar = str(param.display_type(ctx)).replace(" range>", ">")
    return params
