"""Tables of torch's by which a candidate could have itself called in the user's program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data._utils.collate import default_collate_fn_map

from kernelagent.tools.candidate_runner.integrity.registrations import registered


class Foreign:
    pass


def _hook() -> Callable[[], Any]:
    return register_optimizer_step_post_hook(lambda *_: None).remove


def _collate() -> Callable[[], Any]:
    before = default_collate_fn_map[torch.Tensor]
    default_collate_fn_map[torch.Tensor] = lambda batch, **_: batch[0]
    return lambda: default_collate_fn_map.__setitem__(torch.Tensor, before)


def _safe() -> Callable[[], Any]:
    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([Foreign])

    def back() -> None:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)

    return back


@pytest.mark.parametrize("change", [_hook, _collate, _safe])
def test_a_table_that_torch_calls_from_is_compared(change: Callable[[], Callable[[], Any]]) -> None:
    before = registered()
    assert registered() == before
    back = change()
    after = registered()
    back()
    assert [name for name in before if before[name] != after[name]] == [
        "torch's tables of functions"
    ]
    assert registered() == before
