"""Memory that a file's own allocator hands out for descriptors is written to, as on a GPU."""

from __future__ import annotations

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.virtual.device.storages.scratch_memory import ScratchMemory


def test_memory_of_its_own_is_taken_at_any_multiple_of_the_alignment() -> None:
    buffer = torch.empty(1024, dtype=torch.int8)
    ScratchMemory(buffer, 512, 128)
    ScratchMemory(buffer[256:], 512, 128)


@pytest.mark.parametrize(
    ("buffer", "fault"),
    [
        (torch.empty(513, dtype=torch.int8)[1:], "no multiple of 128"),
        (torch.empty(576, dtype=torch.int8)[64:], "no multiple of 128"),
        (torch.empty(511, dtype=torch.int8), "511 bytes of 512"),
        (torch.empty(1, dtype=torch.int8).expand(512), "1 bytes of 512"),
    ],
)
def test_what_a_kernel_could_not_use_is_an_illegal_access(buffer: torch.Tensor, fault: str) -> None:
    with pytest.raises(RuntimeError, match=f"an illegal memory access.*{fault}"):
        ScratchMemory(buffer, 512, 128)


def test_what_lies_there_is_gone_and_what_lies_beside_stays() -> None:
    whole = torch.zeros(256)
    version = whole._version  # noqa: SLF001 - torch has no other name for it
    ScratchMemory(whole.view(torch.int8)[256:768], 512, 128).overwrite()
    assert not whole[:64].any()
    assert not whole[192:].any()
    assert whole[64:192].view(torch.int32).count_nonzero() > 100
    assert whole._version == version  # noqa: SLF001 - as above


@pytest.mark.parametrize("wrapped", [lambda t: t, lambda t: (1, t), lambda t: _described(t)])
def test_an_argument_in_it_is_refused(wrapped) -> None:
    whole = torch.zeros(512)
    scratch = ScratchMemory(whole.view(torch.int8)[512:1024], 512, 128)
    scratch.require_apart([wrapped(whole[:128]), wrapped(whole[256:]), wrapped(torch.zeros(512))])
    with pytest.raises(RuntimeError, match="an argument of shape"):
        scratch.require_apart([wrapped(whole[128:160])])


def _described(tensor: torch.Tensor) -> TensorDescriptor:
    return TensorDescriptor(tensor.view(-1, 16), [tensor.numel() // 16, 16], [16, 1], [1, 16])
