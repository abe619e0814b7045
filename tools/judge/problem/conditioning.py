"""How far a correct output may move: the effect of rounding its inputs and the reference's
intermediate results to float32, and of long float32 sums.

Used only after the gate refused: if eager happens to be exact, the budget is so small that no correct
kernel can meet it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kernelagent.domain.evaluation import Disclosure
from kernelagent.tools.judge.problem.input_domain import Tensors
from kernelagent.tools.judge.verify.compare import MeasureNoise, leaves
from kernelagent.tools.judge.verify.gate import output_unit, unit_roundoff
from kernelagent.tools.judge.verify.regions import Noise, region_norms

LONG_SUM = 4096
"""From this many terms on, a sequential float32 sum is clearly less exact than eager's blocked sum."""
_INSIDE = 4 * 2.0**-24
"""Error, relative to the row, of a float32 intermediate shared by the whole row; equal to the gate's floor."""
_FLOAT32 = 2.0**-24
_ATEN = torch.ops.aten
_INSIDE_OF = get_decompositions(
    [_ATEN.native_layer_norm, _ATEN.native_group_norm, _ATEN.native_batch_norm]
)
"""Operations that hold intermediate results of their own: a mean, a variance."""
_COPIES = frozenset({_ATEN.clone.default, _ATEN._to_copy.default, _ATEN.detach.default})
_DRAWS = 8
_BUCKET_BASE = 4.0
_FEWEST_IN_BUCKET = 64
_UNEVEN = 6.0


def measure_noise(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
) -> dict[str, Noise]:
    """Change of each floating output when every element of every input moves by its own rounding,
    and every intermediate result by that of float32.

    `reference` is the float64 reference, `oracle64` its answer on `tensors`, whose dtypes say how
    exactly the inputs are known. One unit roundoff up or down each, drawn eight times; the largest counts.
    """
    measured = {name: _inside(leaf) for name, leaf in leaves(oracle64) if _counts(leaf)}
    exact = dict(leaves(oracle64))
    for _ in range(_DRAWS):
        moved = {name: _moved(tensor, generator) for name, tensor in tensors.items()}
        with _RoundedIntermediates(generator):
            answers = reference(moved)
        for name, answer in leaves(answers):
            if name in measured:
                change = torch.as_tensor(answer) - torch.as_tensor(exact[name])
                measured[name] = _larger(measured[name], region_norms(change, change.shape))
    return measured


def _inside(leaf: Any) -> Noise:
    value = torch.as_tensor(leaf)
    size = region_norms(value, value.shape)
    return Noise(_INSIDE * size.rms, _INSIDE * size.max)


def _larger(left: Noise, right: Noise) -> Noise:
    return Noise(left.rms.maximum(right.rms), left.max.maximum(right.max))


