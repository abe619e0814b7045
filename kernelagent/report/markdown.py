"""A document as Markdown that is also read with ease as it is, in a pager.

Text of models, candidates and users is escaped: it can open no link, table, listing or HTML element.
"""

from __future__ import annotations

import re

from kernelagent.report.charts.svg import CONTROL
from kernelagent.report.document import (
    Block,
    Bullets,
    Chart,
    Code,
    Document,
    Figures,
    Folded,
    Mono,
    Paragraph,
    Strong,
    Table,
    Words,
    pieces,
)

# Only what Markdown would take for its own: `[1.2, 1.3]` and `a_name` stay as they are.
_SPECIAL = re.compile(
    r"([\\`*|]|\](?=[(\[:]|$)|<(?=[a-zA-Z/!?])|&(?=#?\w+;)|~(?=~)|(?<![^\W_])_|_(?![^\W_]))"
)
_BLOCK_START = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|[-=]+(?=\s*$)|>|\d+[.)](?=\s|$))")


def as_markdown(document: Document) -> str:
    """The whole document, ending in a newline."""
    parts = [f"# {_plain(document.title)}", _words(document.lead)]
    parts += [_block(block) for block in document.blocks]
    for section in document.sections:
        parts.append(f"## {_plain(section.title)}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Paragraph(words):
            return _words(words)
        case Bullets(items):
            return "\n".join(f"- {_words(item)}" for item in items)
        case Table():
            return _table(block)
        case Code(text, language):
            return _listing(text, language)
        case Chart(_, text):
            return _listing(text, "text")
        case Figures(figures):
            return "\n".join(
                f"- **{_plain(entry.number)}** {_plain(entry.label)} ({_plain(entry.doubt)})"
                for entry in figures
            )
        case Folded(summary, blocks):
            return "\n\n".join((f"### {_words(summary)}", *(_block(inner) for inner in blocks)))


def _table(table: Table) -> str:
    rules = ["---:" if column in table.right else "---" for column in range(len(table.heads))]
    rows = [[_plain(head) for head in table.heads], rules]
    rows += [[_words(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _listing(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{CONTROL.sub('�', text).rstrip()}\n{fence}"


def _words(words: Words) -> str:
    text = "".join(_piece(piece) for piece in pieces(words)).strip()
    # At the start of a line a few more characters would mean something.
    return _BLOCK_START.sub(_escaped_start, text)


def _escaped_start(start: re.Match[str]) -> str:
    sign = start.group()
    return f"{sign[:-1]}\\{sign[-1]}" if sign[0].isdigit() else f"\\{sign}"


def _piece(piece: str | Mono | Strong) -> str:
    if isinstance(piece, Mono):
        return _mono(piece.text)
    if isinstance(piece, Strong):
        return f"**{_plain(piece.text)}**"
    return _plain(piece)


def _plain(text: str) -> str:
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
