"""Where a session begins: the latest runs, a file to open, a model to pick, and the doctor."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen, Screen
from textual.suggester import SuggestFromList
from textual.widgets import Button, DataTable, DirectoryTree, Footer, Input, Label, Static
from textual.worker import get_current_worker

from kernelagent.domain.configuration.budget import DEFAULT_TURNS
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.loop.arguments import problem_spec
from kernelagent.models.kinds import needs_no_endpoint
from kernelagent.report.terminal import browse
from kernelagent.storage.run_log import RunFolder
from kernelagent.tui.conduct import Orders
from kernelagent.tui.dialogs import Confirm, Words, keys_text
from kernelagent.tui.launch import Controller
from kernelagent.tui.option_input import FORM, OptionInput
from kernelagent.tui.run_screen import KEYS, RunScreen

_SHOWN = 50
_FILES = 500
START_KEYS = (
    (
        "Start",
        (
            ("tab", "from field to field"),
            ("enter", "on a run: see it; in a field: start a run"),
            ("ctrl+o", "open a file"),
            ("ctrl+d", "doctor: what this machine can do"),
            ("ctrl+r", "read the list of runs again"),
            ("ctrl+q", "leave"),
        ),
    ),
)


class StartScreen(Screen[None]):
    """The list of runs has the focus: the arrow keys and enter open one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "open", "Open file"),
        Binding("ctrl+d", "doctor", "Doctor"),
        Binding("ctrl+r", "reload", "Reload"),
        Binding("f1,question_mark", "help", "Help"),
        Binding("ctrl+q", "app.quit", "Leave"),
    ]

    def __init__(self, config: RunConfig, problem: str = "") -> None:
        super().__init__()
        self._config = config
        self._problem = problem
        self._rows: tuple[browse.RunRow, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(" kernelagent: faster modules, verified", id="title")
        with Vertical(id="new", classes="panel"):
            with Horizontal(classes="field"):
                yield Label("Problem ")
                yield Input(
                    self._problem,
                    id="problem",
                    placeholder="model.py, or pkg.mod:Name",
                    suggester=SuggestFromList(_python_files(Path()), case_sensitive=True),
                    compact=True,
                )
            turns = self._config.budget.turns or DEFAULT_TURNS
            for name in FORM:
                known = turns if name == "turns" else getattr(self._config, name)
                with Horizontal(classes="field"):
                    yield Label(f"{name.capitalize():8}")
                    yield OptionInput(name, known)
                    if name == FORM[-1]:
                        yield from _buttons()
        yield DataTable(id="runs", classes="panel", cursor_type="row")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#new").border_title = "new run"
        table = self.query_one(DataTable)
        table.border_title = f"runs in {self._config.runs}"
        for heading in ("began", "problem", "turns", "best", "outcome", "model"):
            table.add_column(heading, key=heading)
        self.action_reload()
        (self.query_one("#problem") if self._problem else table).focus()

    @work(thread=True, exclusive=True)
    def action_reload(self) -> None:
        rows = tuple(reversed(browse.all_runs(Path(self._config.runs))))[:_SHOWN]
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._show, rows)

    def _show(self, rows: tuple[browse.RunRow, ...]) -> None:
        self._rows = rows
        table = self.query_one(DataTable)
        table.clear()
        for row in rows:
            began = time.strftime("%m-%d %H:%M", time.localtime(row.started_s))
            cells = (began, _name(row), str(row.turns), _number(row), row.outcome)
            table.add_row(*(Text(cell) for cell in (*cells, ", ".join(row.models))), key=row.folder)
        self.query_one("#model", OptionInput).suggest(_models(rows))
        if not rows:
            table.border_title = f"no runs in {self._config.runs} yet: name a problem above"

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        folder = RunFolder(Path(str(event.row_key.value)))
        self.app.push_screen(RunScreen(folder))

    def on_input_submitted(self) -> None:
        self._start()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "start":
                self._start()
            case "open":
                self.action_open()
            case "doctor":
                self.action_doctor()

    def action_help(self) -> None:
        self.app.push_screen(Words("Keys", keys_text((*START_KEYS, *KEYS))))

    def action_open(self) -> None:
        def chosen(path: str | None) -> None:
            if path is not None:
                self.query_one("#problem", Input).value = path
                self.query_one("#model", Input).focus()

        self.app.push_screen(OpenFile(), chosen)

    def action_doctor(self) -> None:
        self.notify("looking at this machine: a few seconds")
        self._examine()

    @work(thread=True, exclusive=True, group="doctor")
    def _examine(self) -> None:
        from kernelagent.cli.doctor import as_table, examine

        table = as_table(examine())
        self.app.call_from_thread(self.app.push_screen, Words("Doctor", table))

    def _start(self) -> None:
        try:
            orders = self._orders()
        except UsageError as error:
            self.notify(str(error), severity="error")
            return
        away = [name for name in orders.config.model if not needs_no_endpoint(name)]
        if not away:
            self._conduct(orders)
            return

        def answered(answer: str | None) -> None:
            if answer == "y":
                self._conduct(orders)

        where = self._config.api_base or "its provider's endpoint"
        question = f"The module's source is sent to {', '.join(away)} at {where}. Go on?"
        self.app.push_screen(Confirm(question, [("y", "send it"), ("n", "no")]), answered)

    def _orders(self) -> Orders:
        problem = self.query_one("#problem", Input).value.strip()
        if not problem:
            raise UsageError("name a problem: a Python file, or pkg.mod:Name")
        typed = {field.declared.name: field.read() for field in self.query(OptionInput)}
        config = replace(self._config, **typed, budget_usd=self._config.budget.dollars, yes=True)
        return Orders(problem_spec(problem, {}), config)

    @work(thread=True, exclusive=True, group="conduct")
    def _conduct(self, orders: Orders) -> None:
        controller = Controller.start(orders)
        try:
            folder = controller.wait_for_folder()
        except Exception as error:  # noqa: BLE001 - a worker's border: the user is told, whatever it was
            self.app.call_from_thread(self.notify, str(error), severity="error", timeout=15)
            return
        screen = RunScreen(folder, lambda: controller.going_on)
        self.app.call_from_thread(self.app.push_screen, screen)


class OpenFile(ModalScreen[str | None]):
    """A tree of folders with the Python files in them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Label("A Python file with a module; enter opens, esc cancels")
            yield _PythonTree(Path())

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        self.dismiss(str(event.path))

    def action_cancel(self) -> None:
        self.dismiss(None)


class _PythonTree(DirectoryTree):
    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return [
            path
            for path in paths
            if not path.name.startswith(".") and (path.suffix == ".py" or path.is_dir())
        ]


def _python_files(root: Path) -> list[str]:
    """Files to complete a name from: here and one folder down."""
    result = sorted([*root.glob("*.py"), *root.glob("[!.]*/*.py")])
    return [str(path) for path in result[:_FILES]]


def _models(rows: Iterable[browse.RunRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row.models))


def _buttons() -> Iterable[Button]:
    yield Button("Start", id="start", variant="primary", compact=True)
    yield Button("Open file", id="open", compact=True)
    yield Button("Doctor", id="doctor", compact=True)


def _name(row: browse.RunRow) -> str:
    return Path(row.problem).name or row.run


def _number(row: browse.RunRow) -> str:
    if row.best is None:
        return "none"
    if row.best.timing is not None:
        return f"{row.best.timing.speedup_eager.value:.2f}×"
    if row.best.estimate is not None:
        return f"{row.best.estimate.ratio:.2f}× est"
    return "correct"
