"""Programs are parsed from several threads at once, and nothing goes round the turn they take."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelagent
from kernelagent.domain.replies.parsing import parse, parse_expression

PACKAGE = Path(kernelagent.__file__).parent
ONE_THREAD = ("tools", "models/compiler", "strategies")
"""What runs in processes of one thread each, or parses nothing."""
PROGRAM = (PACKAGE / "dropin" / "emit.py").read_text(encoding="utf-8")


@pytest.fixture
def threads_change_while_trees_are_built() -> Iterator[None]:
    """The collector comes often, and a callback of it lets others run, as Hypothesis's and others' do."""

    def give_way(*_: object) -> None:
        time.sleep(0)

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.callbacks.remove(give_way)
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_change_while_trees_are_built")
def test_threads_that_parse_at_once_all_get_their_trees() -> None:
    trees: list[ast.AST] = []

    def work() -> None:
        for _ in range(12):
            trees.extend((parse(PROGRAM), parse_expression("a + b")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trees) == 4 * 12 * 2


def test_nothing_that_has_threads_parses_without_taking_its_turn() -> None:
    for path in (*PACKAGE.rglob("*.py"), *(PACKAGE / "tui").rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        if inside == "domain/replies/parsing.py" or inside.startswith(ONE_THREAD):
            continue
        assert "ast.parse(" not in path.read_text(encoding="utf-8"), inside
