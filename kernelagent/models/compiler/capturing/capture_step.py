"""A module and its inputs to two programs: its forward with what it keeps, and its backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table
from torch.fx import GraphModule
from torch.utils._pytree import TreeSpec

from kernelagent.models.compiler.capturing.attention import layers_unfused
from kernelagent.models.compiler.capturing.attention_gradients import TRAINED, FusedWhereItFits
from kernelagent.models.compiler.capturing.batch_norms import BATCH_NORMS
from kernelagent.models.compiler.capturing.capture import (
    Captured,
    Forward,
    PolicyCannot,
    Smaller,
    Value,
    compiled,
    refusals,
    values_of,
    with_constants,
    written_constants,
)
from kernelagent.models.compiler.capturing.joint import (
    Halves,
    Origin,
    differentiated,
    halves,
)
from kernelagent.models.compiler.capturing.pooling import POOLED
from kernelagent.models.compiler.capturing.recurrent import few_steps
from kernelagent.models.compiler.capturing.symbolic_functions import (
    AS_THEY_LIE,
    OPAQUE,
    SymbolicFunctions,
)
from kernelagent.models.compiler.capturing.symbols import Sizes, SymbolicTensors, sizes_as_variables
from kernelagent.models.compiler.kernels.naming import identifier, unique
from kernelagent.models.compiler.program.constants import constants_of, with_numbers, with_slices


@dataclass(frozen=True)
class Pair:
    """A forward and its backward; what the first keeps the second reads."""

    values: tuple[Value, ...]
    """What the module reads, by its own names."""
    forward: Captured
    """A program of the same tensors, by local names; its results are the module's, then what it keeps."""
    backward: Captured
    returned: tuple[int, ...]
    """For each tensor that the module returns its place among the forward's results."""
    differentiable: tuple[bool, ...]
    """Whether it has a gradient."""
    origins: tuple[Origin, ...]
    """Of each tensor that the backward takes."""
    gradients: tuple[int | None, ...]
    """For each of `values` its gradient's place among the backward's results."""
    overwritten: frozenset[int]
    """Which of `values` the forward's kernels write to, as a batch norm does to its statistics."""
    counters: Mapping[int, int]
    """Which of `values` are integers that each call adds to, and how much."""


def capture_step(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    persistent: bool = True,
    recompute: bool = True,
    fused: bool = True,
    smaller: Smaller | None = None,
    target: str = "sm_90",
) -> Mapping[bool, Pair]:
    """By the module's flag for training, both programs; one pair where the flag changes nothing.

    `recompute`: the backward computes again what is cheap. `fused`: attention has kernels of its own, where it can. The
    rest as in `capture`; raises `PolicyCannot`.
    """
    pairs: dict[bool, Pair] = {}
    known: dict[str, Pair] = {}
    for training in (True, False):
        with _flag(module, training), refusals(type(module).__name__):
            traced = _Traced(module, args, kwargs, smaller, fused=fused)
            key = traced.key()
            if key not in known:
                known[key] = traced.pair(persistent=persistent, recompute=recompute, target=target)
        pairs[training] = known[key]
    return pairs


@contextmanager
def _flag(module: torch.nn.Module, training: bool) -> Iterator[None]:
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, flag in before:
            part.training = flag


