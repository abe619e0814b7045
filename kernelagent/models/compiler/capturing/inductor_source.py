"""The source TorchInductor writes for a traced graph, with or without a GPU.

Without one it is told to write Triton for CPU tensors and stopped when the source is there. What it
asks of its device is answered for the GPU the candidate is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._inductor.config as inductor_config
import triton
from torch._dynamo.device_interface import CpuDeviceProperties, CpuInterface
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import fuse_attention, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V

from kernelagent.models.compiler.capturing.stand_in import StandInDriver
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings, ceilings_for

LARGEST_PERSISTENT = 16384
"""Longest row a program may hold at once; longer ones are looped over."""

LONGEST_HELD_ACROSS = 1024
"""The same where rows stand side by side in memory, and a program must hold several to read whole sectors."""


SECTOR_ROWS = 8
"""Rows whose elements, side by side, fill what memory moves at a time."""


class _Got(Exception):
    """Stops Inductor once its source was recorded; nothing is compiled."""


class _Choices(InductorChoices):
    def __init__(self, gpu: DeviceCeilings, *, persistent: bool) -> None:
        super().__init__()
        self._gpu = gpu
        self._persistent = persistent

    def reduction_split_factor(  # type: ignore[override]
        self,
        device: torch.device,
        reduction_numel_hint: int,
        numel_hint: int,
        inner_reduction: bool,
    ) -> int:
        """One where too few multiprocessors have a program each, but a second kernel would cost more."""
        gpu = self._gpu
        programs = numel_hint if inner_reduction else -(-numel_hint // SECTOR_ROWS)
        moved = 4.0 * reduction_numel_hint * numel_hint
        fastest = gpu.dram_bytes_per_s * gpu.dram_efficiency
        whole_us, split_us = (
            moved / min(rate, fastest) * 1e6
            for rate in (programs * gpu.sm_dram_bytes_per_s, fastest)
        )
        if whole_us <= split_us + gpu.launch_us + gpu.program_us:
            return 1
        return super().reduction_split_factor(
            device, reduction_numel_hint, numel_hint, inner_reduction
        )

    def should_use_persistent_reduction(self, features: Any, cooperative_reduction: bool) -> bool:  # type: ignore[override]
        if not self._persistent:
            return False
        across = _across(features)
        if across and getattr(features.reduction_numel, "free_symbols", None):
            # A program holds several rows, of a length that the next call may have longer: sums over a batch.
            return False
        longest = LONGEST_HELD_ACROSS if across else LARGEST_PERSISTENT
        return _hint(features.reduction_numel) <= longest


def _across(features: Any) -> bool:
    """Whether rows stand side by side in memory: neighbours are of different rows."""
    result = features.coalesce_analysis
    if result is None:
        return False
    named = result.norm_read_writes
    within, along = (
        sum(_hint(result.coalesced_by_var.get(name, 0)) for name in names)
        for names in (named.reduce_vars, named.index_vars)
    )
    return bool(along > within)


def _hint(size: Any) -> int:
    """A size as it is in the user's inputs."""
    from torch._inductor.virtualized import V as virtual

    return int(virtual.graph.sizevars.optimization_hint(size))


_TILED = SIMDScheduling.compute_tiling_strategy


def _tiled(
    cls: type[SIMDScheduling], nodes: Any, numel: Any, reduction_numel: Any, analysis: Any
) -> Any:
    tiling, scores = _TILED(nodes, numel, reduction_numel, analysis)
    if reduction_numel != 1 and "y" in tiling:
        return cls.create_tiling([numel], [reduction_numel]), None
    return tiling, scores


def _block_for(size: Any) -> int:
    """The block that holds a whole row, and any shorter one."""
    return int(triton.next_power_of_2(_hint(size)))


def source_of(
    graph: Any, tensors: Sequence[torch.Tensor], *, persistent: bool, target: str
) -> str | None:
    """Inductor's file for the graph, None where there is nothing to compute.

    `persistent`: rows are held whole where they fit. `target`: the GPU, whose multiprocessors decide
    which sums are split.
    """
    from torch._dynamo.utils import counters

    counters.clear()
    # Looked up when Inductor registers its patterns, as it first compiles.
    post_grad.prepare_softmax_extra_check = _softmax_reads_once
    got: list[str] = []
    gpu = ceilings_for(target)
    named = any("source_fn_stack" in node.meta for node in graph.graph.nodes)
    with (
        _recording(got),
        _multiprocessors(gpu.sms),
        inductor_config.patch(
            cpu_backend="triton", compile_threads=1, fx_graph_cache=False, force_disable_caches=True
        ),
        inductor_config.patch("triton.descriptive_names", "torch" if named else "original_aten"),
        V.set_choices_handler(_Choices(gpu, persistent=persistent)),
    ):
        try:
            compile_fx(graph, list(tensors))
        except Exception:  # Inductor is stopped once its kernels are recorded
            if not got:
                raise
    return got[0] if got else None


def _softmax_reads_once(match: Any) -> bool:
    """Inductor's own answer for a GPU: maximum and sum of a softmax are found in one reading of long rows."""
    return bool(inductor_config.online_softmax)


@contextmanager
def _multiprocessors(count: int) -> Iterator[None]:
    """Inductor splits a sum of few results by how many there are, and asks a CPU for its cores."""
    original = CpuInterface.Worker.__dict__["get_device_properties"]
    properties = CpuDeviceProperties(count)
    known = DeviceProperties.create.__func__  # type: ignore[attr-defined]
    CpuInterface.Worker.get_device_properties = staticmethod(lambda device=None: properties)  # type: ignore[method-assign]
    known.cache_clear()
    try:
        yield
    finally:
        CpuInterface.Worker.get_device_properties = original  # type: ignore[method-assign]
        known.cache_clear()


@contextmanager
def _recording(got: list[str]) -> Iterator[None]:
    """Record the source that Inductor generates and stop there; `StandInDriver` replaces Triton's driver."""
    original: Callable[[Any], Any] = GraphLowering.codegen

    def codegen(self: Any) -> Any:
        code = original(self)[0]
        got.append(str(getattr(code, "value", code)))
        raise _Got

    # For good: this process only ever writes code.
    triton.runtime.driver.set_active(StandInDriver())
    # Products around a softmax would become the attention of a CPU, which no GPU has; `as_one_step` has seen them.
    fuse_attention._sfdp_init = lambda *_: None  # type: ignore[assignment]
    GraphLowering.codegen = codegen  # type: ignore[method-assign]
    constant_mask, held = TritonKernel._has_constant_mask, TritonKernel._get_persistent_RBLOCK
    # Inductor omits masks that its block sizes do not need; ours differ, so all masks are kept.
    TritonKernel._has_constant_mask = lambda self, tree: False  # type: ignore[method-assign]
    # It holds rows of a fixed length only; a mask makes the block right for shorter ones.
    TritonKernel._get_persistent_RBLOCK = staticmethod(_block_for)  # type: ignore[method-assign]
    # Rows of a reduction go over one axis of programs; over two it may spread them where that reads better.
    tiling = SIMDScheduling.__dict__["compute_tiling_strategy"]
    SIMDScheduling.compute_tiling_strategy = classmethod(_tiled)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        SIMDScheduling.compute_tiling_strategy = tiling  # type: ignore[method-assign]
        TritonKernel._has_constant_mask = constant_mask  # type: ignore[method-assign]
        TritonKernel._get_persistent_RBLOCK = staticmethod(held)  # type: ignore[method-assign]
        GraphLowering.codegen = original  # type: ignore[method-assign, assignment]
