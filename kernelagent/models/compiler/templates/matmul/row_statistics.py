"""A norm of rows before a product, as numbers by row and what is left to do element by element.

The numbers (a mean, a root of a mean of squares) need whole rows, and a kernel of their own computes them. The rest
reads them, and is then what precedes the product: its tiles do it as they read the rows (`prologue`), and the
normed rows are never stored. Row by row the same statements run on the same values in either form.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.choices import PRECEDES
from kernelagent.models.compiler.kernels.naming import renamed, unique
from kernelagent.models.compiler.program.dataflow import (
    names_in,
    stored_to,
    target_of,
    without_unread,
)
from kernelagent.models.compiler.program.program import Allocate, Kernel, Launch, Program, Step
from kernelagent.models.compiler.templates import Context
from kernelagent.models.compiler.templates.layouts import Layouts, arguments_of
from kernelagent.models.compiler.templates.matmul.epilogue import MOST_HELD
from kernelagent.models.compiler.templates.matmul.gemm import site_of
from kernelagent.models.compiler.templates.matmul.pricing import NEARLY, stored_us
from kernelagent.models.compiler.templates.matmul.product_site import KIND, ProductSite
from kernelagent.models.compiler.templates.matmul.products import Product, products
from kernelagent.models.compiler.templates.matmul.prologue import (
    changed_between,
    ends_torchs,
    lies_in_order,
    reads_what_is_known,
    written_for,
)

_REDUCING = ("tl.sum(", "triton_helpers.max2(", "triton_helpers.min2(")
_ELEMENTWISE = re.compile(
    r"libdevice\.\w+|tl_math\.\w+|triton_helpers\.(?:minimum|maximum)|"
    r"float|tl\.(?:load|store|where|broadcast_to|full|arange|program_id|sigmoid|abs|sqrt_rn|div_rn)|.*\.to"
)
"""What is computed for each element by itself; whatever else a kernel calls must be one of `_REDUCING`."""
_NO_FLOAT = (".to(tl.int", ".to(tl.uint")
_BY_NAME = frozenset("xindex xmask r0_index r0_mask r0_numel xnumel xoffset".split())
"""What later passes look for by its name, read or not."""
_OF_ROWS = frozenset({"r0_index", "r0_mask", "r0_numel", "R0_BLOCK", "rindex", "RBLOCK"})
_INDEX = re.compile(r"[xr]0?\d*(_\d+)?")


@dataclass(frozen=True)
class _Split:
    """One launch as two: `numbers`, by row, and `rest`, by element."""

    numbers: Kernel
    rest: Kernel
    passed: tuple[tuple[str, str, str], ...]
    """For each number by row what it is called, the parameter of `numbers` that takes it, and the one of `rest` that
    reads it."""
    in_place: tuple[str, str] | None
    """Where the rows are written over what is read of them: that parameter, and the one of `numbers` that reads it."""


def with_row_statistics(context: Context) -> Program:
    """The program with the norms in two parts whose second part a product's tiles do, where that pays or was chosen."""
    program = context.program
    layouts, every = _products(context)
    for number in reversed(range(len(every))):
        now = replace(context, program=program)
        parts = _in_two(now, layouts, every[number])
        if parts is not None and _wanted(now, parts, number):
            program = parts
            layouts, every = _products(replace(context, program=program))
    return program


def _products(context: Context) -> tuple[Layouts, list[Product]]:
    layouts = Layouts(context.captured, context.program)
    return layouts, list(products(context.program, layouts, context.sizes, context.what))


def _wanted(context: Context, parts: Program, number: int) -> bool:
    """Whether the tiles of this product are to do what is left of the norm."""
    key = f"{PRECEDES}{KIND} {number}"
    if not context.chosen.get(key, True) or not context.chosen.get(f"{KIND} {number}", True):
        return False
    before, after = (
        _site(replace(context, program=program, chosen={key: True}), number)
        for program in (context.program, parts)
    )
    if not after.options.get(key, False):
        return False
    # The numbers take a launch as the norm did; that the rows are not stored is what is saved.
    saved = stored_us(after.product.left, after.product, context.gpu)
    pays = after.first.us * NEARLY <= min(before.first.us, before.library_us) + saved
    return context.chosen.get(key, pays)


