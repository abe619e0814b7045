"""Names a reader can use, in place of Inductor's numbered ones."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence

from kernelagent.models.compiler.program.program import Kernel

_PHRASES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"native", "layer", "norm"}), "layer_norm"),
    (frozenset({"native", "group", "norm"}), "group_norm"),
    (frozenset({"native", "batch", "norm"}), "batch_norm"),
    (frozenset({"pow", "mean", "rsqrt"}), "rms_norm"),
    (frozenset({"log", "softmax"}), "log_softmax"),
    (frozenset({"nll", "loss"}), "nll_loss"),
    (frozenset({"masked", "fill"}), "mask"),
    (frozenset({"threshold", "backward"}), "relu"),
    (frozenset({"statistics"}), "statistics"),
)
_SILENT = frozenset(
    """to copy where scalar tensor unsqueeze squeeze expand view clone split bitwise not forward
    legit no training functional native slice select full like mul t transpose permute cat eq ne lt
    gt ge le with slicing default unsafe data dense backward convert element type prepare online""".split()
)
_AXES = {
    "pointwise": {"xnumel": "n_elements", "xindex": "offsets", "xmask": "mask", "XBLOCK": "BLOCK"},
    "rows": {
        "xnumel": "n_rows",
        "xindex": "rows",
        "xmask": "row_mask",
        "XBLOCK": "ROWS",
        "r0_numel": "n_cols",
        "r0_index": "cols",
        "r0_base": "lanes",
        "r0_offset": "start",
        "r0_mask": "col_mask",
        "R0_BLOCK": "BLOCK",
    },
    "grid": {
        axis + tail: name.format(axis)
        for axis in "xyz"
        for tail, name in (("numel", "n_{0}"), ("index", "{0}"), ("mask", "{0}_mask"))
    }
    | {f"{axis.upper()}BLOCK": f"BLOCK_{axis.upper()}" for axis in "xyz"},
}
_REDUCED = {"tl.sum(": "total", "tl.max(": "largest", "tl.min(": "smallest"}


def kernel_name(kernel: Kernel, taken: Iterable[str], ending: str = "") -> str:
    """From the fused operations, for example `add_rms_norm`; a number where it is taken.

    `ending`: its last word, as in `add_rms_norm_backward`.
    """
    left = list(kernel.operations)
    words: list[str] = []
    for needed, phrase in _PHRASES:
        if needed <= set(left):
            words.append(phrase)
            left = [word for word in left if word not in needed]
    if "rms_norm" in words and not _adds_values(kernel.function):
        # The norm's own epsilon, or a weight of one and a little.
        left = [word for word in left if word != "add"]
    others = [word for word in dict.fromkeys(left) if word not in _SILENT and not word.isdigit()]
    if not words and not others:
        others = [word for word in left if word in {"mul", "cat", "copy", "clone"}][:2] or ["fused"]
    name = "_".join([*others[:3], *words]) or "fused"
    return unique(identifier(name) + ending, taken)


def _adds_values(function: ast.FunctionDef) -> bool:
    """Whether two values are added of which neither is a number or the running sum of a reduction."""
    assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
    numbers = {
        name
        for node in assigned
        for name in _targets(node)
        if ast.unparse(node.value).startswith("tl.full(") or isinstance(node.value, ast.Constant)
    }
    return any(
        all(
            isinstance(side, ast.Name) and side.id.startswith("tmp") and side.id not in numbers
            for side in (node.left, node.right)
        )
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    )


def local_names(
    kernel: Kernel,
    body: Sequence[ast.stmt],
    pointers: Mapping[str, str],
    reserved: Iterable[str] = (),
) -> dict[str, str]:
    """New names for a kernel's parameters and locals; `pointers`: its tensor arguments by parameter.

    `reserved`: names that stand for something else where the body is put.
    """
    names = {parameter: f"{host}_ptr" for parameter, host in pointers.items()}
    shape = "rows" if kernel.kind != "pointwise" else "pointwise" if kernel.axes == "x" else "grid"
    names |= _AXES[shape]
    names |= {p.arg: f"size_{p.arg[2:]}" for p in kernel.function.args.args if p.arg[:2] == "ks"}
    taken = {*names.values(), *reserved}
    for statement in _walk(body):
        for target in _targets(statement):
            if target in names:
                continue
            value = ast.unparse(statement.value) if isinstance(statement, ast.Assign) else ""
            names[target] = unique(_named_after(target, value, pointers), taken)
            taken.add(names[target])
    return names


def _named_after(target: str, value: str, pointers: Mapping[str, str]) -> str:
    if value.startswith("tl.load("):
        loaded = re.match(r"tl\.load\((\w+)", value)
        if loaded and loaded[1] in pointers:
            return pointers[loaded[1]]
    for beginning, name in _REDUCED.items():
        if value.startswith(beginning):
            return name
    if target.startswith("_tmp"):
        return "partial"
    if re.fullmatch(r"[xyzr]\d*(_\d+)?", target):
        return f"{target[0]}_index"
    return "t"


def renamed(node: ast.stmt, names: Mapping[str, str]) -> ast.stmt:
    """A copy of the statement under the new names."""
    copy = ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0]
    for part in ast.walk(copy):
        if isinstance(part, ast.Name):
            part.id = names.get(part.id, part.id)
    return copy


def unique(name: str, taken: Iterable[str]) -> str:
    used, number, result = set(taken), 1, name
    while result in used:
        number += 1
        result = f"{name}_{number}"
    return result


def identifier(text: str) -> str:
    """A Python identifier near `text`."""
    plain = re.sub(r"\W+", "_", text).strip("_") or "value"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def is_attribute(name: str) -> bool:
    """Whether it can stand behind a dot in a file; numbers in sequences and keywords cannot."""
    return name.isidentifier() and not keyword.iskeyword(name)


def path_of(host: str) -> str:
    """The path of a tensor as the host has it: `0.running_mean` of `self.get_submodule("0").running_mean`."""
    got = re.fullmatch(r"""self\.get_\w+\(["'](.*?)["']\)(.*)""", host)
    return f"{got[1]}{got[2]}" if got else host.removeprefix("self.")


def label(host: str) -> str:
    """The last word of a tensor's path that is no number."""
    path = path_of(host).split("(")[-1]
    words = [word for word in identifier(path).split(".") if word]
    last = path.replace("[", ".").replace("]", "").split(".")
    plain = [word for word in last if word and not word.isdigit()]
    return identifier(plain[-1] if plain else words[-1])


def _walk(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.For):
            yield from _walk(statement.body)


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        result = statement.targets[0]
        parts = result.elts if isinstance(result, ast.Tuple) else [result]
        return [part.id for part in parts if isinstance(part, ast.Name)]
    return []
