"""A float64 forward in which each operation errs by half a unit in the last place of float32.

What changes in the result is what any float32 computation of the same steps may lose, in whatever
order it adds. Known as Monte Carlo arithmetic (D. S. Parker, UCLA CSD-970002, 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.tools.candidate_runner.forbidding import LIGHT
from kernelagent.tools.judge.problem.reference.attention_inside import ATTENTION_STEPS
from kernelagent.tools.judge.problem.reference.lowered_precision import factors_of

_UNIT = 2.0**-24
_ATEN = torch.ops.aten


def _log_softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    return x - x.logsumexp(dim, keepdim=True)


def _softmax(x: torch.Tensor, dim: int, _: bool) -> torch.Tensor:
    return (x - x.logsumexp(dim, keepdim=True)).exp()


def _gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    if approximate == "none":
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
    inside = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inside))


def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """By doubling, as a GPU's threads have it: a part that overflows meets a zero before it, which one after another never do."""
    product = x if dtype is None else x.to(dtype)
    if not product.dim():
        return product.clone()
    product = product.movedim(dim, -1)
    step = 1
    while step < product.shape[-1]:
        # In float64's range neither would be met.
        later = (product[..., step:] * product[..., :-step]).float().to(product.dtype)
        product, step = torch.cat([product[..., :step], later], -1), 2 * step
    return product.movedim(-1, dim)


_STEPS_INSIDE: dict[Any, Callable[..., Any]] = {
    **get_decompositions(
        [
            *(_ATEN.native_layer_norm, _ATEN.native_group_norm, _ATEN.native_batch_norm),
            *(_ATEN.native_layer_norm_backward, _ATEN.native_group_norm_backward),
            *(_ATEN.native_batch_norm_backward, _ATEN.gelu_backward),
        ]
    ),
    _ATEN.gelu.default: _gelu,
    _ATEN._log_softmax.default: _log_softmax,
    _ATEN._softmax.default: _softmax,
    _ATEN.cumprod.default: _cumprod,
    **ATTENTION_STEPS,
}
"""Operations that are run as their decompositions, so that intermediate results are rounded as well. Rounding a row's
mean shifts the whole row in one direction, which adds up in a later sum over the row; the rounding errors of single
elements cancel there. A GELU adds one to what is nearly minus one: how that rounds decides its left tail, torch's own as well. A softmax by one number for each row, as kernels keep it for a backward, errs by that number's rounding."""
_SUMS = frozenset(
    [
        *(_ATEN.sum, _ATEN.mean, _ATEN.cumsum, _ATEN.dot, _ATEN.mv, _ATEN.mm, _ATEN.bmm),
        *(_ATEN.addmv, _ATEN.addmm, _ATEN.baddbmm, _ATEN.convolution, _ATEN.convolution_backward),
        *(_ATEN.avg_pool2d, _ATEN.avg_pool3d, _ATEN._adaptive_avg_pool2d),
        *(_ATEN._adaptive_avg_pool3d, _ATEN.embedding_dense_backward, _ATEN.upsample_bilinear2d),
    ]
)
"""Linear in each operand: on absolute values they are what a sum of the terms' sizes comes to."""