def _counts(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return _floats(leaf) and leaf.numel() > 0
    return isinstance(leaf, float | complex)


def long_sum_noise(
    oracle64: torch.Tensor, noise: Noise, tensors: Tensors, terms: int
) -> Noise | None:
    """The error one sequential float32 sum of `terms` terms may have; None for shorter sums.

    The a-priori bound is `sqrt(n) * 2**-24 * sum|x_i|`. Independent roundings of the terms move the
    sum by `u * sum|x_i| / sqrt(n)`, which is what `noise` measured with the roundoff `u` of the
    inputs: hence `n` times that, in units of float32. Where terms cancel the bound is far above what
    a sum really loses, so it is never more than `sqrt(n)` half ulps of the sum itself.
    """
    if terms < LONG_SUM:
        return None
    known_to = min(
        (unit_roundoff(t.dtype) for t in tensors.values() if _floats(t)), default=2.0**-24
    )
    size = region_norms(oracle64, tuple(oracle64.shape))
    bound, most = terms * 2.0**-24 / known_to, 2 * terms**0.5 * 2.0**-24
    return Noise(
        (bound * noise.rms).minimum(most * size.rms), (bound * noise.max).minimum(most * size.max)
    )


def noise_on_demand(
    reference: Callable[[Tensors], Any],
    tensors: Tensors,
    oracle64: Any,
    generator: torch.Generator,
) -> MeasureNoise:
    """What `compare.Expected.measure_noise` wants: measured at the first refusal, then remembered."""
    measured: dict[str, Noise] = {}
    exact = dict(leaves(oracle64))
    terms = longest_sum(tensors, oracle64)

    def measure(name: str) -> tuple[Noise, Noise | None]:
        if not measured:
            measured.update(measure_noise(reference, tensors, oracle64, generator))
        right = torch.as_tensor(exact[name])
        return measured[name], long_sum_noise(right, measured[name], tensors, terms)

    return measure


def longest_sum(tensors: Tensors, outputs: Any) -> int:
    """Most terms an output element is a sum of, read from the shapes: sizes that no output has."""
    result = [leaf for _, leaf in leaves(outputs) if isinstance(leaf, torch.Tensor)]
    kept = {size for leaf in result for size in leaf.shape}
    return max(
        (math.prod(n for n in tensor.shape if n not in kept) for tensor in tensors.values()),
        default=1,
    )


def uneven_accuracy(
    name: str, candidate: torch.Tensor, eager: torch.Tensor, oracle64: torch.Tensor
) -> Disclosure | None:
    """Say so when values of one size are far less exact than eager's, though the whole passed.

    Buckets are powers of four of the oracle's absolute value; those of 64 and more elements count.
    """
    finite = candidate.isfinite() & eager.isfinite() & oracle64.isfinite() & (oracle64 != 0)
    exact = oracle64[finite].to(torch.float64)
    if exact.numel() < _FEWEST_IN_BUCKET:
        return None
    powers = exact.abs().log2().div(torch.tensor(_BUCKET_BASE).log2()).floor().to(torch.int64)
    lowest = int(powers.amin())
    places = powers - lowest
    counts = torch.bincount(places)

    def rms(values: torch.Tensor) -> torch.Tensor:
        return (torch.bincount(places, weights=values.square()) / counts.clamp(min=1)).sqrt()

    own = rms(candidate[finite].to(torch.float64) - exact)
    unit = rms(eager[finite].to(torch.float64) - exact)
    unit = unit.maximum(output_unit(eager.dtype) * rms(exact))
    ratios = torch.where(counts >= _FEWEST_IN_BUCKET, own / unit, 0.0)
    worst = int(ratios.argmax())
    if float(ratios[worst]) <= _UNEVEN:
        return None
    low = _BUCKET_BASE ** (worst + lowest)
    return Disclosure(
        "uneven_accuracy",
        f"{name}: values between {low:.3g} and {low * _BUCKET_BASE:.3g} are "
        f"{float(ratios[worst]):.0f} times less exact than eager's",
    )


class _RoundedIntermediates(TorchDispatchMode):
    """Moves what each operation returns by the rounding of float32.

    A kernel rounds a row's mean once, and all elements of the row move to one side: in a sum of them
    that adds up, where the inputs' own roundings cancel.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        inside = _INSIDE_OF.get(func)
        if inside is not None:
            with self:
                return inside(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        if func.is_view or func._schema.is_mutable or func in _COPIES:
            return result
        return tree_map(self._rounded, result)

    def _rounded(self, value: Any) -> Any:
        wide = isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)
        return _moved(value, self._generator, _FLOAT32) if wide else value


def _moved(
    tensor: torch.Tensor, generator: torch.Generator, roundoff: float | None = None
) -> torch.Tensor:
    if not _floats(tensor):
        return tensor
    roundoff = unit_roundoff(tensor.dtype) if roundoff is None else roundoff
    wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    drawn = torch.randint(
        0, 2, tensor.shape, generator=generator, device=generator.device, dtype=torch.int8
    )
    signs = (2 * drawn - 1).to(device=tensor.device, dtype=torch.float64)
    moved = wide * (1 + roundoff * signs)
    # 0 times anything, and infinity times it, must stay what it was: masks are not rounded.
    return torch.where(wide.isfinite(), moved, wide)


def _floats(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
