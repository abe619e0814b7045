"""Complex tensors as the pairs of floating ones that they are: what is asked of or done to numbers is done to both parts.

`is_inexact` is the question whether a tensor holds numbers with fractions at all, as numpy means the word.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_LEAST_MODULUS = 1e-30
"""A kernel's squares of smaller parts are zero."""


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether it is floating or complex: what is differentiated, rounded, and compared within a budget."""
    return tensor.is_floating_point() or tensor.is_complex()


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Real and imaginary parts of a complex tensor, in memory of their own and detached."""
    plain = torch.view_as_real(tensor.detach().resolve_conj())
    return plain[..., 0].clone(), plain[..., 1].clone()


def of_parts(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    """The complex tensor of these parts; unlike `real + 1j * imaginary` it keeps infinities and signs of zeros."""
    wide = torch.float64 if real.dtype == torch.float64 else torch.float32
    return torch.complex(real.to(wide), imaginary.to(wide))


def in_each_part(
    change: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor
) -> torch.Tensor:
    """`change` of the tensor; of a complex one what it makes of either part."""
    if not tensor.is_complex():
        return change(tensor)
    real, imaginary = parts_of(tensor)
    return of_parts(change(real), change(imaginary))


def by_modulus(
    change: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor
) -> torch.Tensor:
    """What `change` makes of the moduli, with the phases that the numbers have."""
    plain = tensor.detach().to(torch.complex128)
    sizes = change(tensor.detach().abs()).to(torch.float64)
    return (torch.sgn(plain) * sizes).to(tensor.dtype)


def by_rows(first: torch.Tensor, other: torch.Tensor, start: int) -> torch.Tensor:
    """Every second row of either tensor; of a single row the one that `start` chooses."""
    if first.dim() < 2:
        return first if start % 2 else other
    rows = torch.arange(first.numel() // max(1, first.shape[-1]), device=first.device)
    odd = ((rows + start) % 2 == 1).reshape(*first.shape[:-1], 1)
    return torch.where(odd, first, other)


def without_tiny(tensor: torch.Tensor) -> torch.Tensor:
    """Zero where the modulus is so small that its square is none: what is divided by it is rounding's."""
    return torch.where(tensor.abs() < _LEAST_MODULUS, torch.zeros_like(tensor), tensor)


def parts_first(value: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a floating one with a first dimension of two, the parts; another as it is."""
    return torch.stack(parts_of(value)) if value.is_complex() else value
