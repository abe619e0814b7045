"""A module and its inputs to the source TorchInductor writes for them, with or without a GPU.

Without one Inductor is told to write Triton for CPU tensors and stopped when the source is there.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor_config
import triton
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import fuse_attention
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.func import functional_call
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import (
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)

from kernelagent.models.compiler.attention import WHOLE, layers_unfused
from kernelagent.models.compiler.attention_steps import as_one_step
from kernelagent.models.compiler.constants import constants_of, with_numbers, with_slices
from kernelagent.models.compiler.pooling import POOLED
from kernelagent.models.compiler.stand_in import StandInDriver
from kernelagent.models.compiler.symbolic_functions import AS_THEY_LIE, OPAQUE, SymbolicFunctions
from kernelagent.models.compiler.symbols import (
    SizeIsFixed,
    Sizes,
    SymbolicTensors,
    sizes_as_variables,
)

LARGEST_PERSISTENT = 16384
"""Longest row a program may hold at once; longer ones are looped over."""

LONGEST_HELD_ACROSS = 1024
"""The same where rows stand side by side in memory, and a program must hold several to read whole sectors."""

MOST_WRITTEN_OUT = 256
"""Values of a constant tensor that a reader still accepts in a source file."""


_DEPENDS_ON_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


class PolicyCannot(Exception):
    """The policy cannot rewrite this module; the message ends with what to do."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"the built-in policy cannot rewrite {what} because {why}; give a model with --model"
        )


class TookTooLong(PolicyCannot):
    """There is no time to try anything else."""


@dataclass(frozen=True)
class Value:
    """One tensor the captured program takes: a parameter, a buffer or an input."""

    name: str
    """`weight`, `norm.bias`, or the input as an expression of forward's arguments, `xs[0]`."""
    kind: str
    """`parameter`, `buffer`, `input`, or `constant`, made in the forward itself."""
    tensor: torch.Tensor


@dataclass(frozen=True)
class Captured:
    """Inductor's program for one module and one set of inputs."""

    source: str
    values: tuple[Value, ...]
    """In the order of the program's arguments."""
    output_spec: TreeSpec
    outputs: tuple[Any, ...]
    """Flat results; tensors are fake, anything else is itself."""
    sizes: Sizes = field(default_factory=Sizes)
    """What is a variable in the program; nothing where it is written for these sizes alone."""
    grows: bool = False
    """Whether its sizes may be larger than the user's."""


@dataclass(frozen=True)
class Smaller:
    """The module and its arguments at the sizes that are executed; tensors may hold nothing."""

    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    grows: bool = False
    """Whether sizes may be larger than the user's, too."""


def capture(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    persistent: bool = True,
    smaller: Smaller | None = None,
) -> Captured:
    """Inductor's source; `persistent`: rows are held whole where they fit. Raises `PolicyCannot`.

    With `smaller`, each size in which it differs is a variable of the program.
    """
    name = type(module).__name__
    values = _values(module, args, kwargs)
    flat_inputs, in_spec = tree_flatten((tuple(args), dict(kwargs)))
    places = [at for at, leaf in enumerate(flat_inputs) if isinstance(leaf, torch.Tensor)]
    state = [value for value in values if value.kind != "input"]
    result: dict[str, Any] = {}

    def program(*tensors: torch.Tensor) -> list[torch.Tensor]:
        weights = {v.name: t for v, t in zip(state, tensors, strict=False)}
        leaves = list(flat_inputs)
        for at, tensor in zip(places, tensors[len(state) :], strict=True):
            leaves[at] = tensor
        given, named = tree_unflatten(leaves, in_spec)
        outputs, result["spec"] = tree_flatten(functional_call(module, weights, given, named))
        result["outputs"] = tuple(outputs)
        return [leaf for leaf in outputs if isinstance(leaf, torch.Tensor)]

    tensors = [value.tensor for value in values]
    sizes = Sizes()
    try:
        with torch.no_grad(), layers_unfused():
            if smaller is None:
                table = {**WHOLE, **AS_THEY_LIE, **POOLED}
                graph = make_fx(program, decomposition_table=table, tracing_mode="fake")(*tensors)
            else:
                few = _values(smaller.module, smaller.args, smaller.kwargs)
                symbolic = SymbolicTensors(tensors, [value.tensor for value in few])
                tensors = symbolic.tensors
                followed = sizes_as_variables(module, smaller.module, list(symbolic.sizes()))
                table = {**WHOLE, **OPAQUE, **POOLED}
                traced = make_fx(program, decomposition_table=table, _allow_non_fake_inputs=True)
                with followed, symbolic.mode, SymbolicFunctions():
                    graph = traced(*tensors)
                symbolic.require_both()
            graph = as_one_step(with_numbers(with_slices(graph)))
            _require_no_roots(graph)
            made = _constants(graph, name)
            source = _source_of(graph, tensors, persistent=persistent)
            if smaller is not None:
                sizes = symbolic.settled()
    except PolicyCannot:
        raise
    except SizeIsFixed as error:
        raise PolicyCannot(name, str(error)) from error
    except _DEPENDS_ON_VALUES as error:
        raise PolicyCannot(
            name,
            f"its forward chooses by the values in its tensors what it computes{_place_of(error)}, "
            f"and a traced program has one path only",
        ) from error
    except Exception as error:  # tracing runs the user's code, which raises anything
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PolicyCannot(name, f"it cannot be traced: {first[:200]}") from error
    if smaller is not None:
        shapes, strides = (
            tuple(tuple(map(str, numbers)) for numbers in every)
            for every in ((v.tensor.shape for v in made), (v.tensor.stride() for v in made))
        )
        sizes = replace(sizes, shapes=(*shapes, *sizes.shapes), strides=(*strides, *sizes.strides))
    grows = smaller is not None and smaller.grows
    return Captured(source, (*made, *values), result["spec"], result["outputs"], sizes, grows)


