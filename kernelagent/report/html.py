"""A document as one HTML file: no script, nothing from a network, light or dark as the reader has it."""

from __future__ import annotations

from functools import cache
from html import escape as _escape
from typing import Any

from kernelagent.report.charts.svg import CONTROL, inline
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
    Section,
    Strong,
    Table,
    Words,
    pieces,
)
from kernelagent.report.stylesheet import STYLES

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{styles}
</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{top}
</header>
<nav aria-label="Sections"><ul>
{links}
</ul></nav>
{sections}
</main>
</body>
</html>
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def as_html(document: Document) -> str:
    """The whole page."""
    named = [(f"s{number}", section) for number, section in enumerate(document.sections, 1)]
    return _PAGE.format(
        policy=_POLICY,
        title=_text(document.title),
        styles=f"{STYLES}\n{_highlighting()}",
        lead=_words(document.lead),
        top="\n".join(_block(block) for block in document.blocks),
        links="\n".join(f'<li><a href="#{at}">{_text(item.title)}</a></li>' for at, item in named),
        sections="\n".join(_section(at, section) for at, section in named),
    )


def _section(at: str, section: Section) -> str:
    inner = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{at}">\n<h2>{_text(section.title)}</h2>\n{inner}\n</section>'


def _block(block: Block) -> str:
    match block:
        case Paragraph(words):
            return f"<p>{_words(words)}</p>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_words(item)}</li>" for item in items) + "\n</ul>"
        case Table():
            return _table(block)
        case Code(text, language):
            return _listing(text, language)
        case Chart(svg, _):
            return f"<figure>\n{inline(svg)}</figure>"
        case Figures():
            return _figures(block)
        case Folded(summary, blocks):
            inner = "\n".join(_block(entry) for entry in blocks)
            return f"<details>\n<summary>{_words(summary)}</summary>\n{inner}\n</details>"


def _figures(block: Figures) -> str:
    boxes = "\n".join(
        f'<div><p class="number">{_text(item.number)}</p><p>{_text(item.label)}</p>'
        f'<p class="doubt">{_text(item.doubt)}</p></div>'
        for item in block.figures
    )
    return f'<div class="figures">\n{boxes}\n</div>'


def _table(table: Table) -> str:
    heads = "".join(
        f'<th scope="col"{_side(table, column)}>{_text(head)}</th>'
        for column, head in enumerate(table.heads)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td{_side(table, column)}>{_words(cell)}</td>" for column, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide" tabindex="0"><table>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _side(table: Table, column: int) -> str:
    return ' class="right"' if column in table.right else ""


def _listing(text: str, language: str) -> str:
    kept = CONTROL.sub("�", text)
    if language != "python":
        return f'<pre tabindex="0"><code>{_escape(kept.rstrip())}</code></pre>'
    from pygments import highlight

    body = highlight(kept, _lexer(), _formatter("default"))
    return f'<pre class="hl" tabindex="0"><code>{body.rstrip()}</code></pre>'


@cache
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer

    return PythonLexer(stripnl=False)


@cache
def _formatter(style: str) -> Any:
    from pygments.formatters.html import HtmlFormatter

    return HtmlFormatter(nowrap=True, style=style)


def _highlighting() -> str:
    light = _formatter("friendly").get_style_defs(".hl")
    dark = _formatter("github-dark").get_style_defs(".hl")
    kept = [
        [line for line in rules.splitlines() if line.startswith(".hl .")] for rules in (light, dark)
    ]
    lines = (*kept[0], "@media screen and (prefers-color-scheme: dark) {", *kept[1], "}")
    return "\n".join(lines)


def _words(words: Words) -> str:
    return "".join(_piece(piece) for piece in pieces(words))


def _piece(piece: str | Mono | Strong) -> str:
    if isinstance(piece, Mono):
        return f"<code>{_text(piece.text)}</code>"
    if isinstance(piece, Strong):
        return f"<strong>{_text(piece.text)}</strong>"
    return _text(piece)


def _text(text: str) -> str:
    return _escape(CONTROL.sub("�", text), quote=True)
