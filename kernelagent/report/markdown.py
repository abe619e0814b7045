"""A document as Markdown that is also read with ease as it is, in a pager.

Its form is `report.md.j2`; here is the escaping. Text of models, candidates and users can open no link,
table, listing or HTML element.
"""

from __future__ import annotations

import re

from kernelagent.report.charts.svg import CONTROL
from kernelagent.report.document import Document
from kernelagent.report.templates import Filters, environment

# Only what Markdown would take for its own: `[1.2, 1.3]` and `a_name` stay as they are. `[a][b]` needs
# a definition `[b]: ...` somewhere, which cannot be written here.
_SPECIAL = re.compile(
    r"([\\`*|]|\](?=[(:]|$)|<(?=[a-zA-Z/!?])|&(?=#?\w+;)|~(?=~)|(?<![^\W_])_|_(?![^\W_]))"
)
_BLOCK_START = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|[-=]+(?=\s*$)|>|\d+[.)](?=\s|$))")


def as_markdown(document: Document) -> str:
    """The whole document, ending in a newline."""
    filters: Filters = {"plain": plain_text, "mono": _mono, "line": line_of, "listing": _listing}
    return environment(filters).get_template("report.md.j2").render(document=document)


def _listing(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{CONTROL.sub('�', text).rstrip()}\n{fence}"


def line_of(text: str) -> str:
    """Pieces that were escaped one by one, as a line of Markdown."""
    # At the start of a line a few more characters would mean something.
    # A piece that ends in a bracket may have a `(` after it; the whole line has none.
    whole = re.sub(r"\\\]$", "]", text.strip())
    return _BLOCK_START.sub(_escaped_start, whole)


def _escaped_start(start: re.Match[str]) -> str:
    sign = start.group()
    return f"{sign[:-1]}\\{sign[-1]}" if sign[0].isdigit() else f"\\{sign}"


def plain_text(text: str) -> str:
    """Text in which nothing means something to Markdown."""
    return (
        _SPECIAL.sub(r"\\\1", _one_line(text)).replace("://", ":\\/\\/").replace("www.", "www\\.")
    )


def _mono(text: str) -> str:
    """A code span; where it would end a table's cell, its bar is escaped as tables want it."""
    line = _one_line(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    tick = "`" * (longest + 1)
    gap = " " if line[:1] == "`" or line[-1:] == "`" or not line else ""
    return f"{tick}{gap}{line}{gap}{tick}"


def _one_line(text: str) -> str:
    return CONTROL.sub("�", " ".join(re.split(r"[\n\r\t\x0b\x0c\x85\u2028\u2029]+", text)))
