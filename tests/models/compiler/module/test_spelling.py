"""Views of Inductor's host code, spelled as torch has them: what they show is the same wherever a tensor lies."""

from __future__ import annotations

import ast

import pytest
import torch
from torch._C._dynamo.guards import _reinterpret_tensor as reinterpret_tensor

from kernelagent.models.compiler.module.spelling import spelled


@pytest.mark.parametrize("begins", [0, 4], ids=["alone", "inside of a larger tensor"])
@pytest.mark.parametrize("offset", [0, 6])
def test_another_view_of_a_tensor_is_counted_from_where_it_begins(begins: int, offset: int) -> None:
    x = torch.arange(40.0)[begins : begins + 24].view(4, 6)
    call = f"reinterpret_tensor(arg0_1, (3, 2, 3), (6, 3, 1), {offset})"
    text = spelled(ast.parse(call, mode="eval").body, {"arg0_1": "x"})
    assert "torch.as_strided" in text
    assert torch.equal(eval(text), reinterpret_tensor(x, (3, 2, 3), (6, 3, 1), offset))


def test_a_view_of_a_tensor_of_its_own_asks_for_no_offset() -> None:
    call = ast.parse("reinterpret_tensor(buf3, (2, 3), (6, 1), 6)", mode="eval").body
    assert spelled(call, {"buf3": "scratch"}) == "torch.as_strided(scratch, (2, 3), (6, 1), 6)"
