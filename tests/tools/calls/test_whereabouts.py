"""What is where once a call has been made, beside what there was before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelagent.tools.calls.whereabouts import Before, Whereabouts, held_longer


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("state", torch.zeros(4, 6)[:, :3])
        self.register_buffer("seen", torch.zeros(4, dtype=torch.bool))


def _after(does: Callable[..., Any], *given: Any) -> Whereabouts:
    """Of a call that is `does(module, *given)`, in which every tensor is a copy."""
    module = Module()
    arguments = (tuple(_copied(value) for value in given), {})
    before = Before(arguments, module)
    with torch.no_grad():
        output = does(module, *arguments[0])
    return before.after(output, arguments, (given, {}))


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


X = torch.ones(4)


def test_one_tensor_twice_is_a_pair():
    assert _after(lambda m, x: (y := x + 1, [y]), X).together == (("output[0]", "output[1][0]"),)


def test_a_result_in_the_memory_of_an_argument_or_the_state_is_named_with_it():
    left = _after(lambda m, x: {"a": x + 1, "b": x[1:], "c": m.mean[:2]}, X)
    assert left.together == (("output['b']", "argument 0"), ("output['c']", "`mean`"))
    assert left.results_of_state == (2,)
    assert left.one == ()


def test_an_entry_in_the_memory_of_the_state_is_told_apart_from_a_result_there():
    assert not _after(lambda m, d: m.mean, {}).shares_state
    assert _after(lambda m, d: d.update(mean=m.mean), {}).shares_state
    assert _after(lambda m, x: m.register_buffer("last", x), X).shares_state


def test_what_the_caller_gave_twice_is_no_news():
    assert _after(lambda m, x, y: None, X, X).together == ()


def test_an_entry_that_is_an_argument_is_named_with_it():
    def does(m: Module, x: torch.Tensor, log: dict[str, Any]) -> torch.Tensor:
        log["x"] = x
        return x + 1

    left = _after(does, X, {"x": X})
    assert left.together == (("the new argument 1['x']", "argument 0"),)
    assert left.replaced == ("argument 1['x']",)
    assert left.written == ()


def test_an_entry_that_is_the_old_one_and_was_written_to_is_not_replaced():
    left = _after(lambda m, log: log["x"].add_(1), {"x": X})
    assert left.replaced == ()
    assert left.written == ("argument 0['x']",)


def test_a_tensor_is_looked_at_when_no_container_holds_it_any_more():
    def does(m: Module, log: dict[str, Any]) -> None:
        log["x"].add_(1)
        log["x"] = log["x"].clone()

    left = _after(does, {"x": X})
    assert left.replaced == left.written == ("argument 0['x']",)


def test_entries_that_move_within_a_list_keep_their_names():
    left = _after(lambda m, window: window.append(window.pop(0)), [X, X + 1])
    assert left.together == (
        ("the new argument 0[0]", "argument 0[1]"),
        ("the new argument 0[1]", "argument 0[0]"),
    )


@pytest.mark.parametrize(
    ("does", "one"),
    [
        (lambda m, d: d, (("output", "argument 0"),)),
        (lambda m, d: dict(d), ()),
        (lambda m, d: m.weight, (("output", "`weight`"),)),
        (lambda m, d: torch.nn.Parameter(m.weight.detach()), ()),
        (lambda m, d: d.update(a=(own := []), b=own), (("the new argument 0['b']", "the new argument 0['a']"),)),
    ],
    ids=["the caller's", "a copy", "the weight", "in the weight's memory", "one list twice"],
)  # fmt: skip
def test_which_objects_are_one(does, one):
    assert _after(does, {}).one == one


def test_a_buffer_that_is_bound_anew_is_another():
    def does(m: Module) -> None:
        m.mean = m.mean + 1
        m.weight.add_(1)

    assert _after(does).replaced == ("`mean`",)


def test_what_is_written_between_the_elements_of_a_buffer_is_named():
    assert _after(lambda m: m.state.add_(1)).between == ()
    assert _after(lambda m: m.state.as_strided((4,), (6,), 4).add_(1)).between == ("`state`",)


def test_the_form_of_containers_and_of_what_was_put_into_them_is_told():
    def does(m: Module, d: dict[str, Any]) -> None:
        d["b"] = torch.nn.Parameter(X)
        m.seen.view(torch.uint8).fill_(2)

    left = {part.name: part for part in _after(does, {"a": X, "b": X}).left}
    assert [*left] == ["argument 0", "argument 0['b']", "`seen`"]
    assert left["argument 0"].kind == "a dict with the keys 'a', 'b'"
    assert left["argument 0['b']"].kind == "an nn.Parameter"
    assert left["`seen`"].odd_booleans


def test_what_holds_more_memory_than_the_references_is_named_unless_it_is_an_argument():
    whole = torch.ones(64, 16)
    usual = _after(lambda m, x: (x + 1, x + 1), X)
    row = ("output[1]", 64, 4096)
    assert held_longer(_after(lambda m, x: (x + 1, whole[0]), X), usual) == [row]
    assert held_longer(_after(lambda m, x: (x + 1, x), X), usual) == []
    assert held_longer(_after(lambda m, x: (x, whole[0]), X), usual) == [row]
    assert held_longer(_after(lambda m, x: x, X), _after(lambda m, x: whole[0], X)) == []


def test_pairs_that_the_other_has_are_no_difference():
    own, other = Whereabouts(together=(("a", "b"),)), Whereabouts(one=(("a", "b"),))
    assert own.not_in(own) == ([], [])
    assert own.not_in(other) == ([("a", "b")], [])
    assert other.not_in(own) == ([], [("a", "b")])
