"""Which tensors a call writes to, whatever they hold afterwards: asked of the candidate and of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Set

import torch

from kernelagent.tools.calls.loading import places


class Writes:
    """What is written to some tensors from now on, whatever they hold afterwards."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """By names, that are told."""
        self._versions = {
            name: (tensor, 0 if tensor.is_inference() else tensor._version)
            for name, tensor in tensors.items()
        }

    def since(self, stored: Set[int] = frozenset()) -> list[str]:
        """Which were, by torch or by a kernel; `stored`: identities of the storages that kernels stored to."""
        return [
            name
            for name, (tensor, version) in self._versions.items()
            if (not tensor.is_inference() and tensor._version != version)
            or tensor.untyped_storage()._cdata in stored
        ]


def held_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Its parameters and buffers."""
    return {name: own[last] for name, (own, last) in places(module)}


def exchanged(
    before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> frozenset[str]:
    """Names that stand for another tensor than before."""
    return frozenset(name for name, tensor in after.items() if before.get(name) is not tensor)
