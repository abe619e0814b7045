"""A document as one HTML file: no script, nothing from a network, light or dark as the reader has it.

Its form is `report.html.j2`; here is what makes text safe and listings coloured.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

from jinja2.filters import do_mark_safe as safe

from kernelagent.report.charts.svg import CONTROL, inline
from kernelagent.report.document import Code, Document
from kernelagent.report.templates import Filters, environment


def as_html(document: Document) -> str:
    """The whole page."""
    filters: Filters = {"text": _text, "listing": _listing, "inline": _inline}
    template = environment(filters, escapes=True).get_template("report.html.j2")
    return template.render(document=document, highlighting=safe(_highlighting()))


def _text(text: str) -> str:
    return safe(escape(CONTROL.sub("�", text), quote=True))


def _inline(drawing: str) -> str:
    return safe(inline(drawing))


def _listing(block: Code) -> str:
    kept = CONTROL.sub("�", block.text)
    if block.language != "python":
        return safe(f'<pre tabindex="0"><code>{escape(kept.rstrip())}</code></pre>')
    from pygments import highlight

    body = highlight(kept, _lexer(), _formatter("default"))
    return safe(f'<pre class="hl" tabindex="0"><code>{body.rstrip()}</code></pre>')


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
