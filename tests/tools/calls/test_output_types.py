"""Which tensors a candidate may return: plain ones, and what torch.compile itself has written on one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.tools.candidate_runner.candidate import CandidateFailure, LoadedCandidate


class Returns(torch.nn.Module):
    """Its one input as it is, with these attributes."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__()
        self.attributes = attributes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vars(x).update(self.attributes)
        return x


class Counting(set[int]):
    """A set with behaviour of its own."""


def returned(attributes: dict[str, Any]) -> torch.Tensor:
    loaded = LoadedCandidate(ModuleType("candidate"), Returns, frozenset())
    loaded.construct("arguments", ((attributes,), {}), "cpu", training=False)
    output: torch.Tensor = loaded.forward((torch.ones(2),), {})
    return output


# As torch 2.11 and 2.13 write them, in torch/_functorch/_aot_autograd/runtime_wrappers.py.
@pytest.mark.parametrize(
    "name", ["_dynamo_weak_dynamic_indices", "_dynamo_propagated_dynamic_indices"]
)
def test_outputs_that_torch_compile_marks_for_many_sizes_may_be_returned(name: str) -> None:
    marks = {name: {0}}
    assert vars(returned(marks)) == marks


@pytest.mark.parametrize(
    "attributes",
    [
        {"tolist": lambda: [1.0]},
        {"_dynamo_weak_dynamic_indices": lambda: None},
        {"_dynamo_weak_dynamic_indices": {0}, "late": torch.ones(1)},
        {"_dynamo_weak_dynamic_indices": Counting({0})},
        {"_dynamo_weak_dynamic_indices": {True}},
    ],
)
def test_a_tensor_with_anything_else_on_it_may_not(attributes: dict[str, Any]) -> None:
    with pytest.raises(CandidateFailure, match="behaviour of its own"):
        returned(attributes)