_COMPARISONS = frozenset(
    getattr(torch.ops.aten, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf")
)
_EXACT = frozenset(
    """add sub rsub mul neg abs maximum minimum clamp clamp_min clamp_max relu threshold threshold_backward hardtanh
    hardtanh_backward leaky_relu leaky_relu_backward where masked_fill sign sum mm bmm addmm baddbmm mv addmv dot amax
    amin max min gather scatter scatter_add index index_put index_select index_add cat stack cumsum convolution
    convolution_backward select_backward slice_backward""".split()
)
"""Operations that any float32 computation does without an error where their results are short enough."""
_BY_PART = frozenset(
    "add sub neg complex clone cat stack where index gather _to_copy zeros_like _conj_physical".split()
)
"""Of complex numbers: they treat the parts apart, so that each errs by its own size; a product's parts err by the whole's."""
_BESIDE_ONE = frozenset("softplus tanh erf expm1 log1p".split())
"""Functions whose usual formulas add to one, or subtract from it: what is small of them errs by a unit of one there."""
_WHOLE = frozenset("floor ceil round trunc".split())
_PERIOD = 65_537
"""Elements after which the directions repeat, each time from another place: drawing one for each costs more
than the operation. A prime, so that no two rows of a matrix have the same."""


class RoundedSteps(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, every finite float64 that an operation takes or computes moves up or down by one unit.

    `generator` decides which way. Views, copies, allocations and integers stay as they are.
    """

    def __init__(
        self,
        generator: torch.Generator,
        *,
        keeps_exact: bool = False,
        keeps_whole: bool = False,
        units: int = 1,
        lowered: Mapping[str, float] | None = None,
        beside_one: bool = False,
    ) -> None:
        """`keeps_exact`: what float32 holds stays as it is, where it was added, multiplied or chosen.

        `keeps_whole`: besides, where it was rounded to a whole number. `units`: so many units for each. `lowered`: by
        the name of an operation, how far its factors are off besides, as `lowered_precision.as_allowed` tells it.
        `beside_one`: functions as `log(1 + exp(x))` err by a unit of one besides, unless their result is whole.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._keeps_exact = keeps_exact or keeps_whole
        self._exact = _EXACT | _WHOLE if keeps_whole else _EXACT
        self._unit = units * _UNIT
        self._in_exact_step = False
        self._by_part = True
        self._lowered = lowered or {}
        self._beside_one = _BESIDE_ONE if beside_one else frozenset()
        self._generator = generator
        self._pattern: torch.Tensor | None = None

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        steps = _STEPS_INSIDE.get(func)
        if steps is not None:
            with self:
                return steps(*args, **kwargs)
        if func.is_view or str(func.overloadpacket).partition(".")[2] in LIGHT:
            return func(*args, **kwargs)
        if func.overloadpacket in _COMPARISONS:
            # Nothing is rounded in one, and `x == x` must hold, which is a part of `isfinite`.
            return func(*args, **kwargs)
        name = str(func.overloadpacket).partition(".")[2].rstrip("_")
        # What comes in was moved when it was computed, unless it is exact.
        self._in_exact_step = self._by_part = True
        if not func._schema.is_mutable:
            # Sums and products round inside: a part of them that cancels is seen in their operands.
            args, kwargs = tree_map(self._copy_moved, (args, kwargs))
            self._lower(name, args)
        result = func(*args, **kwargs)
        self._in_exact_step = self._is_exact(name, args, kwargs)
        self._by_part = name in _BY_PART
        if func.overloadpacket in _SUMS:
            sizes = func(*tree_map(_size, args), **kwargs)
            for leaf, size in zip(tree_leaves(result), tree_leaves(sizes), strict=True):
                if _is_wide(leaf):
                    # Terms that cancel in one order first add up in another, to half of their sizes at most.
                    self._move(leaf, (size - leaf.abs()).clamp_min(0) / 2)
            return result
        for leaf in tree_leaves(result):
            if _is_wide(leaf):
                beside_one = self._of_one(leaf) if name in self._beside_one else None
                self._move(leaf)
                if beside_one is not None:
                    leaf.add_(beside_one)
        return result

    def _is_exact(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether short results of this operation have no error, which is asked only where these are kept."""
        if name != "div" or not self._keeps_exact:
            return name in self._exact
        rounds = kwargs.get("rounding_mode") is not None
        return (not rounds or "floor" in self._exact) and _by_powers_of_two(args)

    def _of_one(self, result: torch.Tensor) -> torch.Tensor:
        """A unit of one up or down; none where the result is a whole number, as zero: a usual formula has that, too."""
        parts = torch.view_as_real(result) if result.is_complex() else result
        moves = parts.isfinite() & (parts != parts.round())
        moved = torch.where(moves, self._unit * self._signs(parts.shape).to(parts.device), 0.0)
        return torch.view_as_complex(moved) if result.is_complex() else moved

    def _lower(self, name: str, args: Sequence[Any]) -> None:
        """Factors of what is formed in less than float32, in their place: they are copies already."""
        unit = self._lowered.get(name)
        if unit is None:
            return
        for at in factors_of(name, args):
            if _is_wide(args[at]):
                args[at].mul_(self._signs(args[at].shape).mul_(unit).add_(1).to(args[at].device))

    def _copy_moved(self, value: Any) -> Any:
        if not _is_wide(value):
            return value
        copy = value.clone()
        self._move(copy)
        return copy

    def _move(self, tensor: torch.Tensor, further: torch.Tensor | None = None) -> None:
        """Each element by a unit of its size, or of its size and `further`."""
        if tensor.is_complex():
            self._move_complex(tensor, further)
            return
        if self._keeps_exact and self._in_exact_step:
            self._move_inexact(tensor, further)
            return
        if further is not None:
            signs = self._signs(tensor.shape).to(tensor.device)
            tensor.add_(further.nan_to_num(0.0, 0.0, 0.0).mul_(self._unit) * signs)
        # Infinity times a factor is itself, and so is zero: masks and exact zeros stay.
        if tensor.numel() <= _PERIOD:
            tensor.mul_(self._factors(tensor.shape).to(tensor.device))
            return
        if self._pattern is None:
            self._pattern = self._factors((_PERIOD,)).to(tensor.device)
        start = torch.randint(_PERIOD, (), generator=self._generator, device=self._generator.device)
        pattern = self._pattern.roll(-int(start))
        if not tensor.is_contiguous():
            times = -(-tensor.numel() // _PERIOD)
            tensor.mul_(pattern.repeat(times)[: tensor.numel()].reshape(tensor.shape))
            return
        # A piece at a time: a further tensor of this size costs as much as drawing it.
        for piece in torch.split(tensor.view(-1), _PERIOD):
            piece.mul_(pattern[: piece.numel()])

    def _move_complex(self, tensor: torch.Tensor, further: torch.Tensor | None) -> None:
        """Either part by a unit of its own size or of the modulus; a part that is zero stays, as numbers on an axis do."""
        parts = torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor)
        if self._keeps_exact and self._in_exact_step:
            self._move_inexact(parts, None if further is None else further.unsqueeze(-1))
            return
        size = parts.abs() if self._by_part else tensor.abs().unsqueeze(-1)
        if further is not None:
            size = size + further.nan_to_num(0.0, 0.0, 0.0).unsqueeze(-1)
        error = self._unit * size * self._signs(parts.shape).to(tensor.device)
        # A sum with nothing would turn -0 into 0, and take an answer across a branch cut.
        parts.copy_(torch.where((parts != 0) & error.isfinite(), parts + error, parts))

    def _move_inexact(self, tensor: torch.Tensor, further: torch.Tensor | None) -> None:
        """The same, but for elements that float32 holds."""
        size = tensor if further is None else tensor.abs() + further.nan_to_num(0.0, 0.0, 0.0)
        moved = tensor + self._unit * size * self._signs(tensor.shape).to(tensor.device)
        inexact = (tensor.float().double() != tensor) & tensor.isfinite()
        tensor.copy_(torch.where(inexact, moved, tensor))

    def _factors(self, shape: Sequence[int]) -> torch.Tensor:
        """One unit up or down."""
        return self._signs(shape).mul_(self._unit).add_(1)

    def _signs(self, shape: Sequence[int]) -> torch.Tensor:
        signs = torch.empty(shape, dtype=torch.float64, device=self._generator.device)
        return signs.bernoulli_(0.5, generator=self._generator).mul_(2).sub_(1)


def _by_powers_of_two(args: Sequence[Any]) -> bool:
    """Whether a quotient has its dividend's digits."""
    divisor = torch.as_tensor(args[1]) if len(args) > 1 else torch.empty(0)
    if divisor.is_complex() or divisor.is_meta or not divisor.numel():
        return False
    # The first says it of nearly all that are not.
    return all(
        bool((torch.frexp(some.double().abs()).mantissa == 0.5).all())
        for some in (divisor.reshape(-1)[:1], divisor)
    )


def _size(value: Any) -> Any:
    return value.abs() if _is_wide(value) else value


def _is_wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)
