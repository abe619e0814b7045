"""The Jinja templates of the reports; what each format escapes it brings along as filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from kernelagent.report.document import pieces

Filters = Mapping[str, Callable[..., Any]]


def environment(filters: Filters, *, escapes: bool = False) -> jinja2.Environment:
    """Templates of this folder; `escapes`: text that no filter has marked as safe is escaped."""
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=escapes,
        keep_trailing_newline=True,
    )
    result.filters |= {"pieces": pieces, "kind": lambda value: type(value).__name__, **filters}
    return result
