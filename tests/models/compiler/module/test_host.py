"""Host code of TorchInductor's, as the policy writes it: what it computes is the same for any input."""

from __future__ import annotations

import ast
from collections import OrderedDict, namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._dynamo.guards import _reinterpret_tensor as reinterpret_tensor
from torch.utils._pytree import tree_flatten

from kernelagent.models.compiler.capturing.capture import PolicyCannot, capture
from kernelagent.models.compiler.module.host import nested, spelled


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


def test_a_result_is_written_as_a_plain_container() -> None:
    result = OrderedDict(loss=torch.ones(1), logits=[torch.ones(2), None])
    outputs, spec = tree_flatten(result)
    captured = SimpleNamespace(outputs=outputs, output_spec=spec)
    assert nested(captured, ["a", "b"]) == "{'loss': a, 'logits': [b, None]}"  # type: ignore[arg-type]


class Heads(nn.Module):
    """As a whole model of transformers answers."""

    def forward(self, x: torch.Tensor) -> Any:
        return {"heads": [Answer(x.relu(), None)]}


Answer = namedtuple("Answer", ["logits", "loss"])


def test_a_class_that_the_written_file_has_not_is_refused_with_what_to_do() -> None:
    with pytest.raises(PolicyCannot, match=r"it returns a .*Answer.*optimize a part inside of it"):
        capture(Heads(), (torch.randn(4, 8),), {})
