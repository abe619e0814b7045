"""What the pages tell a reader to type is typed: page by page, in one copy of the repository."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kernelagent.cli.main import app
from tests.docs.pages import PAGES, ROOT, SHELL, blocks, commands, files, why_not_run

FIRST = "kernelagent optimize examples/rms_norm_residual.py --turns 5"
"""The run that README begins with; it is RUN on every page, where two turns are not compared."""
OF_TWO_TURNS = "matmul_bias_gelu"
"""The guide's other run, before it compares two turns."""
PATIENCE_S = 900
PROGRAMS = {"kernelagent": [sys.executable, "-m", "kernelagent"], "python": [sys.executable]}
READ_FIRST = {"README.md", "guide.md"}
NEVER_RUN = {"bench", "compare", "keys", "mcp", "steer", "tui"}
COMMANDS: Any = typer.main.get_command(app)
TYPED = [page for page in PAGES if any(not why_not_run(line) for line in commands(page))]


@dataclass
class Copy:
    """A copy of what a clone holds, and what was typed into it so far."""

    folder: Path
    typed: set[str] = field(default_factory=set)

    def type(self, line: str) -> None:
        """Run a command to its end; one that was run before has left what it leaves."""
        if line in self.typed:
            return
        program, *words = shlex.split(line)
        words = [self.run_for(words[0]) if word == "RUN" else word for word in words]
        done = subprocess.run(
            [*PROGRAMS[program], *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        self.typed.add(line)

    def run_for(self, command: str) -> str:
        """The first run; for the command that compares two turns, one that had them."""
        problem = OF_TWO_TURNS if command == "diff" else "rms_norm_residual"
        return min((self.folder / ".kernelagent" / "runs").glob(f"*-{problem}-*")).name


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    """With the first run in it, and under git as a clone is."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("examples", "tests/cassettes"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / ".gitignore", folder)
    for words in (
        ("init", "-q"),
        ("config", "user.name", "A reader"),
        ("config", "user.email", "reader@example.com"),
        ("add", "-A"),
        ("commit", "-qm", "As cloned"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    made = Copy(folder)
    made.type(FIRST)
    return made


def test_first_run_is_the_one_that_readme_begins_with():
    assert FIRST in commands(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_lines_stand_in_blocks_that_are_read(page):
    languages = {block.language for block in blocks(page)}
    assert languages & {"sh", "bash", "shell", "zsh"} == set()
    shell = [block for block in blocks(page) if block.language == SHELL]
    lines = [line for block in shell for line in block.text.splitlines()]
    assert [line for line in lines if not line.startswith("$ ")] == []


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_command_that_is_run_is_of_a_program_that_is_here(page):
    run = [line for line in commands(page) if why_not_run(line) is None]
    assert [line for line in run if shlex.split(line)[0] not in PROGRAMS] == []


def test_every_command_but_those_with_a_reason_is_run_on_some_page():
    lines = [line for page in PAGES for line in commands(page) if why_not_run(line) is None]
    run = {shlex.split(line)[1] for line in lines if line.startswith("kernelagent ")}
    assert set(COMMANDS.commands) - run == NEVER_RUN


_BY_DRAW = [
    pytest.param(page, id=page.name, marks=[pytest.mark.always] if page.name in READ_FIRST else [])
    for page in TYPED
]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", _BY_DRAW)
def test_commands_of_a_page_do_what_they_say(page, copy):
    for name, text in files(page).items():
        (copy.folder / name).write_text(text, encoding="utf-8")
    for line in commands(page):
        if why_not_run(line) is None:
            copy.type(line)