def _site(context: Context, number: int) -> ProductSite:
    layouts, every = _products(context)
    return site_of(context, layouts, number, every[number])


def _in_two(context: Context, layouts: Layouts, product: Product) -> Program | None:
    """The program with the launch that writes this product's rows as two; None where it is no norm of rows."""
    program, operand = context.program, product.left
    if lies_in_order(context, product, "left") is not False:
        return None
    made = written_for(program, layouts, product, operand)
    if made is None:
        return None
    at, step = made
    kernel = program.kernels[step.kernel]
    arguments = arguments_of(program, step)
    written = [n for n, v in arguments.items() if operand.storage in layouts.storages(v)]
    length = arguments.get("r0_numel")
    if (
        kernel.kind != "persistent_reduction"
        or kernel.across
        or kernel.helpers
        or len(written) != 1
    ):
        return None
    if not isinstance(length, ast.Constant) or not reads_what_is_known(layouts, arguments):
        return None
    read = layouts.read(program, step)
    also_written = layouts.written(program, step) - {operand.storage}
    if read & also_written or changed_between(program, layouts, at, product.at, read):
        return None
    if int(str(length.value)) <= MOST_HELD and ends_torchs(program, layouts, at, read):
        # A tile of the product before it may hold these rows whole.
        return None
    try:
        split = _split(kernel, written[0], str(length.value))
    except PolicyCannot:
        return None
    if split is None:
        return None
    return _replaced(program, at, split, arguments)


def _replaced(
    program: Program, at: int, split: _Split, arguments: Mapping[str, ast.expr]
) -> Program:
    rows = arguments["xnumel"]
    given = dict(arguments)
    if split.in_place is not None:
        given[split.in_place[1]] = given[split.in_place[0]]
    taken = {step.name for step in program.steps if isinstance(step, Allocate)}
    buffers: list[str] = []
    for word, *parameters in split.passed:
        buffers.append(unique(word, {*taken, *buffers}))
        given |= dict.fromkeys(parameters, ast.Name(buffers[-1], ast.Load()))
    elements = ast.BinOp(rows, ast.Mult(), arguments["r0_numel"])
    steps: list[Step] = [
        Allocate(name, (rows,), (ast.Constant(1),), "torch.float32") for name in buffers
    ]
    steps.append(_launch(split.numbers, given))
    steps.append(_launch(split.rest, {**given, "xnumel": elements}))
    kernels = {**program.kernels, split.numbers.name: split.numbers, split.rest.name: split.rest}
    return replace(
        program, kernels=kernels, steps=(*program.steps[:at], *steps, *program.steps[at + 1 :])
    )


def _launch(kernel: Kernel, given: Mapping[str, ast.expr]) -> Launch:
    return Launch(
        kernel.name, tuple(given[p.arg] for p in kernel.function.args.args if p.arg in given)
    )


