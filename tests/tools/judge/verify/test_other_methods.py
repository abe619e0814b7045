"""What is told of methods that nobody compares."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.verify.other_methods import other_methods


class Coder(torch.nn.Module):
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encode(x) * 2


FORWARD = "    def forward(self, x):\n        return x\n"


def test_a_method_that_both_have_is_told_of() -> None:
    source = f"class ModelNew:\n    def encode(self, x):\n        return x\n{FORWARD}"
    told = other_methods(Coder(), source)
    assert told is not None
    assert (told.code, "its own encode," in told.message) == ("other_methods", True)


def test_functions_of_the_candidate_alone_and_what_every_module_has_are_not() -> None:
    own = f"class ModelNew:\n    def launch(self, x):\n        return x\n{FORWARD}"
    assert other_methods(Coder(), own) is None
    assert (
        other_methods(
            torch.nn.ReLU(),
            f"class ModelNew:\n    def extra_repr(self):\n        return ''\n{FORWARD}",
        )
        is None
    )
    assert (
        other_methods(
            Coder(),
            f"class Other:\n    def encode(self):\n        pass\nclass ModelNew:\n{FORWARD}",
        )
        is None
    )
