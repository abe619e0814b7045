"""A box of lines that change often: only those that differ from what stands there are drawn again.

The text comes wrapped for the most part; a line that is too long for the box is folded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Lines(Widget):
    """Shows the text it was given last; a Static parses and wraps all of it for each character."""

    def __init__(self, *, id: str, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._text = Text()
        self._rows: Sequence[Text] = ()
        self._base = Style()
        """Of the box; worked out from the style sheet once a frame, not once a line."""

    def render(self) -> Text:
        """What it shows, not folded."""
        return self._text

    def show(self, text: Text) -> None:
        """Draw `text`, as far as it is new."""
        self._text = text
        self._put(self._folded(self.content_size.width))

    def on_resize(self) -> None:
        self._put(self._folded(self.content_size.width))
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        if y >= len(self._rows):
            return Strip.blank(width, self._base)
        return strip_of(self._rows[y], self._base, self).adjust_cell_length(width, self._base)

    def _folded(self, width: int) -> list[Text]:
        rows: list[Text] = []
        for line in self._text.split("\n", allow_blank=True):
            line.expand_tabs(4)
            fits = len(line) * 2 <= width or line.cell_len <= width or width < 1
            rows += [line] if fits else line.wrap(self.app.console, width)
        return rows

    def _put(self, rows: Sequence[Text]) -> None:
        before, self._rows = self._rows, rows
        width, height = self.content_size
        old_and_new = list(zip_longest(before, rows))[:height]
        changed = [y for y, (old, new) in enumerate(old_and_new) if not _same(old, new)]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))


def strip_of(line: Text, base: Style, widget: Widget) -> Strip:
    """A line of text in the style of the box around it."""
    if not line.spans and not line.style:
        return Strip([Segment(line.plain, base)], line.cell_len)
    return Strip(
        [
            Segment(part.text, base + part.style if isinstance(part.style, Style) else base)
            for part in line.render(widget.app.console, end="")
        ]
    )


def _same(old: Text | None, new: Text | None) -> bool:
    """Compares the base style too, which `Text.__eq__` ignores."""
    return old == new and (old is None or new is None or old.style == new.style)
