"""Whether a dictionary or function changed is told by words of their own, and by nothing that only looks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.candidate_runner.kept.object_words import (
    Words,
    words_of_functions,
    words_of_namespaces,
)


class Kind:
    held = 1

    def method(self) -> int:
        return 1


def a_module() -> ModuleType:
    module = ModuleType("a_module")
    module.__dict__["held"] = 1
    return module


def a_class() -> type:
    return type("Fresh", (Kind,), {"held": 1})


CHANGES: dict[str, Callable[[Any], Any]] = {
    "replaced": lambda owner: setattr(owner, "held", object()),
    "added": lambda owner: setattr(owner, "new", 1),
    "removed": lambda owner: delattr(owner, "held"),
}


@pytest.mark.parametrize("make", [a_module, a_class])
@pytest.mark.parametrize("change", CHANGES)
def test_a_namespace_that_is_changed_in_any_way_is_told_and_no_other(
    make: Callable[[], Any], change: str
) -> None:
    owners = [make(), make(), make()]
    words = words_of_namespaces(owners)
    assert list(words.changed()) == []
    CHANGES[change](owners[1])
    assert list(words.changed()) == [1]
    words.note()
    assert list(words.changed()) == []


@pytest.mark.parametrize("make", [a_module, a_class])
def test_what_is_replaced_and_put_back_is_told_and_what_is_read_is_not(
    make: Callable[[], Any],
) -> None:
    owner = make()
    words = words_of_namespaces([owner])
    assert owner.held == 1
    assert "held" in vars(owner)
    assert not hasattr(owner, "nothing")
    assert list(words.changed()) == []
    kept, owner.held = owner.held, object()
    owner.held = kept
    assert list(words.changed()) == [0]


@given(st.lists(st.integers(0, 9), max_size=5))
def test_the_functions_whose_code_or_defaults_are_others_are_told(numbers: list[int]) -> None:
    def made() -> Any:
        def function(first: int = 1, *, second: int = 2) -> int:
            return first + second

        return function

    functions = [made() for _ in range(10)]
    kept = [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in functions]
    words = words_of_functions(functions)
    for number in numbers:
        what = number % 3
        if what == 0:
            functions[number].__code__ = made().__code__.replace(co_name="other")
        elif what == 1:
            functions[number].__defaults__ = (3,)
        else:
            functions[number].__kwdefaults__ = {"second": 3}
    assert list(words.changed()) == sorted(set(numbers))
    assert len(kept) == len(functions)


def test_where_no_such_word_is_known_everything_may_have_changed() -> None:
    assert list(Words([object(), object()], None).changed()) == [0, 1]


def test_this_python_tells_it_by_words() -> None:
    # From 3.14 on dictionaries are no longer numbered, and all is compared.
    assert list(words_of_namespaces([a_module()]).changed()) == []
    assert list(words_of_functions([Kind.method]).changed()) == []
