"""A module and its inputs to the program TorchInductor writes for them: traced, and in `inductor_source` compiled."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
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

from kernelagent.models.compiler.capturing import padding as padding  # tells torch its rule
from kernelagent.models.compiler.capturing.attention import WHOLE, layers_unfused
from kernelagent.models.compiler.capturing.attention_steps import as_one_step
from kernelagent.models.compiler.capturing.inductor_source import source_of
from kernelagent.models.compiler.capturing.kept_weights import (
    KEEPERS,
    apart,
    decided_by_weights,
    words_of,
)
from kernelagent.models.compiler.capturing.pooling import OVERLAPPING
from kernelagent.models.compiler.capturing.recurrent import as_recurrences
from kernelagent.models.compiler.capturing.refusal import PolicyCannot as PolicyCannot
from kernelagent.models.compiler.capturing.refusal import TookTooLong as TookTooLong
from kernelagent.models.compiler.capturing.symbolic_functions import (
    AS_THEY_LIE,
    OPAQUE,
    SymbolicFunctions,
    plain_strides,
)
from kernelagent.models.compiler.capturing.symbols import (
    SizeIsFixed,
    Sizes,
    SymbolicTensors,
    sizes_as_variables,
)
from kernelagent.models.compiler.capturing.whole_numbers import shares_as_variables
from kernelagent.models.compiler.program.constants import (
    constants_of,
    with_numbers,
    with_one_element,
    with_slices,
)
from kernelagent.models.compiler.program.roots import reads_roots, with_roots_in_kernels
from kernelagent.tools.calls.result_form import foreign_container
from kernelagent.tools.estimates.moved_reductions import Moved, with_reductions_moved
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

MOST_WRITTEN_OUT = 256
"""Values of a constant tensor that a reader still accepts in a source file."""


_SYMBOLS = re.compile(r"[A-Za-z_]\w*")
_DEPENDS_ON_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


@dataclass(frozen=True)
class Value:
    """One tensor the captured program takes: a parameter, a buffer or an input."""

    name: str
    """`weight`, `norm.bias`, or the input as an expression of forward's arguments, `xs[0]`."""
    kind: str
    """`parameter`, `buffer`, `input`, or `constant`, made in the forward itself.

    Of a backward also `saved`, kept by the forward for it, and `upstream`, the gradient of a result. Of a
    forward also `kept`: what its weights alone decide, computed once.
    """
    tensor: torch.Tensor
    local: bool = False
    """Whether its name is a variable's, whatever its kind: in a function that is given all it reads."""


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
    names: tuple[str, ...] = ()
    """What its results are called; where there are none, `out`."""
    moved: tuple[Moved, ...] = ()
    """Sums and means that are, or could be, taken before the linear map that the module takes them of."""
    kept: Kept | None = None
    """What its weights alone decide, if that is more than a kernel does as it reads them."""


@dataclass(frozen=True)
class Kept:
    """What a module's weights alone decide, and whether a program of its own computes it, once."""

    words: str
    program: Captured | None
    """None where every call computes it again."""


@dataclass(frozen=True)
class Smaller:
    """The module and its arguments at the sizes that are executed; tensors may hold nothing."""

    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    grows: bool = False
    """Whether sizes may be larger than the user's, too."""


