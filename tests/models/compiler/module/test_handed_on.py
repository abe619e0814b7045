"""A forward for several input sets hands its parameters on, of whatever kind they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.module.constructor import arguments, passed, written_parameters
from kernelagent.models.compiler.policy import Policy
from tests.models.compiler.test_policy import source_of


class Scaled(nn.Module):
    """As decoder layers of transformers are: options that a layer does not know are taken and left."""

    def forward(self, x: torch.Tensor, *rest: Any, scale: float = 2.0, **kwargs: Any) -> Any:
        return torch.sigmoid(x) * scale


@pytest.mark.parametrize("given", [((1,), {}), ((1, 2, 3), {"scale": 4, "other": 5})])
def test_each_kind_of_parameter_reaches_the_method_as_it_came(given: Any) -> None:
    names = arguments(Scaled())
    text = f"def first({written_parameters(names)}):\n    return second({passed(names)})\n"
    text += f"def second({written_parameters(names)}):\n    return x, rest, scale, kwargs\n"
    space: dict[str, Any] = {}
    exec(text, space)
    args, kwargs = given
    assert space["first"](*args, **kwargs) == space["second"](*args, **kwargs)


@pytest.mark.long
def test_two_input_sets_of_a_forward_with_free_keywords_have_methods_that_can_be_called() -> None:
    sets = {"short": ((torch.randn(4, 8),), {}), "long": ((torch.randn(4, 64, 8),), {})}
    source = source_of(Policy(Scaled(), "from_reference", sets).reply([]))
    assert "return self._short(x, *rest, scale=scale, **kwargs)" in source
    assert "return self._long(x, *rest, scale=scale, **kwargs)" in source