def _split(kernel: Kernel, out: str, length: str) -> _Split | None:
    """None where the stored value is no expression of elements and of fp32 numbers by row."""
    body = kernel.function.body
    if not all(map(_is_known, body)):
        return None
    store = next((s for s in body if out in stored_to(s)), None)
    values = {name: s.value for s in body if isinstance(s, ast.Assign) and (name := target_of(s))}
    value = _stored(store, values, length)
    if value is None:
        return None
    along = _along_rows(values)
    reduced = _reduced(values)
    needed: set[str] = set()
    numbers: set[str] = set()
    waiting = names_in(value) & values.keys()
    while waiting:
        name = waiting.pop()
        if name in reduced and name not in along:
            numbers.add(name)
        elif _reduces(values[name]):
            return None
        elif name not in needed:
            needed.add(name)
            waiting |= names_in(values[name]) & (values.keys() - _BY_NAME)
    if not numbers or not all(_is_float32(name, values, reduced) for name in numbers):
        return None
    count = len(kernel.function.args.args)
    names = [name for name in values if name in numbers]
    passed = tuple(
        (_word(values[name]), f"out_ptr{count + at}", f"in_ptr{count + at}")
        for at, name in enumerate(names)
    )
    ordered = list(zip(names, passed, strict=True))
    in_place = (out, f"in_ptr{count + len(passed)}") if out.startswith("in_out_ptr") else None
    stores = [_parsed(f"tl.store({into} + xindex, {n}, xmask)") for n, (_, into, _) in ordered]
    kept = without_unread([*(s for s in body if s is not store), *stores], _BY_NAME)
    if in_place is not None:
        kept = [renamed(statement, dict([in_place])) for statement in kept]
    by_element = _ByElement(values, length)
    elements = [
        "xoffset = tl.program_id(0) * XBLOCK",
        "xindex = xoffset + tl.arange(0, XBLOCK)[:]",
        "xmask = xindex < xnumel",
        *(f"{n} = tl.load({of} + xindex // {length}, xmask)" for n, (_, _, of) in ordered),
        *(_by_element(s, values, length) for s in body if target_of(s) in needed),
        f"tl.store({out} + xindex, {ast.unparse(by_element.visit(_copied(value)))}, xmask)",
    ]
    rest = [_parsed(line) for line in elements]
    if set().union(*(names_in(statement) for statement in rest)) & _OF_ROWS:
        return None
    stem, _, number = kernel.name.rpartition("_")
    read = [in_place[1]] if in_place is not None else []
    return _Split(
        _kernel(
            kernel,
            f"{stem}_statistics_{number}",
            "persistent_reduction",
            kept,
            [*read, *(into for _, into, _ in passed)],
        ),
        replace(
            _kernel(kernel, f"{kernel.name}_rest", "pointwise", rest, [p for _, _, p in passed]),
            expressions=kernel.expressions,
        ),
        passed,
        in_place,
    )


def _word(value: ast.expr) -> str:
    """What a number by row is called."""
    text = ast.unparse(value)
    if "rsqrt" in text:
        return "row_scale"
    if "max2(" in text:
        return "row_max"
    return "row_mean" if "/" in text else "row_sum"


def _is_known(statement: ast.stmt) -> bool:
    """Whether it is a plain statement of elements, or one of the sums and maxima over a row."""
    if isinstance(statement, ast.Assign) and target_of(statement) is None:
        return False
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
        return False
    if "float64" in ast.unparse(statement):
        return False
    called = (ast.unparse(n.func) for n in ast.walk(statement) if isinstance(n, ast.Call))
    return all(_ELEMENTWISE.fullmatch(name) or f"{name}(" in _REDUCING for name in called)


def _is_float32(name: str, values: Mapping[str, ast.expr], reduced: set[str]) -> bool:
    """Whether a number by row is a float, as all that it is computed from by row is."""
    value = values[name]
    text = ast.unparse(value)
    if any(word in text for word in _NO_FLOAT) or isinstance(value, ast.Compare):
        return False
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return False
    if _reduces(value):
        return text.endswith(".to(tl.float32)")
    return all(_is_float32(other, values, reduced) for other in names_in(value) & reduced)


def _stored(store: ast.stmt | None, values: Mapping[str, ast.expr], length: str) -> ast.expr | None:
    """What is stored, if each element goes to its own place: row after row."""
    call = store.value if isinstance(store, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.args[0], ast.BinOp):
        return None
    return call.args[1] if _is_own_place(call.args[0].right, values, length) else None