class Forward:
    """A module's forward as a function of tensors alone: its parameters, its buffers, its inputs."""

    def __init__(
        self, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Raises `PolicyCannot` where a buffer would have to be written out."""
        self.module = module
        self.values = values_of(module, args, kwargs)
        self.spec: TreeSpec
        """The nest of what the last call returned."""
        self.outputs: tuple[Any, ...] = ()
        """Its leaves."""
        self._leaves, self._nest = tree_flatten((tuple(args), dict(kwargs)))
        self._state = [value for value in self.values if value.kind != "input"]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of what it returns, in order."""
        weights = {v.name: t for v, t in zip(self._state, tensors, strict=False)}
        leaves = list(self._leaves)
        places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for at, tensor in zip(places, tensors[len(self._state) :], strict=True):
            leaves[at] = tensor
        given, named = tree_unflatten(leaves, self._nest)
        result = functional_call(self.module, weights, given, named)
        if foreign := foreign_container(result):
            raise PolicyCannot(
                type(self.module).__name__,
                f"it returns a {foreign}, which the written file cannot make, because it needs torch alone; optimize a "
                f"part inside of it, which returns tensors (`kernelagent scan`)",
            )
        outputs, self.spec = tree_flatten(result)
        self.outputs = tuple(outputs)
        return [leaf for leaf in outputs if isinstance(leaf, torch.Tensor)]


def capture(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    persistent: bool = True,
    smaller: Smaller | None = None,
    target: str = "sm_90",
    moved: Mapping[str, bool] | None = None,
    kept: bool = False,
) -> Captured:
    """Inductor's source; `persistent`: rows are held whole where they fit. Raises `PolicyCannot`.

    With `smaller`, each size in which it differs is a variable of the program. `target`: the GPU it is for. `moved`: which
    reductions are moved where that is not what the estimate says, by key, see `moved_reductions`. `kept`: whether what
    the weights alone decide is computed once, see `kept_weights`.
    """
    name = type(module).__name__
    forward = Forward(module, args, kwargs)
    tensors = [value.tensor for value in forward.values]
    sizes = Sizes()
    with refusals(name), torch.no_grad(), layers_unfused(), as_recurrences():
        if smaller is None:
            table = {**WHOLE, **AS_THEY_LIE, **OVERLAPPING}
            graph = make_fx(forward, decomposition_table=table, tracing_mode="fake")(*tensors)
        else:
            few = values_of(smaller.module, smaller.args, smaller.kwargs)
            graph, symbolic = _with_variables(forward, tensors, smaller, few)
            tensors = symbolic.tensors
        graph = as_one_step(with_numbers(with_slices(graph)))
        graph, reductions = with_reductions_moved(graph, ceilings_for(target), moved)
        state = [value for value in forward.values if value.kind != "input"]
        # What keeps it has names of its own.
        taken = any(hasattr(module, name) for name in KEEPERS)
        ends = [] if taken else decided_by_weights(graph, len(state))
        parts = apart(graph, len(state), ends) if ends and kept else None
        given: tuple[Value, ...] = ()
        if parts is not None:
            graph = parts.rest
            like = [_without_contents(t, smaller is not None) for t in parts.made]
            tensors = [*tensors, *like]
            given = tuple(
                Value(f"kept_{number}", "kept", tensor, local=True)
                for number, tensor in enumerate(like)
            )
        made = written_constants(graph, name)
        source = compiled(graph, tensors, persistent=persistent, target=target)
        if smaller is not None:
            sizes = with_constants(symbolic.of(tensors), made)
        program = None
        if parts is not None:
            read = [tensors[at] for at in parts.read]
            program = Captured(
                compiled(parts.first, read, persistent=persistent, target=target),
                tuple(state[at] for at in parts.read),
                tree_flatten(tuple(given))[1],
                tuple(value.tensor for value in given),
                _of_their_own(symbolic.of(read)) if smaller is not None else sizes,
            )
    grows = smaller is not None and smaller.grows
    values = (*made, *forward.values, *given)
    whole = Kept(words_of(ends), program) if ends else None
    return Captured(
        source, values, forward.spec, forward.outputs, sizes, grows, moved=reductions, kept=whole
    )


def _of_their_own(sizes: Sizes) -> Sizes:
    """Less what was assumed of sizes that none of the program's tensors has."""
    known = {text for shape in sizes.shapes for text in shape if text.isidentifier()}

    def kept(bounds: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        return tuple((text, most) for text, most in bounds if set(_SYMBOLS.findall(text)) <= known)

    return replace(sizes, most=kept(sizes.most), multiples=kept(sizes.multiples))


def _without_contents(tensor: torch.Tensor, symbolic: bool) -> torch.Tensor:
    """A tensor of a graph as one to compile for; `symbolic`: as it is, with the sizes that it has."""
    if symbolic:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _with_variables(
    forward: Forward, tensors: Sequence[torch.Tensor], smaller: Smaller, few: Sequence[Value]
) -> tuple[GraphModule, SymbolicTensors]:
    """The graph with a variable for each size in which the two differ; raises `SizeIsFixed`."""
    table = {**WHOLE, **OPAQUE, **OVERLAPPING}

    def traced(around: AbstractContextManager[None]) -> tuple[GraphModule, SymbolicTensors]:
        symbolic = SymbolicTensors(tensors, [value.tensor for value in few])
        followed = sizes_as_variables(forward.module, smaller.module, list(symbolic.sizes()))
        made = make_fx(forward, decomposition_table=table, _allow_non_fake_inputs=True)
        with around, followed, symbolic.mode, SymbolicFunctions():
            graph = made(*symbolic.tensors)
        symbolic.require_both()
        symbolic.settled()
        return graph, symbolic

    try:
        return traced(nullcontext())
    except SizeIsFixed:
        return traced(shares_as_variables(forward.module))


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """What is raised while this module is traced, as `PolicyCannot`."""
    try:
        yield
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
        late = _too_late(error)
        if late is not None:
            raise late from error
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PolicyCannot(name, f"it cannot be traced: {first[:200]}") from error


def _too_late(error: BaseException) -> TookTooLong | None:
    """What it was raised from where the time was up: the compiler wraps what it meets."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TookTooLong):
        cause = cause.__cause__ or cause.__context__
    return cause


def with_constants(sizes: Sizes, made: Sequence[Value]) -> Sizes:
    """Sizes of a program's tensors, with those of its leading constants."""
    shapes, strides = (
        tuple(tuple(map(str, numbers)) for numbers in every)
        for every in ((v.tensor.shape for v in made), (v.tensor.stride() for v in made))
    )
    return replace(sizes, shapes=(*shapes, *sizes.shapes), strides=(*strides, *sizes.strides))


def compiled(
    graph: GraphModule, tensors: Sequence[torch.Tensor], *, persistent: bool, target: str
) -> str:
    """Inductor's file for a graph of these tensors; raises `PolicyCannot`."""
    _require_no_roots(with_roots_in_kernels(graph))
    given = with_one_element(graph, tensors)
    with plain_strides():
        source = source_of(graph, given, persistent=persistent, target=target)
    if source is None:
        raise PolicyCannot("this module", "the compiler has nothing to compute in it")
    return source


def _require_no_roots(graph: GraphModule) -> None:
    """A kernel would take the root of a variable in float64, which Triton does not."""
    if reads_roots(graph):
        raise SizeIsFixed("its forward computes with the root of a size that is executed smaller")


def _place_of(error: BaseException) -> str:
    """` (file.py:12)`: the last line outside torch on the way to the error."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = Path(torch.__file__).parent
    places = [f for f in frames if Path(f.filename).suffix == ".py" and f.filename != __file__]
    own = [f for f in places if inside not in Path(f.filename).parents]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def written_constants(graph: GraphModule, what: str) -> tuple[Value, ...]:
    """What the forward makes itself; raises `PolicyCannot` where that is too much for a file."""
    constants = constants_of(graph)
    for _, tensor in constants:
        if tensor.numel() > MOST_WRITTEN_OUT:
            raise PolicyCannot(
                what,
                f"its forward makes a constant tensor of {tensor.numel()} values, which would have to "
                f"be written into the file; make it a buffer",
            )
    return tuple(Value(name, "constant", tensor) for name, tensor in constants)


def values_of(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Value]:
    """Every tensor that a call reads: parameters, buffers, inputs, each once."""
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
