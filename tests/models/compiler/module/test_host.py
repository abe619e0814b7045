"""Host code of TorchInductor's, as the policy writes it: what it computes is the same for any input."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from kernelagent.models.compiler.capturing.capture import PolicyCannot, capture
from kernelagent.models.compiler.module.host import nested


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
