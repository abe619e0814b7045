"""The list of turns: renders only visible lines, so the cost does not grow with the number of turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kernelagent.tui.lines import strip_of
from kernelagent.tui.turns.tree_rows import TreeRow


class TurnTree(ScrollView, can_focus=True):
    """The cursor stays on the newest turn until it is moved; `end` brings it back there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "newest", "Newest", show=False),
        Binding("enter", "open", "Open turn", show=False),
    ]

    class Opened(Message):
        """The user wants to see this turn."""

        def __init__(self, turn: int) -> None:
            super().__init__()
            self.turn = turn

    def __init__(self, *, id: str, classes: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._rows: Sequence[TreeRow] = ()
        self._cursor = 0
        self._following = True
        self._base = Style()
        """Of the box; worked out from the style sheet once a frame, not once a line."""

    @property
    def turn(self) -> int | None:
        """The turn under the cursor."""
        return self._rows[self._cursor].turn if self._rows else None

    def show_rows(self, rows: Sequence[TreeRow]) -> None:
        """Draw these rows; the cursor stays on its turn, or follows the newest."""
        at = self.turn
        self._rows = rows
        self.virtual_size = Size(self.size.width, len(rows))
        if self._following or at is None:
            at = max((row.turn for row in rows), default=None)
        places = {row.turn: place for place, row in enumerate(rows)}
        self._cursor = places.get(at, 0) if at is not None else 0
        self._keep_in_sight()
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.size.width
        base = self._base
        if number >= len(self._rows):
            return Strip.blank(width, base)
        chosen = number == self._cursor
        style = base + Style(reverse=True, bold=True) if chosen and self.has_focus else base
        segments = [Segment("▌" if chosen else " ", base)]
        text = self._rows[number].text
        if chosen and self.has_focus:
            segments.append(Segment(text.plain, style))
        else:
            segments += strip_of(text, base, self)
        return Strip(segments).adjust_cell_length(width, style)

    def action_move(self, by: int) -> None:
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._go(self._cursor + by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self._go(0)

    def action_newest(self) -> None:
        self._following = True
        self.show_rows(self._rows)

    def action_open(self) -> None:
        if self.turn is not None:
            self.post_message(self.Opened(self.turn))

    def on_click(self, event: events.Click) -> None:
        number = event.y + self.scroll_offset.y
        if number < len(self._rows):
            again = number == self._cursor
            self._go(number)
            if again or event.chain > 1:
                self.action_open()

    def _go(self, to: int) -> None:
        if not self._rows:
            return
        self._following = False
        before, self._cursor = self._cursor, min(max(to, 0), len(self._rows) - 1)
        self._keep_in_sight()
        self.refresh_lines(before)
        self.refresh_lines(self._cursor)

    def _keep_in_sight(self) -> None:
        self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
