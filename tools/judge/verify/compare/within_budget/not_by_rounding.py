"""Errors within the budget of an output that rounding does not make: those of one side, and those that places share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernelagent.domain.evaluation import Disclosure, Reason
from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.judge.verify.compare.regions import MeasureNoise, NoiseSources
from kernelagent.tools.judge.verify.compare.ulps import correctly_rounded
from kernelagent.tools.judge.verify.compare.within_budget.bias import (
    slope_at_an_index,
    slope_beyond,
)
from kernelagent.tools.judge.verify.compare.within_budget.large_elements import large_elements_off
from kernelagent.tools.judge.verify.compare.within_budget.one_side import errs_to_one_side
from kernelagent.tools.judge.verify.compare.within_budget.shared_by_tiles import (
    SharedByTiles,
    shared_by_tiles,
)
from kernelagent.tools.judge.verify.compare.within_budget.shared_errors import shared_error
from kernelagent.tools.judge.verify.compare.within_budget.slices import Wide, wide_slice


@dataclass(frozen=True)
class Found:
    """What there is besides the gate's own errors."""

    refused: Reason | None = None
    told: tuple[Disclosure, ...] = ()


def not_by_rounding(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    *,
    natural: bool,
    measure_noise: MeasureNoise | None,
) -> Found:
    """Of an output that passed the gate.

    `natural`: the inputs are as the user's function draws them, where rows, columns and tiles are looked at as well.
    """
    if correctly_rounded(got, oracle):
        return Found()
    kind = name_of(eager.dtype)
    slope = slope_beyond(got, eager, oracle)
    if slope is not None:
        message = (
            f"{name} is {1 + slope:.4f} times the right values on average: each element is within the "
            f"budget of {kind}, all of them err to the same side (a factor, or a part "
            f"of a sum left out)"
        )
        return Found(Reason("wrong_output", message, {"output": name, "slope": slope}))
    if not natural:
        return Found()
    refused = _at_an_index(name, got, eager, oracle, measure_noise)
    if refused is not None:
        return Found(refused)
    tiles = shared_by_tiles(got, eager, oracle)
    if tiles is not None and not tiles.by_one_value:
        detail = {"output": name, "tile": [tiles.rows, tiles.columns], "error": tiles.size}
        return Found(Reason("wrong_output", f"{name} is {tiles.message}", detail))
    return Found(told=tuple(_told(name, got, eager, oracle, tiles)))


def _at_an_index(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    measure_noise: MeasureNoise | None,
) -> Reason | None:
    alone = slope_at_an_index(got, eager, oracle)
    if alone is not None:
        message = (
            f"{name} is {1 + alone.slope:.4f} times the right values on average at index {alone.at} of dimension "
            f"{alone.dim}: each element is within the budget of {name_of(eager.dtype)}, all of them there err to the "
            f"same side"
        )
        detail = {"output": name, "dimension": alone.dim, "index": alone.at, "slope": alone.slope}
        return Reason("wrong_output", message, detail)
    shared = shared_error(got, eager, oracle)
    if shared is not None and measure_noise is not None:

        def explained(noise: NoiseSources) -> bool:
            return shared_error(got, eager, oracle, noise.slices) is None

        noise = measure_noise(name, explained)
        shared = shared_error(got, eager, oracle, noise.slices)
    if shared is not None:
        detail = {"output": name, "dimension": shared.dim, "index": shared.at, "error": shared.size}
        return Reason("wrong_output", f"{name} is {shared.message}", detail)
    wide = _wide_slice(name, got, eager, oracle, measure_noise)
    if wide is not None:
        detail = {"output": name, "dimension": wide.dim, "index": wide.at, "error": wide.error}
        return Reason("wrong_output", f"{name} is {wide.message}", detail)
    return None


def _told(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    tiles: SharedByTiles | None,
) -> Iterator[Disclosure]:
    if tiles is not None:
        yield Disclosure("tiles_err_alike", f"{name} is {tiles.message}")
    side = errs_to_one_side(got, eager, oracle)
    if side is not None:
        yield Disclosure(
            "errs_to_one_side",
            f"{name} is {side}: within the budget of products in a narrower type, and more than cutting operands off "
            f"to TF32 explains, which makes them up to 0.1% too small (a factor, or a part of a sum left out)",
        )
    large = large_elements_off(got, eager, oracle)
    if large is not None:
        yield Disclosure(
            "large_elements_off",
            f"{name}: {large}; the largest of a row, or the order of its elements, may be another than with your "
            f"module",
        )


def _wide_slice(
    name: str,
    got: torch.Tensor,
    eager: torch.Tensor,
    oracle: torch.Tensor,
    measure_noise: MeasureNoise | None,
) -> Wide | None:
    wide = wide_slice(got, eager, oracle)
    if wide is None or measure_noise is None:
        return wide
    noise = measure_noise(name, lambda n: wide_slice(got, eager, oracle, n.slices) is None)
    return wide_slice(got, eager, oracle, noise.slices)
