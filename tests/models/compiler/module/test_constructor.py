"""The constructor's signature as it stands in the emitted file, and what it refuses."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest
import torch

from kernelagent.models.compiler.module.constructor import signature
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
