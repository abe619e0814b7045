"""A forward and its gradients as one graph, and that graph cut in two: what is kept, what is computed again.

Cutting is torch's own, from its compiler; no other file knows its names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from kernelagent.models.compiler.capturing.capture import Forward, PolicyCannot
from kernelagent.models.compiler.capturing.kept_weights import memory_of
from kernelagent.models.compiler.capturing.overwritten import (
    updates_as_results,
    without_counters,
    write_back,
)
from kernelagent.models.compiler.capturing.read_sizes import read_sizes

_PRIMAL, _TANGENT = "primals_", "tangents_"
"""How the cut tells what a forward is given from what only a backward is."""
_CALLED = {
    "rsqrt": "rstd",
    "var": "variance",
    "amax": "row_max",
    "sum": "total",
    "ne": "mask",
    "lt": "mask",
    "ge": "mask",
    "where": "chosen",
    "mm": "product",
    "addmm": "product",
    "bmm": "product",
    "le": "mask",
    "gt": "mask",
}
"""What a reader calls the result of an operation."""
_SAME = {"convert_element_type", "view", "permute", "unsqueeze", "squeeze", "expand", "clone"}
"""Operations whose result is what they are given, in another form."""


@dataclass(frozen=True)
class Origin:
    """Where a tensor that the backward reads comes from."""

    of: Literal["value", "result", "upstream"]
    at: int
    """Its number among the forward's values, its results, or the outputs of the module."""


@dataclass(frozen=True)
class Halves:
    """A joint graph cut in two."""

    forward: GraphModule
    backward: GraphModule
    returned: tuple[int, ...]
    """For each output of the module its place among the forward's results; what is kept stands behind."""
    kept: tuple[str, ...]
    """Names of what is kept beside them."""
    origins: tuple[Origin, ...]
    """Of each tensor that the backward takes."""
    gradients: tuple[int | None, ...]
    """For each value of the forward its gradient's place among the backward's results."""
    overwritten: frozenset[int]
    """Which of the forward's values its kernels write to: buffers, such as a batch norm's statistics."""
    counters: Mapping[int, int]
    """Which of them are single integers that nothing else reads, and what each call adds to them."""


@dataclass(frozen=True)
class Joint:
    """A forward with its gradients: a graph of the forward's values and of the upstream gradients."""

    graph: GraphModule
    tensors: Sequence[torch.Tensor]
    differentiable: tuple[bool, ...]
    """Of each output of the module: whether it has a gradient."""
    overwritten: tuple[int, ...] = ()
    """Which values the forward writes to; what it writes stands behind the outputs among the results."""
    counters: Mapping[int, int] = field(default_factory=dict)
    """Values that are single integers, which nothing but an addition reads, and what is added."""


