"""torch's recurrent layers while a module is traced: few steps are written out, many are refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from kernelagent.models.compiler.capturing.refusal import PolicyCannot

MOST_STEPS = 48
"""Steps of all layers together that are written out, each with a product and a kernel for its gates."""


@contextmanager
def few_steps() -> Iterator[None]:
    """While it is entered, LSTM, GRU and RNN become their steps; raises `PolicyCannot` where there are too many."""
    hook = register_module_forward_pre_hook(_require_few)
    # With oneDNN an LSTM would become one call of its, which no GPU has.
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
        hook.remove()


def _require_few(part: nn.Module, given: tuple[Any, ...]) -> None:
    if not isinstance(part, nn.RNNBase) or not given:
        return
    sequence = given[0]
    if isinstance(sequence, nn.utils.rnn.PackedSequence):
        raise PolicyCannot(
            "this module", f"torch's {part.mode} is given a packed sequence", _WITHOUT
        )
    axis = 1 if part.batch_first and sequence.dim() == 3 else 0
    length = int(sequence.shape[axis])
    steps = length * part.num_layers * (2 if part.bidirectional else 1)
    if steps > MOST_STEPS:
        kind = "RNN" if part.mode.startswith("RNN") else part.mode
        raise PolicyCannot(
            "this module",
            f"torch's {kind} is one library call (cuDNN's on a GPU), and its {steps} steps, a product and a kernel for each, "
            f"are more than the {MOST_STEPS} that are written out",
            _WITHOUT,
        )


_WITHOUT = "optimize a part without it with --submodule (`kernelagent scan` lists the parts)"