class _Traced:
    """The joint graph of one module under one flag."""

    def __init__(
        self,
        module: torch.nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        smaller: Smaller | None,
        *,
        fused: bool,
    ) -> None:
        self._forward = Forward(module, args, kwargs)
        self._what = type(module).__name__
        self._asked = _asked(module, self._forward.values)
        self._smaller = smaller
        tensors = [value.tensor for value in self._forward.values]
        few = tensors
        if smaller is not None:
            given = values_of(smaller.module, smaller.args, smaller.kwargs)
            few = [value.tensor for value in given]
        self._symbolic = SymbolicTensors(tensors, few)
        followed = sizes_as_variables(
            module, smaller.module if smaller else module, list(self._symbolic.sizes())
        )
        convolution = AS_THEY_LIE if smaller is None else OPAQUE
        table = {**select_decomp_table(), **convolution, **POOLED, **BATCH_NORMS, **TRAINED}
        with (
            torch.no_grad(),
            layers_unfused(),
            few_steps(),
            FusedWhereItFits(fused=fused),
            followed,
            self._symbolic.mode,
            SymbolicFunctions(),
        ):
            joint = differentiated(self._forward, self._symbolic.tensors, self._asked, table)
        self._symbolic.require_both()
        graph = with_numbers(with_slices(joint.graph))
        self._joint = replace(joint, graph=graph)

    def key(self) -> str:
        """The same for the same computation."""
        made = [(name, tensor.tolist()) for name, tensor in constants_of(self._joint.graph)]
        joint = self._joint
        written = f"{joint.overwritten}{joint.counters}"
        return f"{joint.graph.code}{made}{joint.differentiable}{written}"

    def pair(self, *, persistent: bool, recompute: bool, target: str) -> Pair:
        """Both programs; raises `PolicyCannot`."""
        values = self._forward.values
        static = [at for at, value in enumerate(values) if value.kind == "parameter"]
        cut = halves(self._joint, self._asked, static, recompute=recompute)
        outer = outer_names(len(cut.returned))
        local = _local_values(values, outer)
        taken = {value.name for value in local} | set(outer)
        kept = _distinct(cut.kept, taken)
        backward_values = self._of_backward(cut, local, kept, outer)
        read = {value.name for value in backward_values}
        result = ["grad_" + local[at].name for at, g in enumerate(cut.gradients) if g is not None]
        order = [g for g in cut.gradients if g is not None]
        named = dict(reversed(list(zip(order, result, strict=True))))
        gradients = _distinct([named[g] for g in sorted(named)], read)
        with torch.no_grad():
            forward, backward = (
                self._captured(graph, own, names, persistent=persistent, target=target)
                for graph, own, names in (
                    (cut.forward, local, [*_results_of(cut, outer), *kept]),
                    (cut.backward, backward_values, gradients),
                )
            )
        return Pair(
            tuple(values),
            forward,
            backward,
            cut.returned,
            self._joint.differentiable,
            cut.origins,
            cut.gradients,
            cut.overwritten,
            cut.counters,
        )

    def _of_backward(
        self, cut: Halves, local: Sequence[Value], kept: Sequence[str], outer: Sequence[str]
    ) -> list[Value]:
        results = [*_results_of(cut, outer), *kept]
        values = []
        for node, origin in zip(
            cut.backward.graph.find_nodes(op="placeholder"), cut.origins, strict=True
        ):
            tensor = node.meta["val"]
            if origin.of == "value":
                values.append(replace(local[origin.at], tensor=tensor))
            elif origin.of == "result":
                values.append(Value(results[origin.at], "saved", tensor, local=True))
            else:
                values.append(Value(f"grad_{outer[origin.at]}", "upstream", tensor, local=True))
        return values

    def _captured(
        self,
        graph: GraphModule,
        values: Sequence[Value],
        names: Sequence[str],
        *,
        persistent: bool,
        target: str,
    ) -> Captured:
        made = written_constants(graph, self._what)
        tensors = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
        if any(not isinstance(tensor, torch.Tensor) for tensor in tensors):
            raise PolicyCannot(self._what, "a size is all that its backward keeps of a tensor")
        source = _only_returning(graph)
        if source is None:
            source = compiled(graph, tensors, persistent=persistent, target=target)
        sizes = Sizes()
        if self._smaller is not None:
            sizes = with_constants(self._symbolic.of(tensors), made)
        concrete = [
            replace(value, tensor=self._symbolic.at_the_users_sizes(tensor))
            for value, tensor in zip(values, tensors, strict=True)
        ]
        grows = self._smaller is not None and self._smaller.grows
        spec: TreeSpec = self._forward.spec
        outputs = self._forward.outputs
        return Captured(source, (*made, *concrete), spec, outputs, sizes, grows, tuple(names))


def _asked(module: torch.nn.Module, values: Sequence[Value]) -> list[bool]:
    """Which tensors' gradients are asked for: of parameters that are trained, and of all floating inputs."""
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    asked = []
    for value in values:
        if value.tensor.is_complex():
            raise PolicyCannot(
                type(module).__name__, f"{value.name} is complex, and it is to be trained"
            )
        given = value.kind == "input" and value.tensor.is_floating_point()
        asked.append(given or (value.kind == "parameter" and value.name in trained))
    return asked


def outer_names(count: int) -> list[str]:
    """What so many tensors that a module returns are called."""
    return ["out"] if count == 1 else [f"out_{at}" for at in range(count)]


def _results_of(cut: Halves, outer: Sequence[str]) -> list[str]:
    """Names of the forward's results that the module returns; one that it returns twice has the first."""
    named = dict(reversed(list(zip(cut.returned, outer, strict=True))))
    return [named[at] for at in sorted(named)]


def _local_values(values: Sequence[Value], taken: Sequence[str]) -> list[Value]:
    """The same tensors as variables of a function: `norm_weight` for `norm.weight`."""
    plain = [value.name.replace(".", "_") for value in values]
    # What stands in a sequence has a number for a name.
    wanted = [identifier(f"layer_{name}" if name[0].isdigit() else name) for name in plain]
    names = _distinct(wanted, taken)
    return [replace(v, name=name, local=True) for v, name in zip(values, names, strict=True)]


def _distinct(wanted: Sequence[str], taken: Sequence[str] | set[str]) -> list[str]:
    names: list[str] = []
    for name in wanted:
        names.append(unique(name, {*taken, *names}))
    return names


def _only_returning(graph: GraphModule) -> str | None:
    """The program of a graph that only hands on what it is given; None for any other."""
    if any(node.op not in {"placeholder", "output"} for node in graph.graph.nodes):
        return None
    given = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    (output,) = graph.graph.find_nodes(op="output")
    returned = [node.name for node in output.args[0]]
    return "\n".join(
        [
            "def call(self, args):",
            f"    {', '.join(given)}, = args",
            f"    return ({', '.join(returned)},)",
            "",
        ]
    )
