"""Reads a candidate's text and says, in one disclosure for each kind, what it does besides computing."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from kernelagent.domain.evaluation import Disclosure
from kernelagent.domain.replies.parsing import parse
from kernelagent.tools.judge.source_reading.checks.state import State
from kernelagent.tools.judge.source_reading.following.applied import by_their_class
from kernelagent.tools.judge.source_reading.following.collecting import collect
from kernelagent.tools.judge.source_reading.following.followed import Followed
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes, lifetimes
from kernelagent.tools.judge.source_reading.following.names import Names, TooIntricate
from kernelagent.tools.judge.source_reading.kinds import NOT_JUDGED, Code, Remark, in_order
from kernelagent.tools.judge.source_reading.uses import Uses

_RUNS_NOTHING_ELSE: frozenset[Code] = frozenset(
    {"values_on_host", "asks_device_properties", "keeps_state"}
)
"""Kinds of remark about code that cannot call a function which no code names. If a text has no other remarks, its
functions that are named nowhere are dead code, and are not read."""
_SHOWN = 3
"""Places that a disclosure quotes; the rest are counted."""


def read(source: str) -> tuple[Remark, ...]:
    """Every place that is not on the allow-list, by line; the text must parse.

    It decides nothing: what is named was accepted for the values it computed.
    """
    try:
        return tuple(sorted(_remarks(by_their_class(parse(source)), source)))
    except (RecursionError, TooIntricate):
        # Nested thousands deep, or names for names for names: nothing an ordinary text has.
        return (Remark(1, "unreadable", "the whole text"),)


def _remarks(tree: ast.Module, source: str) -> set[Remark]:
    names = collect(tree)
    lives = lifetimes(tree, names)
    followed = Followed(names, tree)
    result = _found(tree, names, followed, lives, source)
    if _gives_a_name(tree) or not {remark.code for remark in result} <= _RUNS_NOTHING_ELSE:
        # What seems never to run may run after all: it is read too.
        all_of_it = replace(lives, never_runs=frozenset())
        return result | _found(tree, names, followed, all_of_it, source)
    return result


def _found(
    tree: ast.Module, names: Names, followed: Followed, lives: Lifetimes, source: str
) -> set[Remark]:
    return {
        *Uses(names, followed, lives.never_runs, source).read(tree),
        *State(names, lives, source).read(tree),
    }


def _gives_a_name(tree: ast.Module) -> bool:
    """Whether `__name__` stands anywhere but where its value is asked for: the text may take itself for the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            continue
        for value in vars(node).values():
            if value == "__name__" or (isinstance(value, list) and "__name__" in value):
                return True
    return False


@lru_cache(maxsize=32)
def disclosures(source: str) -> tuple[Disclosure, ...]:
    """One for each kind of remark: where, as written, and what was therefore not judged."""
    remarks = read(source)
    return tuple(
        Disclosure(code, _sentence(code, [r for r in remarks if r.code == code]))
        for code in in_order({r.code for r in remarks})
    )


def _sentence(code: Code, remarks: list[Remark]) -> str:
    places = [f"line {r.line} `{r.text}`" for r in remarks[:_SHOWN]]
    if len(remarks) > _SHOWN:
        places.append(f"{len(remarks) - _SHOWN} more")
    return f"{', '.join(places)}: {NOT_JUDGED[code]}"
