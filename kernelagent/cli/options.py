"""Options that are declared on `RunConfig` and `ProblemSpec`, as options of commands.

`@takes(...)` gives a command those it names, in the groups of `--help`; they arrive as one `Options`.
Options that belong to one command stand in its signature; the few that several share are below.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from kernelagent.cli.terminal.completion import among, runs
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.configuration.options import GROUPS, SCREEN, SEARCH, OptionField, options_of
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec

RUN = options_of(RunConfig)
"""What `optimize` takes: a field of the configuration with an `Option` is a flag of it."""
NAMES = options_of(ProblemSpec)
"""How to find the problem inside its file."""
JUDGE = tuple(name for name in RUN if name in {field.name for field in fields(JudgeSettings)})
"""What the verdict on a candidate depends on."""


def switch(help_: str, panel: str, *names: str) -> Any:
    """An option without a value."""
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar="", show_default=False)


Problem = Annotated[
    str,
    typer.Argument(
        help="A Python file with `class Model` and `get_inputs()`, FILE.py:Name, or pkg.mod:Name.",
        show_default=False,
    ),
]
Run = Annotated[str, typer.Argument(help="A run's id or folder.", autocompletion=runs)]
Resume = Annotated[
    str | None,
    typer.Option(
        help="Go on with this run (id or path).",
        rich_help_panel=SEARCH,
        show_default=False,
        autocompletion=runs,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file; flags win over it.",
        rich_help_panel=SCREEN,
        show_default="kernelagent.toml",
    ),
]
AsJson = Annotated[bool, switch("One JSON object on stdout, nothing else.", SCREEN, "--json")]
Quiet = Annotated[bool, switch("No progress: only the last words.", SCREEN, "--quiet", "-q")]


@dataclass(frozen=True)
class Options:
    """What was typed of the options that a command takes."""

    flags: Mapping[str, Any]
    """Options of a run as `resolve` takes them; None: not typed."""
    names: Mapping[str, str | None]
    """How to find the problem inside its file."""

    @classmethod
    def typed(cls, values: Mapping[str, Any]) -> Options:
        """From a command's arguments; raises `UsageError` on a --set that is no key=value."""
        flags = {name: _read(RUN[name], values[name]) for name in RUN if name in values}
        for field in RUN.values():
            if field.option.shorthand is not None and values.get(field.option.shorthand[0]):
                flags[field.name] = field.option.shorthand[0]
        return cls(flags, {name: values.get(name) for name in NAMES})


def takes(
    *names: str, words: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the declared options of these names; they arrive as its parameter `options`.

    `words`: help where an option means something else here. For a Typer command below its
    `@app.command()`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "options"
        ]
        mine = {parameter.name for parameter in own}

        def called(**values: Any) -> None:
            given = {name: values[name] for name in mine}
            shared = {name: value for name, value in values.items() if name not in mine}
            command(**given, options=Options.typed(shared))

        parameters = [*own, *_parameters(names, words or {})]
        parameters.sort(key=_place)
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__module__ = command.__module__
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        vars(called)["__signature__"] = inspect.Signature(parameters)
        return called

    return decorate


def every_option_but(*names: str) -> tuple[str, ...]:
    """The names of a run's options, less these; raises `KeyError` where one is none."""
    return tuple(name for name in RUN if name not in {RUN[name].name for name in names})


def _parameters(names: Iterable[str], words: Mapping[str, str]) -> Iterable[inspect.Parameter]:
    for name in names:
        field = (RUN | NAMES)[name]
        if name in words:
            # What it means here has another default, if any: the command's text says which.
            field = replace(field, option=replace(field.option, help=words[name], shown=""))
        yield _parameter(name, _type(field), _info(field))
        if field.option.shorthand is not None:
            value, help_ = field.option.shorthand
            yield _parameter(value, bool, switch(help_, field.option.group, f"--{value}"))


def _parameter(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else None,
        annotation=Annotated[kind, info],
    )


def _type(field: OptionField) -> Any:
    if field.kind is bool:
        return bool
    return list[str] | None if field.repeatable else field.kind | None


def _info(field: OptionField) -> Any:
    option = field.option
    if field.kind is bool:
        return switch(option.help, option.group, field.flag)
    return typer.Option(
        field.flag,
        help=option.help,
        rich_help_panel=option.group,
        show_default=field.shown_default or False,
        min=option.least,
        max=option.most,
        autocompletion=among(option.values) if option.values else None,
    )


def _place(parameter: inspect.Parameter) -> tuple[bool, int]:
    """Arguments first, then the command's own options, then group by group."""
    info = get_args(parameter.annotation)[1] if get_origin(parameter.annotation) else None
    if not isinstance(info, OptionInfo):
        return False, 0
    panel = info.rich_help_panel
    return True, GROUPS.index(panel) + 1 if panel in GROUPS else 0


def _read(field: OptionField, typed: Any) -> Any:
    """A typed value as the configuration has it; None where nothing was typed."""
    if field.kind is bool:
        # A switch that is off was not typed: the configuration file may have it on.
        return typed or None
    return _pairs(typed) if field.kind is dict else typed


def _pairs(given: list[str] | None) -> dict[str, str] | None:
    """What --set was given; raises `UsageError` on what is no key=value."""
    if given is None:
        return None
    result = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write key=value")
        result[key] = value
    return result
