"""What is told where a candidate decides by sizes that were never executed."""

from __future__ import annotations

import pytest

from kernelagent.tools.judge.verify.at_your_sizes.never_executed import (
    decided_otherwise,
    nothing_compared,
)

FORWARD = "def forward(self, x):\n    width = self.lstm.weight_hh_l0.shape[1]\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "    half = width // 2 if width >= 64 else width",
            ["width >= 64"],
        ),
        ("    if x.shape[1] == 256: x = x + 1", ["x.shape[1] == 256"]),
        ("    block = 32 if width >= 16 else 16", []),
        ("    if x.dtype == torch.float16: x = x.float()", []),
        ("    if width > x.shape[1]: x = x + 1", []),
        ("    if (", []),
    ],
)
def test_conditions_that_come_out_otherwise_at_the_users_sizes_are_found(
    line: str, found: list[str]
):
    assert list(decided_otherwise(f"{FORWARD}{line}\n    return x\n", [(256, 32)])) == found


def test_where_nothing_was_compared_the_conditions_are_named():
    source = FORWARD + "".join(f"    if width > {n}: x = x + {n}\n" for n in (40, 50, 60, 70, 80))
    told = nothing_compared(source, [(256, 32), (512, 64)])
    assert told.code == "not_compared_at_your_sizes"
    assert "(256 as 32, 512 as 64)" in told.message
    assert "`width > 40`" in told.message
    assert "and 2 more" in told.message
    assert (
        "conditions"
        not in nothing_compared("def forward(self, x):\n    return x\n", [(256, 32)]).message
    )