def _require_no_roots(graph: GraphModule) -> None:
    """A kernel would take the root of a variable in float64, which Triton does not."""
    if any(node.target is torch._sym_sqrt for node in graph.graph.nodes):  # type: ignore[attr-defined]
        raise SizeIsFixed("its forward computes with the root of a size that is executed smaller")


def _place_of(error: BaseException) -> str:
    """` (file.py:12)`: the last line outside torch on the way to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = Path(torch.__file__).parent
    places = [f for f in frames if Path(f.filename).suffix == ".py" and f.filename != __file__]
    own = [f for f in places if inside not in Path(f.filename).parents]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def _constants(graph: GraphModule, what: str) -> tuple[Value, ...]:
    constants = constants_of(graph)
    for _, tensor in constants:
        if tensor.numel() > MOST_WRITTEN_OUT:
            raise PolicyCannot(
                what,
                f"its forward makes a constant tensor of {tensor.numel()} values, which would have to "
                f"be written into the file; make it a buffer",
            )
    return tuple(Value(name, "constant", tensor) for name, tensor in constants)


def _values(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Value]:
    persistent = set(module.state_dict())
    values = [Value(n, "parameter", p.detach()) for n, p in module.named_parameters()]
    for name, buffer in module.named_buffers():
        if name not in persistent and buffer.numel() > MOST_WRITTEN_OUT:
            raise PolicyCannot(
                type(module).__name__,
                f"the buffer {name} is not part of its state_dict, so its {buffer.numel()} values "
                f"would have to be written into the file",
            )
        values.append(Value(name, "buffer", buffer))
    return values + _inputs(module, args, kwargs)


def _inputs(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Value]:
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    by_identity: dict[int, str] = {}
    for name, argument in bound.arguments.items():
        for path, leaf in tree_flatten_with_path(argument)[0]:
            by_identity.setdefault(id(leaf), f"{name}{keystr(path)}")
    flat, _ = tree_flatten((tuple(args), dict(kwargs)))
    return [
        Value(by_identity[id(leaf)], "input", leaf.detach())
        for leaf in flat
        if isinstance(leaf, torch.Tensor)
    ]


class _Got(Exception):
    """Stops Inductor once its source was recorded; nothing is compiled."""


class _Choices(InductorChoices):
    def __init__(self, *, persistent: bool) -> None:
        super().__init__()
        self._persistent = persistent

    def should_use_persistent_reduction(self, features: Any, cooperative_reduction: bool) -> bool:  # type: ignore[override]
        if not self._persistent:
            return False
        longest = LONGEST_HELD_ACROSS if _across(features) else LARGEST_PERSISTENT
        return _hint(features.reduction_numel) <= longest


def _across(features: Any) -> bool:
    """Whether rows stand side by side in memory: neighbours are of different rows."""
    found = features.coalesce_analysis
    if found is None:
        return False
    named = found.norm_read_writes
    within, along = (
        sum(_hint(found.coalesced_by_var.get(name, 0)) for name in names)
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


def _source_of(graph: Any, tensors: Sequence[torch.Tensor], *, persistent: bool) -> str:
    from torch._dynamo.utils import counters

    counters.clear()
    got: list[str] = []
    with (
        _recording(got),
        inductor_config.patch(
            cpu_backend="triton", compile_threads=1, fx_graph_cache=False, force_disable_caches=True
        ),
        V.set_choices_handler(_Choices(persistent=persistent)),
    ):
        try:
            compile_fx(graph, list(tensors))
        except Exception:  # Inductor is stopped once its kernels are recorded
            if not got:
                raise
    if not got:
        raise PolicyCannot("this module", "the compiler has nothing to compute in it")
    return got[0]


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
