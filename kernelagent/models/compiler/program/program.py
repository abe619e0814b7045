"""Inductor's generated file as records: its kernels and the steps of its `call`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.kernels.scans import operator_of
from kernelagent.models.compiler.program.expressions import expressions_of

_HOST_NOISE = ("assert_size_stride", "assert_alignment", "get_raw_stream")
_GRIDS = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz", "Grid2DWithYZOverflow": "xy+"}
_KINDS = ("pointwise", "reduction", "persistent_reduction")


@dataclass(frozen=True)
class Kernel:
    """One generated kernel, as Inductor wrote it."""

    name: str
    kind: str
    """`pointwise`, `reduction` (looped) or `persistent_reduction`."""
    function: ast.FunctionDef
    signature: dict[str, str]
    """Triton type by parameter, for example `*bf16`."""
    axes: str
    """Grid axes, `x`, `xy` or `xyz`; `xy+` where what is too much for y goes on along z."""
    helpers: Mapping[str, ast.FunctionDef] = field(default_factory=dict)
    """Functions of two values that its scans combine by."""
    expressions: tuple[str, ...] = ()
    """What it computes in PyTorch's words, a line each, by Inductor's names for tensors."""
    across: bool = False
    """A reduction whose rows stand side by side in memory: neighbours are of different rows."""

    @property
    def operations(self) -> tuple[str, ...]:
        """The fused operations, from Inductor's own name."""
        words = self.name.split("_fused_", 1)[-1].rsplit("_", 1)[0].split("_")
        return tuple(word for word in words if word)


@dataclass(frozen=True)
class Allocate:
    """A fresh buffer."""

    name: str
    shape: tuple[ast.expr, ...]
    strides: tuple[ast.expr, ...]
    dtype: str


@dataclass(frozen=True)
class Size:
    """A number that depends on the sizes of the inputs, under a name."""

    name: str
    value: ast.expr


@dataclass(frozen=True)
class Launch:
    """A kernel call; the sizes of its axes are the last arguments."""

    kernel: str
    arguments: tuple[ast.expr, ...]


@dataclass(frozen=True)
class Torch:
    """Anything torch does itself, as a statement."""

    statement: ast.stmt


Step = Allocate | Size | Launch | Torch


@dataclass(frozen=True)
class Program:
    """What one call does, in order."""

    arguments: tuple[str, ...]
    kernels: dict[str, Kernel]
    steps: tuple[Step, ...]
    results: tuple[ast.expr, ...]


