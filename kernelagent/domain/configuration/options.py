"""How an option is declared: once, on the field that holds its value.

`RunConfig` and `ProblemSpec` carry an `Option` on each field that a user can set. The command line,
its help and reference, the form of the TUI and the command in a certificate are made from these.
"""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

PROBLEM, WRITER, SEARCH, LIMITS, JUDGING, OUTPUT, SCREEN = GROUPS = (
    "Your module",
    "Who writes the kernels",
    "How turns are chosen",
    "Limits (default: 20 turns, and 5 dollars with a priced model)",
    "How it is judged",
    "What is written",
    "What you see",
)
"""Groups of options, in the order in which they are thought about; `--help` shows them so."""


@dataclass(frozen=True)
class Option:
    """What a user is told about one option, and what may be typed for it."""

    help: str
    group: str
    values: tuple[str, ...] = ()
    """Completed by the shell; for a field of a `Literal` type they are its values."""
    shown: str | None = None
    """The default as help shows it, where that is not the field's own."""
    least: float | None = None
    """The smallest number that is taken."""
    most: float | None = None
    """The largest one."""
    shorthand: tuple[str, str] | None = None
    """A switch that stands for one value, and that value's help: `("train", "Short for ...")`."""


@dataclass(frozen=True)
class OptionField:
    """One declared option with the field it is declared on."""

    name: str
    option: Option
    kind: Any
    """`bool`, `int`, `float`, `str`, `tuple` or `dict`."""
    default: Any
    notes: tuple[Any, ...] = ()
    """What else stands in the field's annotation."""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def typed(self, value: Any) -> list[str]:
        """The words of a command line that give `value`; none for the default."""
        if value is None or value == self.default:
            return []
        if self.kind is bool:
            return [self.flag]
        if self.kind is dict:
            value = [f"{key}={item}" for key, item in value.items()]
        return [
            word
            for item in (value if self.repeatable else [value])
            for word in (self.flag, str(item))
        ]

    @property
    def repeatable(self) -> bool:
        return self.kind in {tuple, dict}

    @property
    def shown_default(self) -> str | None:
        """The default for a reader; None where there is none, or where it goes without saying."""
        if self.option.shown is not None:
            return self.option.shown
        if self.kind in {bool, dict} or self.default in {None, ()}:
            return None
        return ", ".join(self.default) if self.kind is tuple else str(self.default)


@cache
def options_of(record: type[Any]) -> dict[str, OptionField]:
    """The options that a dataclass declares, by name, in the order of its fields."""
    hints = get_type_hints(record, include_extras=True)
    defaults = {field.name: field for field in dataclasses.fields(record)}
    result = {}
    for name, hint in hints.items():
        if get_origin(hint) is not Annotated:
            continue
        hint, *notes = get_args(hint)
        for option in (note for note in notes if isinstance(note, Option)):
            kind, values = _kind(hint)
            option = dataclasses.replace(option, values=option.values or values)
            result[name] = OptionField(name, option, kind, _default(defaults[name]), tuple(notes))
    return result


def _kind(hint: Any) -> tuple[Any, tuple[str, ...]]:
    """The type without `None`, and the values of a `Literal`."""
    if get_origin(hint) in {Union, types.UnionType}:
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    return get_origin(hint) or hint, ()


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def listed(values: tuple[str, ...]) -> str:
    """`a, b or c`, for a help text."""
    return f"{', '.join(values[:-1])} or {values[-1]}"
