"""What a run has tried already: repeats that need no evaluation, lines that came back, lessons learnt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from kernelagent.domain.better import ratio_interval
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.history import History, Turn
from kernelagent.domain.replies.parsing import parse
from kernelagent.domain.tables.rejection_codes import TEACHING

REPEATED = "repeated"
"""Prefix of the reason of a void turn whose program was tried before; a documented rejection code."""
_MOST_LESSONS = 6
_LONGEST = 200
_FEWEST_LINES = 3
_SHARE = 0.6


@lru_cache(maxsize=4096)
def normal_form(source: str) -> str:
    """The program without comments, docstrings, layout and the names it chose itself.

    Two sources of one normal form do the same; source that does not parse is its own normal form.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return source
    renamed = _Renamed(_own_names(tree)).visit(tree)
    return ast.dump(renamed, annotate_fields=False)


def same_as(history: History, candidate: Candidate) -> Turn | None:
    """The earliest turn that tried this program, however it was spelled."""
    wanted = normal_form(candidate.source)
    same = (t for t in history.turns if t.candidate and normal_form(t.candidate.source) == wanted)
    return next(same, None)


def readded_lines(history: History, turn: Turn) -> str | None:
    """A sentence when most of what a candidate adds to its parent had been taken out before."""
    sources: dict[int | None, str] = {
        t.index: t.candidate.source for t in history.turns if t.candidate is not None
    }
    parent = sources.get(turn.request.parent)
    if turn.candidate is None or parent is None:
        return None
    added = _taken_out(turn.candidate.source, parent)
    if len(added) < _FEWEST_LINES:
        return None
    # A quick test first: a source with `_SHARE` of the added lines lacks too few to lack all of this many.
    few = frozenset(sorted(added)[: int((1 - _SHARE) * len(added)) + 1])
    for step in reversed(history.turns):
        before = sources.get(step.request.parent)
        if step.index >= turn.index or step.candidate is None or before is None:
            continue
        if few.isdisjoint(_lines(before)):
            continue
        again = len(added & _taken_out(before, step.candidate.source))
        if again >= _SHARE * len(added) and not _was_better(history, step):
            return (
                f"{again} of the {len(added)} lines that turn {turn.index} adds were "
                f"in turn {step.request.parent} already, and turn {step.index} took them out."
            )
    return None


def _was_better(history: History, step: Turn) -> bool:
    """Whether taking the lines out made it worse: to go back is right then."""
    before = step.request.parent
    return before is not None and history.turn(before).score > step.score


def lessons(history: History, shown: frozenset[int]) -> tuple[str, ...]:
    """What rejections outside the `shown` turns teach, the latest first, each once."""
    result: dict[str, list[int]] = {}
    for turn in reversed(history.finished):
        reason = turn.evaluation.reason if turn.evaluation is not None else None
        if reason is None or reason.code not in TEACHING or turn.index in shown:
            continue
        result.setdefault(f"{reason.code}: {_fact(reason.message)}", []).append(turn.index)
    reported = [
        f"{fact} (turn {', '.join(map(str, sorted(turns)))})" for fact, turns in result.items()
    ]
    return tuple(reported[:_MOST_LESSONS])


def best_line(parent: Turn | None, history: History) -> str | None:
    """Which version is the best, where it is not the one to go on from, and by how much.

    The best is the first of those that cannot be told apart; where a later one has a better number, that is said. Nothing
    is said of numbers that look alike.
    """
    best = history.best
    if parent is None or best is None:
        return None
    numbers = {
        turn.index: ratio.value
        for turn in history.turns
        if turn.accepted and turn.evaluation and (ratio := ratio_interval(turn.evaluation))
    }
    text = f"The best version so far is that of turn {best.index}"
    mine, its = numbers.get(parent.index), numbers.get(best.index)
    if mine is None or its is None:
        return None if parent.index == best.index else f"{text}."
    top = max(numbers, key=numbers.__getitem__)
    if numbers[top] > its and not _look_alike(numbers[top], its):
        others = [f"turn {best.index} {its:.2f}×"]
        if parent.index not in (top, best.index):
            others.append(f"turn {parent.index} {mine:.2f}×")
        return (
            f"The version of turn {top} has the best number ({numbers[top]:.2f}× eager; {', '.join(others)}), by less "
            f"than its interval and that of turn {best.index} tell apart."
        )
    if parent.index == best.index or _look_alike(mine, its):
        return None
    return f"{text}: {its:.2f}× eager, that of turn {parent.index} {mine:.2f}×."


def _look_alike(one: float, other: float) -> bool:
    return f"{one:.2f}" == f"{other:.2f}"


def summary(turn: Turn) -> str:
    """One line for a turn that has left the window."""
    result = turn.evaluation
    if result is None:
        return f"turn {turn.index}: not evaluated"
    if result.reason is not None:
        return f"turn {turn.index}: {result.reason.code}: {_fact(result.reason.message)}"
    if result.timing is not None:
        return f"turn {turn.index}: accepted, {result.timing.speedup_eager.value:.2f}x eager"
    if result.estimate is not None:
        return (
            f"turn {turn.index}: accepted, estimate {result.estimate.candidate_us:.4g} us against "
            f"{result.estimate.eager_us:.4g} us for eager"
        )
    return f"turn {turn.index}: accepted, no estimate"


@lru_cache(maxsize=4096)
def _fact(message: str) -> str:
    """The first sentence, without what is different each time."""
    line = re.split(r"(?<=[.;:])\s", message.strip().splitlines()[0])
    text = line[0] if len(line[0]) > 20 or len(line) == 1 else " ".join(line[:2])
    text = re.sub(r"^the forward raised (\w+)( at line \d+)?:", r"\1:", text).rstrip(" ;:.")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# Every candidate is compared with all earlier ones: what has to be known of each is kept.
@lru_cache(maxsize=8192)
def _taken_out(before: str, after: str) -> frozenset[str]:
    """The lines of one source that another lacks."""
    return _lines(before) - _lines(after)


@lru_cache(maxsize=4096)
def _lines(source: str) -> frozenset[str]:
    stripped = (line.strip() for line in source.splitlines())
    return frozenset(line for line in stripped if len(line) > 2 and not line.startswith("#"))


def _own_names(tree: ast.Module) -> dict[str, str]:
    """Names the program binds itself, in the order they appear; what it imports keeps its name."""
    imported = {name for node in ast.walk(tree) for name in _imports(node)}
    bound = (name for node in ast.walk(tree) for name in _bindings(node))
    own = dict.fromkeys(name for name in bound if name not in imported)
    return {name: f"v{number}" for number, name in enumerate(own)}


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (alias.asname or alias.name).partition(".")[0]


def _bindings(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) if not name.startswith("__") and name != "forward":
            yield name


class _Renamed(ast.NodeTransformer):
    """Gives own names their numbers and drops docstrings."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._names.get(node.arg, node.arg)
        node.annotation = self.visit(node.annotation) if node.annotation else None
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        node.arg = self._names.get(node.arg, node.arg) if node.arg else None
        node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._names.get(node.name, node.name)
        node.body = _without_docstring(node.body)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = _without_docstring(node.body)
        self.generic_visit(node)
        return node

    def visit_Module(self, node: ast.Module) -> ast.Module:
        node.body = _without_docstring(node.body)
        self.generic_visit(node)
        return node


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text and len(body) > 1 else body