def differentiated(
    forward: Forward,
    tensors: Sequence[torch.Tensor],
    asked: Sequence[bool],
    table: dict[Any, Callable[..., Any]],
) -> Joint:
    """Traces the forward with the gradients of `asked` among its tensors; raises `PolicyCannot`."""
    what = type(forward.module).__name__

    def called(*given: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        primals = [
            tensor.detach().requires_grad_() if wanted else tensor.detach()
            for tensor, wanted in zip(given, asked, strict=True)
        ]
        with torch.enable_grad():
            return primals, forward(*primals)

    outputs = called(*tensors)[1]
    differentiable = tuple(output.requires_grad for output in outputs)
    if not any(differentiable):
        raise PolicyCannot(what, "nothing that it returns has a gradient")
    # Upstream gradients lie in order: the backward asks for them so, wherever they come from.
    upstream = [
        torch.empty(output.shape, dtype=output.dtype, device=output.device)
        for output, has in zip(outputs, differentiable, strict=True)
        if has
    ]

    def both(*given: torch.Tensor) -> list[torch.Tensor | None]:
        primals, outcome = called(*given[: len(tensors)])
        gradients = torch.autograd.grad(
            [output for output in outcome if output.requires_grad],
            [primal for primal, wanted in zip(primals, asked, strict=True) if wanted],
            given[len(tensors) :],
            allow_unused=True,
        )
        return [*(output.detach() for output in outcome), *gradients]

    every = [*tensors, *upstream]
    with preserve_node_meta():
        graph = make_fx(both, decomposition_table=table, _allow_non_fake_inputs=True)(*every)
    if any(_schema(node).is_mutable for node in graph.graph.nodes if _schema(node)):
        pure = functionalize(graph, remove="mutations")
        graph = make_fx(pure, _allow_non_fake_inputs=True)(*every)
    overwritten = updates_as_results(graph, forward, len(outputs))
    _require_pure(graph, forward, len(outputs), len(overwritten))
    _without_aliases(graph)
    _name_origins(graph)
    return Joint(graph, every, differentiable, *without_counters(graph, overwritten, len(outputs)))


def _schema(node: Node) -> Any:
    return getattr(node.target, "_schema", None)


def _require_pure(graph: GraphModule, forward: Forward, outputs: int, updates: int) -> None:
    """Raises `PolicyCannot` where a function of tensors alone would answer something else."""
    what = type(forward.module).__name__
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    names = dict(zip(placeholders, (value.name for value in forward.values), strict=False))
    for node in graph.graph.nodes:
        schema = _schema(node)
        if schema is None:
            continue
        if schema.is_mutable:
            written = names.get(node.args[0], "a tensor")
            raise PolicyCannot(what, f"its forward writes to {written} while it is trained")
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            raise PolicyCannot(
                what,
                "its forward draws random numbers while it is trained, as dropout and drop path do: set their probability "
                "to 0, or take a part inside it without them (`kernelagent scan`)",
            )
    results = _results(graph)
    left = [node for node in results[outputs : outputs + updates] if node is not None]
    given = {memory_of(node) for node in (*placeholders, *left)}
    for result in results[:outputs]:
        if result is not None and memory_of(result) in given:
            raise PolicyCannot(what, "it returns what it was given, or a view of it")


def _results(graph: GraphModule) -> list[Node | None]:
    (output,) = graph.graph.find_nodes(op="output")
    return list(output.args[0])


def _without_aliases(graph: GraphModule) -> None:
    """Each tensor once: in a graph without mutations a detached one is the tensor itself."""
    for node in list(graph.graph.nodes):
        if node.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


def _name_origins(graph: GraphModule) -> None:
    """What Inductor calls its kernels after: each node by the operation it was decomposed from."""
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        whole = node.meta.get("original_aten") or node.target
        packet = getattr(whole, "overloadpacket", whole)
        node.meta["source_fn_stack"] = [(node.name, str(getattr(packet, "__name__", node.name)))]


def halves(
    joint: Joint, asked: Sequence[bool], static: Sequence[int], *, recompute: bool
) -> Halves:
    """The graph cut in two; raises `PolicyCannot`.

    `static`: which of the forward's values are there anyway, as parameters are. `recompute`: what is
    cheap is computed again in the backward, where that leaves less to keep.
    """
    values, outputs = len(asked), len(joint.differentiable)
    placeholders = joint.graph.graph.find_nodes(op="placeholder")
    for at, node in enumerate(placeholders):
        node.target = f"{_PRIMAL}{at}" if at < values else f"{_TANGENT}{at - values}"
        node.name = node.target
    joint.graph.recompile()
    written = len(joint.overwritten)
    forward, backward = _cut(joint.graph, outputs + written, static, recompute=recompute)
    read_sizes(backward)
    made = _results(forward)
    write_back(forward, joint.overwritten, made[outputs : outputs + written])
    own = {node.name: node for node in forward.graph.nodes if node.op != "placeholder"}
    wanted = [str(node.name) for node in backward.graph.find_nodes(op="placeholder")]
    kept = [name for name in wanted if name in own]
    returned = list(dict.fromkeys(node for node in made[:outputs] if node is not None))
    results = list(dict.fromkeys([*returned, *(own[name] for name in kept)]))
    _return(forward, results)
    upstream = [at for at, has in enumerate(joint.differentiable) if has]
    origins = []
    for name in wanted:
        if name in own:
            origins.append(Origin("result", results.index(own[name])))
        elif name.startswith(_PRIMAL):
            origins.append(Origin("value", int(name.removeprefix(_PRIMAL))))
        elif name.startswith(_TANGENT):
            origins.append(Origin("upstream", upstream[int(name.removeprefix(_TANGENT))]))
        else:
            raise PolicyCannot("this module", f"its backward needs {name}, which is no tensor")
    outcome = iter(_results(backward))
    each = [next(outcome) if has else None for has in asked]
    gradients = list(dict.fromkeys(node for node in each if node is not None))
    _return(backward, gradients)
    return Halves(
        forward,
        backward,
        tuple(results.index(node) for node in made[:outputs] if node is not None),
        tuple(_called(node) for node in results[len(returned) :]),
        tuple(origins),
        tuple(None if node is None else gradients.index(node) for node in each),
        frozenset(joint.overwritten),
        joint.counters,
    )


def _return(graph: GraphModule, nodes: Sequence[Node]) -> None:
    (output,) = graph.graph.find_nodes(op="output")
    output.args = (tuple(nodes),)
    graph.graph.lint()
    graph.recompile()


def _called(node: Node) -> str:
    """A name for what a node makes: `rstd`, `product`."""
    source = node.args[0] if node.args else None
    if isinstance(source, Node) and node.target is operator.getitem:
        if "var_mean" in source.name:
            return "mean" if node.args[1] else "variance"
        if "attention_with_rows" in source.name:
            return "softmax_rows"
        return _called(source)
    word = str(getattr(getattr(node.target, "overloadpacket", None), "__name__", "kept"))
    if isinstance(source, Node) and word in _SAME and source.op != "placeholder":
        return _called(source)
    if word in _CALLED:
        return _CALLED[word]
    whole = str(node.meta["source_fn_stack"][-1][1]) if "source_fn_stack" in node.meta else word
    return f"{whole.removeprefix('native_').strip('_')}_out"


def _cut(
    graph: GraphModule, outputs: int, static: Sequence[int], *, recompute: bool
) -> tuple[GraphModule, GraphModule]:
    try:
        from torch._functorch.partitioners import (
            default_partition,
            min_cut_rematerialization_partition,
        )
    except ImportError as error:
        raise PolicyCannot(
            "this module for training",
            f"torch {torch.__version__} has no way of cutting a graph that is known here",
        ) from error
    cut = min_cut_rematerialization_partition if recompute else default_partition
    forward, backward = cut(
        graph, None, num_fwd_outputs=outputs, static_lifetime_input_indices=list(static)
    )
    return forward, backward