def _is_own_place(index: ast.expr, values: Mapping[str, ast.expr], length: str) -> bool:
    """`r0_1 + 768 * x0`."""
    match index:
        case ast.BinOp(
            ast.Name(id=column),
            ast.Add(),
            ast.BinOp(ast.Constant() as size, ast.Mult(), ast.Name(id=row)),
        ):
            named = [ast.unparse(values[n]) for n in (column, row) if n in values]
            return named == ["r0_index", "xindex"] and str(size.value) == length
    return False


def _by_element(statement: ast.stmt, values: Mapping[str, ast.expr], length: str) -> str:
    """A statement over rows and columns as one over elements; raises `PolicyCannot`."""
    name = target_of(statement)
    if name is not None and _INDEX.fullmatch(name):
        return f"{name} = {_index(values[name], length)}"
    return ast.unparse(_ByElement(values, length).visit(_parsed(ast.unparse(statement))))


def _index(value: ast.expr, length: str) -> str:
    """Indices as the compiler has them in a kernel over elements; raises `PolicyCannot`."""
    match value:
        case ast.Name(id="r0_index"):
            return f"xindex % {length}"
        case ast.Name(id="xindex"):
            return f"xindex // {length}"
        case ast.BinOp(ast.Name(id="xindex"), ast.Mod(), size):
            return f"xindex // {length} % {ast.unparse(size)}"
        case ast.BinOp(ast.Name(id="xindex"), ast.FloorDiv(), ast.Constant(value=int(size))):
            return f"xindex // {int(length) * size}"
    raise PolicyCannot("it", f"rows are numbered by `{ast.unparse(value)}`")


class _ByElement(ast.NodeTransformer):
    """One axis where there were two, and one mask."""

    def __init__(self, values: Mapping[str, ast.expr], length: str) -> None:
        self._values = values
        self._length = length

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("xmask", node.ctx) if node.id == "r0_mask" else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if _is_own_place(node, self._values, self._length):
            return ast.Name("xindex", ast.Load())
        self.generic_visit(node)
        both = ast.unparse(node.left) == ast.unparse(node.right) == "xmask"
        return node.left if both else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = ast.unparse(node.func)
        if function == "tl.broadcast_to":
            return node.args[0]
        if function == "tl.full":
            node.args[0] = ast.List([ast.Constant(1)], ast.Load())
        return node


def _kernel(
    kernel: Kernel, name: str, kind: str, body: Sequence[ast.stmt], numbers: Sequence[str]
) -> Kernel:
    """A kernel of these statements, with those parameters that they name."""
    used = set().union(*(names_in(statement) for statement in body))
    given = kernel.function.args.args
    parameters = [p for p in given if "ptr" in p.arg and p.arg in used]
    parameters += [ast.arg(number) for number in numbers]
    parameters += [
        p for p in given if "ptr" not in p.arg and (kind != "pointwise" or p.arg in used)
    ]
    arguments = ast.arguments([], parameters, None, [], [], None, [])
    function = ast.FunctionDef(name, arguments, list(body), [], None, None)
    signature = {p.arg: kernel.signature.get(p.arg, "*fp32") for p in parameters}
    return Kernel(name, kind, ast.fix_missing_locations(function), signature, "x")


def _reduces(value: ast.expr) -> bool:
    return any(word in ast.unparse(value) for word in _REDUCING)


def _along_rows(values: Mapping[str, ast.expr]) -> set[str]:
    """Names whose values vary along a row."""
    result = {"r0_index"}
    for name, value in values.items():
        if names_in(value) & result and not _reduces(value):
            result.add(name)
    return result


def _reduced(values: Mapping[str, ast.expr]) -> set[str]:
    """Names whose values depend on whole rows."""
    result: set[str] = set()
    for name, value in values.items():
        if _reduces(value) or names_in(value) & result:
            result.add(name)
    return result


def _parsed(line: str) -> ast.stmt:
    return ast.parse(line).body[0]


def _copied(value: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(value), mode="eval").body
