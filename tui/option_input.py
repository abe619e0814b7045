"""A field of the form that starts a run: one declared option, typed as text.

A further option on the form is a further name in `FORM`.
"""

from __future__ import annotations

from typing import Any

from textual.suggester import SuggestFromList
from textual.widgets import Input

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.options import OptionField, options_of
from kernelagent.domain.errors import UsageError

FORM = ("model", "turns")
"""The options that the form asks for; the others are the configuration's."""


class OptionInput(Input):
    """Shows the configuration's value, suggests the declared ones, reads back what was typed."""

    def __init__(self, name: str, value: Any) -> None:
        self.declared: OptionField = options_of(RunConfig)[name]
        text = ", ".join(value) if self.declared.repeatable else "" if value is None else str(value)
        super().__init__(
            text,
            id=name,
            placeholder=self.declared.option.help,
            type="integer" if self.declared.kind is int else "text",
            compact=True,
        )
        self.suggest(())

    def suggest(self, more: tuple[str, ...]) -> None:
        """Complete from the option's own values, and from `more`."""
        known = dict.fromkeys((*self.declared.option.values, *more))
        self.suggester = SuggestFromList(list(known), case_sensitive=True) if known else None

    def read(self) -> Any:
        """The value for the configuration; raises `UsageError`."""
        return value_of(self.declared, self.value)


def value_of(field: OptionField, text: str) -> Any:
    """What was typed into the field of an option, as the configuration has it; raises `UsageError`."""
    text = text.strip()
    if field.repeatable:
        values = tuple(part.strip() for part in text.split(",") if part.strip())
        if not values:
            raise UsageError(f"{field.name}: {field.option.help}")
        return values
    if field.kind is int:
        least = int(field.option.least or 0)
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"{field.name}: a number from {least}")
        return int(text)
    return text or None
