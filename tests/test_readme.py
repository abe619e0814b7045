from __future__ import annotations

import ast
import re
import shlex
from typing import Any

import pytest
import typer.main

import kernelagent
from kernelagent.cli.main import app, main
from kernelagent.domain.errors import ExitStatus
from tests.docs.pages import PAGES, ROOT, blocks, commands

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
COMMANDS: Any = typer.main.get_command(app)


ELSEWHERE = {"python", "python3", "pip", "source", "export"}
"""Programs whose words are not ours to check."""


def command_lines() -> list[str]:
    return [line for page in PAGES for line in commands(page)]


def library_example() -> str:
    (block,) = [b.text for b in blocks(ROOT / "README.md") if b.language == "python"]
    return block


def parse(words: list[str]) -> None:
    """What happens before a command is called; raises on a word that does not fit."""
    root = COMMANDS.context_class(COMMANDS, info_name="kernelagent")
    name, command, rest = COMMANDS.resolve_command(root, words)
    command.make_context(name, rest, parent=root)


@pytest.mark.parametrize("line", command_lines())
def test_command_in_a_page_can_be_run(line):
    program, *words = shlex.split(line)
    if program == "make":
        assert set(words) <= TARGETS
    elif program == "kernelagent":
        parse(words)
    else:
        assert program in ELSEWHERE or program.startswith(("~/vllm/", "KERNELAGENT_"))


@pytest.mark.parametrize("line", command_lines())
def test_example_named_in_a_command_exists(line):
    named = [word for word in shlex.split(line) if word.startswith("examples/")]
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("words", [["optimise", "x.py"], ["optimize", "x.py", "--no-such-flag"]])
def test_command_that_does_not_exist_is_wrong_usage(words):
    with pytest.raises(Exception, match="No such"):
        parse(words)
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == ExitStatus.USAGE


def test_readme_is_short_enough_to_be_read():
    assert len(README.splitlines()) <= 100


def test_command_that_the_limits_say_is_missing_is_missing():
    missing = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bno\b[^.]*?`kernelagent (\w+)`", missing, re.IGNORECASE))
    assert named & set(COMMANDS.commands) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_links_to_files_that_exist(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_library_example_names_what_there_is():
    block = library_example()
    used = {
        node.attr
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "kernelagent"
    }
    assert used
    assert [name for name in used if not hasattr(kernelagent, name)] == []


@pytest.mark.long
def test_library_example_runs(tmp_path, monkeypatch, capsys):
    block = library_example()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert str(names["result"].path) in capsys.readouterr().out
