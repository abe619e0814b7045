"""What a tensor that stays from call to call looks like: its form and its whole memory."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator

import torch

_DIGESTED = 64 << 20
"""Bytes of one walk that are digested; of more a sum with random weights is taken, which is faster."""
_SUMMED = 4 << 30
_PIECE = 1 << 23
_WORD = 8


class Contents:
    """Reads the tensors of one walk; the weights are nobody's to guess, and the same before a call and after."""

    _weights: torch.Tensor | None = None

    def __init__(self) -> None:
        self._bytes = 0
        self.is_complete = True
        """Whether all of them were read."""
        self._storages: dict[int, int] = {}
        self._compared: set[int] = set()

    @property
    def kept_bytes(self) -> int:
        """Of memory in which nothing lies that the judge compares with the reference's."""
        own = self._storages.items()
        return sum(size for storage, size in own if storage not in self._compared)

    def of(self, value: torch.Tensor, *, compared: bool) -> str:
        """`compared`: by the judge with the reference's, so that only its form and what lies around it are told."""
        plain = value.detach()
        if plain.is_nested:
            parts = [self.of(part, compared=False) for part in plain.unbind()]
            return " ".join(["nested", *parts])
        form = f"{plain.dtype} {tuple(plain.shape)} {value.requires_grad}"
        if plain.is_meta:
            return form
        if plain.is_quantized:
            return f"{form} {self._memory(plain.int_repr())}"
        if plain.layout != torch.strided:
            return " ".join([form, *map(self._memory, _parts(plain))])
        if plain.untyped_storage().device.type == "meta":
            # What torch.compile traced with: it names a device and holds nothing.
            return form
        form += f" {plain.stride()} {plain.storage_offset()} {plain.is_conj()} {plain.is_neg()}"
        own = math.prod(plain.shape) * plain.element_size()
        storage = plain.untyped_storage()
        held = storage.nbytes()
        self._storages[storage._cdata] = held
        if compared:
            self._compared.add(storage._cdata)
        if not compared:
            return f"{form} {self._memory(plain)}"
        if held > own and plain.is_contiguous():
            start = plain.storage_offset() * plain.element_size()
            around = _bytes_of(plain)
            return f"{form} {self._read(around[:start])} {self._read(around[start + own :])}"
        return form

    def memory_of(self, value: torch.Tensor) -> int | None:
        """Which memory it lies in, among that of tensors that are alive; None where it is in none of its own."""
        apart = value.is_meta or value.is_quantized or value.is_nested
        if apart or value.layout != torch.strided:
            return None
        memory: int = value.untyped_storage()._cdata
        return memory

    def _memory(self, plain: torch.Tensor) -> str:
        return self._read(_bytes_of(plain))

    def _read(self, flat: torch.Tensor) -> str:
        self._bytes += flat.numel()
        if self._bytes <= _DIGESTED:
            return hashlib.blake2b(flat.cpu().numpy().tobytes()).hexdigest()
        if self._bytes > _SUMMED:
            self.is_complete = False
            return "not read"
        return str([self._sum(piece) for piece in torch.split(flat, _PIECE)])

    def _sum(self, piece: torch.Tensor) -> int:
        short = -piece.numel() % _WORD
        words = torch.nn.functional.pad(piece, (0, short)).view(torch.int64)
        if Contents._weights is None:
            generator = torch.Generator().manual_seed(secrets.randbits(63))
            limits = torch.iinfo(torch.int64)
            Contents._weights = torch.randint(
                limits.min, limits.max, (_PIECE // _WORD,), generator=generator
            ).bitwise_or(1)
        weights = Contents._weights[: words.numel()].to(words.device)
        return int((words * weights).sum())


def _bytes_of(plain: torch.Tensor) -> torch.Tensor:
    """The whole memory that a tensor keeps, of which it may show a part."""
    return torch.empty(0, dtype=torch.uint8, device=plain.device).set_(plain.untyped_storage())


def _parts(plain: torch.Tensor) -> Iterator[torch.Tensor]:
    if plain.layout == torch.sparse_coo:
        yield from (plain._indices(), plain._values())
    elif plain.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (plain.crow_indices(), plain.col_indices(), plain.values())
    elif plain.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (plain.ccol_indices(), plain.row_indices(), plain.values())
    else:
        yield plain.to_dense()
