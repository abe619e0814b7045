"""The constructor's signature as it stands in the emitted file, and what it refuses."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest
import torch

from kernelagent.models.compiler.module.constructor import signature, state_lines
from kernelagent.models.compiler.module.fixed_arguments import fixed_arguments, refusal_lines


class Mode(enum.IntEnum):
    FAST = 1


class Style(enum.StrEnum):
    PLAIN = "plain"


class Network(torch.nn.Module):
    def __init__(
        self,
        classes: int,
        repeats: list[int] = [3, 7, 3],  # noqa: B006 - as users write it
        sizes: Any = ([1, 2], (3,)),
        most: float = math.inf,
        dtype: torch.dtype = torch.float32,
        kind: type = torch.nn.ReLU,
        mode: Mode = Mode.FAST,
        style: Style = Style.PLAIN,
        rate: float = np.float64(0.5),
    ) -> None:
        super().__init__()


def constructor(kind: type) -> Any:
    lines = refusal_lines(fixed_arguments(kind, ((10,), {}), ((10,), {}), {}))
    head = f"def built({', '.join(signature(kind.__init__))}):"  # type: ignore[misc]
    names: dict[str, Any] = {"torch": torch}
    exec("\n".join([head, *(f"    {line}" for line in lines), "    return locals()"]), names)
    return names["built"]


def test_defaults_that_are_lists_stand_in_the_signature() -> None:
    built = constructor(Network)
    assert built(10) == {
        "classes": 10,
        "repeats": (3, 7, 3),
        "sizes": ((1, 2), (3,)),
        "most": math.inf,
        "dtype": torch.float32,
        "kind": None,
        "mode": 1,
        "style": "plain",
        "rate": 0.5,
    }
    assert built(10, [3, 7, 3])["repeats"] == [3, 7, 3]


@pytest.mark.parametrize(
    "given",
    [
        {"repeats": [3, 7, 4]},
        {"sizes": ([1, 2], (3,), (9,))},
        {"sizes": ((1, 2), (4,))},
        {"most": 1.0},
    ],
)
def test_other_arguments_than_the_kernels_were_made_for_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="made for"):
        constructor(Network)(10, **given)


class Listed(torch.nn.Module):
    """Parameters whose names are numbers, keywords, and one that has two."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.nn.ParameterList([torch.randn(2), torch.randn(3)])
        self.named = torch.nn.ParameterDict({"in": torch.randn(4), "out": self.own[0]})
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])


def test_parameters_in_lists_and_under_any_name_are_built_under_the_same() -> None:
    original, names = Listed(), {"torch": torch, "nn": torch.nn}
    lines = "\n".join(f"    {line}" for line in state_lines(original))
    exec(f"def fill(self):\n{lines}\n    return self", names)
    built = names["fill"](torch.nn.Module())
    built.load_state_dict(original.state_dict())
    assert built.state_dict().keys() == original.state_dict().keys()
    assert built.get_parameter("named.out") is built.get_parameter("own.0")
    assert torch.equal(built.get_parameter("named.in"), original.named["in"])