def parse_program(source: str, what: str) -> Program:
    """Read the generated file; raises `PolicyCannot` naming the first thing it does not know."""
    tree = ast.parse(source)
    kernels = {}
    expressions = expressions_of(source)
    for node in tree.body:
        made = _kernel_of(node, what)
        if made is not None:
            kernels[made.name] = replace(made, expressions=expressions.get(made.name, ()))
    call = next(
        (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"), None
    )
    if call is None:
        raise PolicyCannot(what, "the compiler wrote no entry point")
    return _program(call, kernels, what)


def _kernel_of(node: ast.stmt, what: str) -> Kernel | None:
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
        return None
    if ast.unparse(node.value.func) != "async_compile.triton":
        return None
    body = node.value.args[1]
    assert isinstance(body, ast.Constant)
    tree = ast.parse(str(body.value))
    *others, function = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    helpers = {helper.name: helper for helper in others}
    for name, helper in helpers.items():
        if operator_of(helper) is None:
            raise PolicyCannot(what, f"its compiled form has a function {name} in a kernel")
    heuristic = function.decorator_list[0]
    assert isinstance(heuristic, ast.Call)
    kind = ast.unparse(heuristic.func).rsplit(".", 1)[-1]
    if kind not in _KINDS:
        raise PolicyCannot(what, f"its compiled form needs a kernel of kind {kind!r}")
    options = {keyword.arg: keyword.value for keyword in heuristic.keywords}
    grid = _entry(options["inductor_meta"], "grid_type")
    if grid not in _GRIDS:
        raise PolicyCannot(what, f"its compiled form needs a grid of type {grid!r}")
    return Kernel(
        name=function.name,
        kind=kind,
        function=function,
        signature=_entry(options["triton_meta"], "signature"),
        axes=_GRIDS[grid],
        helpers=helpers,
        across=_across(_entry_or_none(options["inductor_meta"], "tiling_scores")),
    )


def _across(scores: Any) -> bool:
    """Whether more of what a kernel moves is contiguous from row to row than within rows."""
    return isinstance(scores, dict) and scores.get("x", 0) > scores.get("r0_", 0)


def _entry(node: ast.expr, key: str) -> Any:
    result = _entry_or_none(node, key)
    if result is None:
        raise KeyError(key)
    return result


def _entry_or_none(node: ast.expr, key: str) -> Any:
    assert isinstance(node, ast.Dict)
    for name, value in zip(node.keys, node.values, strict=True):
        if isinstance(name, ast.Constant) and name.value == key:
            return ast.literal_eval(value)
    return None


def _program(call: ast.FunctionDef, kernels: dict[str, Kernel], what: str) -> Program:
    arguments: tuple[str, ...] = ()
    steps: list[Step] = []
    once = _NamesOnce()
    for statement in call.body:
        once.visit(statement)
        text = ast.unparse(statement)
        if isinstance(statement, ast.Return):
            assert isinstance(statement.value, ast.Tuple)
            return Program(arguments, kernels, tuple(steps), tuple(statement.value.elts))
        if isinstance(statement, ast.Assign) and text.endswith("= args"):
            target = statement.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            arguments = tuple(ast.unparse(name) for name in names)
        elif isinstance(statement, ast.Delete) or _is_noise(text):
            continue
        else:
            steps.append(_step(statement, kernels, what))
    raise PolicyCannot(what, "its compiled form returns nothing")


def called(step: Step, operator: str, count: int) -> tuple[str, list[ast.expr]] | None:
    """The name that a step gives to what this operator returns, and its `count` arguments; None for any other step."""
    statement = step.statement if isinstance(step, Torch) else None
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if ast.unparse(call.func) != operator or len(call.args) != count or call.keywords:
        return None
    return ast.unparse(statement.targets[0]), call.args


def if_any(node: ast.expr) -> ast.expr | None:
    """An argument; None for one that is written `None`."""
    return None if ast.unparse(node) == "None" else node


def elements(node: ast.expr) -> tuple[ast.expr, ...]:
    """The parts of a tuple as it is written."""
    assert isinstance(node, ast.Tuple)
    return tuple(node.elts)


def _is_noise(text: str) -> bool:
    if text.startswith("args.clear") or re.fullmatch(r"(\w+)_size = \1\.size\(\)", text):
        return True
    return any(word in text for word in _HOST_NOISE)


_LSTM = "mkldnn_rnn_layer"
"""What tracing on a CPU makes of torch's LSTM; other recurrent layers are unrolled into steps."""
_SIZE = re.compile(r"((s|u|ps)\d+|\w+_[xyzr]0?_?numel)(_\d+)?")


class _NamesOnce(ast.NodeTransformer):
    """Gives a number that is assigned again a name of its own from there on.

    Inductor launches one kernel several times, and assigns the number of elements anew each time.
    """

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._times: dict[str, int] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.visit(node.value)
        target = node.targets[0]
        if isinstance(target, ast.Name) and _SIZE.fullmatch(target.id):
            name = target.id
            self._times[name] = self._times.get(name, 0) + 1
            if self._times[name] > 1:
                self._now[name] = f"{name}_{self._times[name]}"
                target.id = self._now[name]
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._now.get(node.id, node.id)
        return node


def _size(statement: ast.stmt) -> Size | None:
    """`s0 = arg0_1_size[1]`, `ps0 = 2*s0`, `kernel_xnumel = s0*s1`."""
    if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
        return None
    name = statement.targets[0].id
    if not _SIZE.fullmatch(name):
        return None
    return Size(name, statement.value)


def _step(statement: ast.stmt, kernels: dict[str, Kernel], what: str) -> Step:
    if (size := _size(statement)) is not None:
        return size
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        function = ast.unparse(statement.value.func)
        if function.startswith("empty_strided"):
            shape, strides, dtype = statement.value.args
            return Allocate(
                name=ast.unparse(statement.targets[0]),
                shape=elements(shape),
                strides=elements(strides),
                dtype=ast.unparse(dtype),
            )
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = ast.unparse(statement.value.func)
        name, _, method = function.rpartition(".")
        if method == "run" and name in kernels:
            return Launch(name, tuple(statement.value.args))
    if isinstance(statement, ast.Assign | ast.Expr):
        _require_plain(statement, what)
        return Torch(statement)
    raise PolicyCannot(what, f"its compiled form contains `{ast.unparse(statement)[:80]}`")


def _require_plain(statement: ast.stmt, what: str) -> None:
    text = ast.unparse(statement)
    for foreign in ("mkldnn", "_for_cpu", "cpp_", "async_compile"):
        if foreign in text:
            calls = [ast.unparse(n.func) for n in ast.walk(statement) if isinstance(n, ast.Call)]
            called = next((call for call in calls if foreign in call), text[:80])
            if _LSTM in called:
                raise PolicyCannot(
                    what,
                    "torch's LSTM is one library call (cuDNN's on a GPU), which the policy leaves alone",
                    "optimize a part without it with --submodule (`kernelagent scan` lists the parts)",
                )
            raise PolicyCannot(what, f"its compiled form calls `{called}`, which is not CUDA's")
