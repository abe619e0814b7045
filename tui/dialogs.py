"""The small windows over a screen: a line of text, a yes or no, the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static


class AskText(ModalScreen[str | None]):
    """One line of text; None when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, title: str, example: str) -> None:
        super().__init__()
        self._title = title
        self._example = example

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title)
            yield Input(placeholder=self._example)
            yield Label("enter sends, esc cancels", classes="quiet")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[str | None]):
    """A question with a few answers, each with its key; None when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel"),
        Binding("left", "app.focus_previous", "Previous", show=False),
        Binding("right", "app.focus_next", "Next", show=False),
    ]

    def __init__(self, question: str, answers: Sequence[tuple[str, str]]) -> None:
        """`answers`: a key and what it means; the key is also what is returned."""
        super().__init__()
        self._question = question
        self._answers = answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._question)
            with Horizontal(classes="answers"):
                for key, words in self._answers:
                    yield Button(Text(f"{key}  {words}"), id=f"answer-{key}")

    def on_key(self, event: object) -> None:
        key = getattr(event, "key", "")
        if key in {known for known, _ in self._answers}:
            self.dismiss(key)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss((event.button.id or "").removeprefix("answer-"))

    def action_cancel(self) -> None:
        self.dismiss(None)


class Words(ModalScreen[None]):
    """Something to read: the keys, or the doctor's findings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close")
    ]

    def __init__(self, title: str, text: object) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Label(f"{self._title} (esc closes)")
            with VerticalScroll():
                yield Static(self._text)  # type: ignore[arg-type]

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss(result)


def keys_text(groups: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> Text:
    """The keys with what each does, by group."""
    text = Text()
    for title, keys in groups:
        text.append(f"{title}\n", "bold")
        for key, does in keys:
            text.append(f"  {key:<12}", "bold cyan")
            text.append(f"{does}\n")
    return text
