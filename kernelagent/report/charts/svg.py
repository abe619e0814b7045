"""The parts every SVG drawing is put together from: the document, its styles, escaped text."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from html import escape as _escape

# Okabe and Ito's palette, told apart by colour-blind readers; each stands out on white and on black.
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7a7a7a")
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""What no text shows: control characters, marks that turn the direction of writing, half characters."""

_BASE = """
svg.chart { background: #ffffff; color: #1f2328; font: 12px system-ui, sans-serif; }
.chart text { fill: currentColor; }
.chart .title { font-size: 14px; font-weight: 600; }
.chart .small { font-size: 11px; }
.chart .warning { font-weight: 600; fill: #953800; }
.chart .middle { text-anchor: middle; }
.chart .end { text-anchor: end; }
.chart .grid { stroke: currentColor; stroke-opacity: 0.15; fill: none; }
.chart .axis { stroke: currentColor; fill: none; }
.chart .line { fill: none; stroke-width: 2; }
.chart .band { fill-opacity: 0.12; stroke: none; }
"""
_DARK = """
@media screen and (prefers-color-scheme: dark) {
svg.chart { background: #0d1117; color: #e6edf3; }
.chart .warning { fill: #ffb366; }
.chart .band { fill-opacity: 0.2; }
"""


def plain(words: str) -> str:
    """The words as XML may hold them: no control characters, one line."""
    return CONTROL.sub("\ufffd", " ".join(words.split("\n")))


def escape(words: str) -> str:
    """The words as text or as the value of an attribute."""
    return _escape(plain(words), quote=True)


def document(
    width: float,
    height: float,
    parts: Iterable[str],
    *,
    title: str,
    description: str,
    styles: str = "",
    dark: str = "",
) -> str:
    """A whole SVG document with no reference to anything outside it.

    `styles` and `dark` are CSS rules below `.chart`, for both schemes and for the dark one.
    """
    # Several drawings may stand on one page: their ids must differ, and be the same in every run.
    name = f"chart-{zlib.crc32(f'{title}|{description}|{width}|{height}'.encode()):08x}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" aria-labelledby="{name}-t {name}-d">'
    )
    message = (
        f'<title id="{name}-t">{escape(title)}</title>\n'
        f'<desc id="{name}-d">{escape(description)}</desc>'
    )
    css = f"<style>{_BASE}{series_styles()}\n{styles}{_DARK}{dark}}}\n</style>"
    return "\n".join((head, message, css, *parts, "</svg>")) + "\n"


def inline(drawing: str) -> str:
    """The drawing as a part of an HTML page, where the namespace is understood."""
    return drawing.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)


def series_styles() -> str:
    """The hue of each series' line, band and mark."""
    return "\n".join(
        f".chart .line.c{which} {{ stroke: {hue}; }} "
        f".chart .band.c{which}, .chart .mark.c{which} {{ fill: {hue}; }}"
        for which, hue in enumerate(HUES)
    )


def text(x: float, y: float, words: str, kind: str = "", more: str = "") -> str:
    """One line of text whose baseline begins at (x, y); `more` is a further attribute."""
    kinds = f' class="{kind}"' if kind else ""
    gap = " " if more else ""
    return f'<text x="{x:g}" y="{y:g}"{kinds}{gap}{more}>{escape(words)}</text>'


def path(kind: str, corners: str) -> str:
    return f'<path class="{kind}" d="{corners}"/>'


def shortened(words: str, width: int) -> str:
    """At most `width` characters, with an ellipsis where something was left out."""
    one_line = plain(words)
    return one_line if len(one_line) <= width else one_line[: max(0, width - 1)] + "…"
