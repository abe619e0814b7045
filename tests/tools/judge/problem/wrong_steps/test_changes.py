"""What may be wrong with one call of torch, and what it answers then."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelagent.tools.judge.problem.wrong_steps.changes import changes_of

X = torch.tensor([[3.0, -1.0, 2.0], [0.0, 5.0, -4.0]])
Y = torch.tensor([[1.0, 1.0, 9.0], [2.0, 2.0, 2.0]])
MASK = X > 0
IDS = torch.tensor([[3, 9, 10], [11, 4, 2]])


def answers(function: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """By the words of each change."""
    copied = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    result = function(*copied, **kwargs)
    made = {}
    for change in changes_of(function.__name__, args, kwargs, result):
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        made[change.words] = change.answer(function, tuple(given), kwargs)
    return made


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "words", "answer"),
    [
        (torch.add, (X, Y), {}, "answered by its first operand", X),
        (torch.add, (X, Y[:1]), {}, "answered by its second operand", Y[:1].expand_as(X)),
        (torch.Tensor.add_, (X, Y), {}, "answered by its first operand", X),
        (torch.Tensor.add_, (X, Y), {}, "answered by its second operand", Y),
        (torch.Tensor.__iadd__, (X, Y), {}, "answered by its second operand", Y),
        (torch.Tensor.__radd__, (X, 2.0), {}, "answered by its second operand", X),
        (torch.maximum, (X, Y), {}, "answered by its second operand", Y),
        (torch.max, (X, Y), {}, "answered by its first operand", X),
        (torch.where, (MASK, X, 0.0), {}, "always answered as where its condition fails", 0 * X),
        (torch.Tensor.where, (X, MASK, Y), {}, "always answered as where its condition holds", X),
        (torch.relu, (X,), {}, "left out", X),
        (torch.clamp, (X, -2.0, 2.0), {}, "without its lower bound", X.clamp(max=2.0)),
        (torch.clamp, (X,), {"min": -2.0, "max": 2.0}, "without its upper bound", X.clamp(-2.0)),
        (torch.sum, (X, 1), {}, "without the last element", X[:, :-1].sum(1)),
        (torch.amax, (X,), {"dim": (1,)}, "without the first element", X[:, 1:].amax(1)),
        (torch.argmax, (X, 1), {}, "without the first element", torch.tensor([2, 1])),
        (torch.sum, (X,), {}, "without the first element", X.sum() - 3.0),
        (torch.Tensor.masked_fill, (X, MASK, 7.0), {}, "left out", X),
        (torch.nn.functional.pad, (X, (1, 0)), {"value": 2.0}, "with 0 in place of 2",
         torch.nn.functional.pad(X, (1, 0))),
        (torch.le, (IDS, 10), {}, "with 5 in place of 10", IDS <= 5),
        (torch.le, (IDS, 10), {}, "with 9 in place of 10", IDS <= 9),
        (torch.le, (IDS, 10), {}, "the other way where both sides are equal", IDS < 10),
        (torch.Tensor.__gt__, (X, 2.0), {}, "with 2.5 in place of 2", X > 2.5),
        (torch.eq, (IDS, 4), {}, "with 3 in place of 4", IDS == 3),
    ],
)  # fmt: skip
def test_a_call_is_done_wrong_as_the_words_say(
    function: Any, args: tuple[Any, ...], kwargs: Any, words: str, answer: torch.Tensor
) -> None:
    assert torch.equal(answers(function, *args, **kwargs)[words], answer)


def test_an_attention_forgets_its_mask() -> None:
    q = torch.randn(1, 1, 4, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    assert torch.equal(answers(attend, q, q, q, is_causal=True)["without its `is_causal`"], attend(q, q, q))  # fmt: skip
    assert answers(attend, q, q, q) == {}


@pytest.mark.parametrize(
    ("function", "args"),
    [(torch.exp, (X,)), (torch.matmul, (X, Y.mT)), (torch.Tensor.view, (X, -1)), (torch.sum, (X[:, :1], 1))],
)  # fmt: skip
def test_what_shows_on_any_input_is_not_listed(function: Any, args: tuple[Any, ...]) -> None:
    assert answers(function, *args) == {}
