"""Writes the accepted candidate as one Python file that a user can import without kernelagent.

The file is a header that says what was verified, the candidate's own text, and the drop-in section
(`template/dropin.py`), whose guard reads `ENVELOPE_VERIFIED`:

    input_sets       list of {name, args: [value...], kwargs: {name: value}}
    contiguous       True: a tensor for which no strides are listed was verified row by row
    modes            of "eval" and "train"
    mode_independent True: both flags of `training` were verified to give the same (default False)
    default_dtype    torch's, as it was when the module was verified (default: "float32")
    device_types     default ["cuda"]: a `virtual` device stands for one
    attributes       {path of submodule: {attribute, or "class": text}} of the reference (default: none)
    reads            {what: text} of the other things that a forward reads (default: none)
    tied             lists of names in the state that stand for one tensor (default: none)
    binds            True: a call bound other tensors as parameters or buffers (default: False)
    leaves           attributes and unsaved buffers in which calls leave new values (default: none)
    settings         True: a part holds an object with fields, such as a config (default: False)
    float32_matmul_precision  torch's, where it was not "highest"
    float32_convolutions  "tf32" where cuDNN's could be rounded
    state            {name: {dtype, shape, strides}} (default: from the problem's facts)
    constructor      "init" or "from_reference" (default: from the problem's facts)

A value is {dtype, shape, strides?, sizes?, values?} for a tensor (`sizes`: those at which its strides are the listed ones, where a
size in its shape is open: they grow with it; `values`: a digest of what it must hold), {list: [value...]}, {tuple: [value...]},
{dict: {key: value}} or {literal: Python text}. A size in a shape is a number, "any", or
{min?, max?, multiple_of?, name?}, where sizes of one name are equal.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kernelagent.domain import certificate as certificates
from kernelagent.domain.candidate import ENTRY_POINT, Candidate
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.replies.parsing import parse, parse_expression
from kernelagent.dropin import own_builtins
from kernelagent.dropin.header import Certificate, header
from kernelagent.dropin.lines import moved
from kernelagent.dropin.parts import blocks_for, dropin_text
from kernelagent.dropin.review import Finding, bound_names, review
from kernelagent.dropin.runtime_package import NAMES, SECTION, Runtime

__all__ = ["Certificate", "Finding", "emit_module", "review"]

WIDTH = 98
_ROUNDS = 5


@dataclass(frozen=True)
class EmittedFile:
    """An emitted file, for whatever writes it in another format."""

    text: str
    """It carries its drop-in itself."""
    record: certificates.Certified
    source: str
    """The reference's text; empty where it is not known."""
    layer: str
    """The reference's class; empty where it is not known."""


_NAMES_BESIDE = {"torch", "Any", "_construct", "ENVELOPE_VERIFIED", certificates.NAME}
PARTS_APART = "\n\n\n"
SECTION_BEGINS = f"# The drop-in. Above stands {ENTRY_POINT} as it was verified;"
"""The line of an emitted file at which the candidate's own text is over."""
_SECTION = f"""\
{SECTION_BEGINS} what follows puts it in place of a
# live module and keeps it to what was verified. Nothing runs when this file is imported.

from typing import Any

import torch"""


def emit_module(
    candidate: Candidate,
    facts: ProblemFacts,
    evaluation: Evaluation,
    certificate: Certificate,
    runtime: Runtime = "inline",
) -> str:
    """The text of the emitted file; `runtime`: whether the guard is inlined or imported from a package.

    Raises ValueError for an evaluation that was not accepted or carries no envelope, and
    `UsageError` when the candidate takes a name the file needs (`review` tells beforehand).
    """
    if not evaluation.accepted:
        raise ValueError(f"only an accepted candidate is emitted, not {evaluation.verdict}")
    if not evaluation.envelope.get("input_sets"):
        raise ValueError("the evaluation does not say on which inputs the candidate was verified")
    tree = parse(candidate.source)
    envelope = _envelope(facts, evaluation)
    section, _, dropin = drop_in_around(tree, envelope, runtime)
    code = [
        _beginning(candidate, facts, evaluation, certificate, runtime),
        section,
        data_text("ENVELOPE_VERIFIED", envelope),
        data_text(certificates.NAME, _certified(evaluation, certificate)),
        _constructor(facts),
        dropin,
    ]
    return PARTS_APART.join(code) + "\n"


def _beginning(
    candidate: Candidate,
    facts: ProblemFacts,
    evaluation: Evaluation,
    certificate: Certificate,
    runtime: Runtime,
) -> str:
    """Header and candidate; the lines that the header names are those of the emitted file."""
    futures, body = _without_futures(candidate.source, parse(candidate.source))
    body = body.strip("\n")
    lines = candidate.source.rstrip("\n").count("\n")
    text, further_down = "", 0
    # Larger numbers may take a line more, which moves the candidate again.
    for _ in range(_ROUNDS):
        told = replace(
            evaluation, disclosures=moved(evaluation.disclosures, further_down, lines + 1)
        )
        text = header(facts, told, certificate, runtime) + futures + "\n\n"
        before, further_down = further_down, text.count("\n") + body.count("\n") - lines
        if further_down == before:
            break
    return text + body


def drop_in_around(
    tree: ast.Module, envelope: dict[str, Any], runtime: str
) -> tuple[str, str, str]:
    """Returns `(section, imports, code)`.

    `section`: the lines that open the drop-in's part of the file. `imports`: the import lines among them that
    only the guard needs (none for runtime `package`). `code`: the guard.

    Raises `UsageError` when the candidate takes a name the file needs.
    """
    imports, code = (
        _dropin_text(tree, envelope) if runtime == "inline" else ("", _asked_of_package(tree))
    )
    return _SECTION.replace("from typing", f"{imports}from typing"), imports, code


def _envelope(facts: ProblemFacts, evaluation: Evaluation) -> dict[str, Any]:
    state = {
        fact.name: {"dtype": fact.dtype, "shape": list(fact.shape), "strides": list(fact.strides)}
        for fact in facts.state
    }
    defaults = {
        "device_types": ["cuda"],
        "modes": [facts.mode],
        "contiguous": True,
        "constructor": facts.constructor,
        "state": state,
    }
    named: dict[str, Any] = defaults | evaluation.envelope
    sets = [{k: v for k, v in item.items() if v or k != "kwargs"} for item in named["input_sets"]]
    read = {} if named.get("reads", True) else {"reads"}
    return {k: v for k, v in named.items() if k not in read} | {"input_sets": sets}


def _certified(evaluation: Evaluation, certificate: Certificate) -> dict[str, Any]:
    record = certificates.certified(
        evaluation,
        certificate.run,
        certificate.date,
        certificate.kernelagent,
        certificate.asked,
    )
    return certificates.as_data(record)


def data_text(name: str, value: dict[str, Any]) -> str:
    """A dictionary of literals as an assignment, as an emitted file has it."""
    head = f"{name}: dict[str, Any] = "
    return head + _written(value, indent=0, used=len(head))


def _written(value: Any, *, indent: int, used: int) -> str:
    """`value` as Python text; what is too wide for a line is broken, short entries side by side."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    line = _on_one_line(value)
    if not isinstance(value, dict | list | tuple) or used + len(line) < WIDTH:
        return line
    begin = " " * (indent + 4)
    rows: list[str] = []
    keyed = isinstance(value, dict)
    for entry in value:
        key = f"{_on_one_line(entry)}: " if keyed else ""
        item = value[entry] if keyed else entry
        text = key + _written(item, indent=indent + 4, used=len(begin) + len(key) + 1) + ","
        fits = rows and len(rows[-1]) + len(text) < WIDTH and "\n" not in rows[-1] + text
        # Tensors and input sets keep a line each, for whoever compares them.
        if fits and not isinstance(item, dict | list | tuple):
            rows[-1] += f" {text}"
        else:
            rows.append(begin + text)
    brackets = {dict: "{}", list: "[]", tuple: "()"}[type(value)]
    body = "\n".join(rows)
    return f"{brackets[0]}\n{body}\n{' ' * indent}{brackets[1]}"


def _on_one_line(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            rows = (f"{_on_one_line(k)}: {_on_one_line(v)}" for k, v in value.items())
            return "{" + ", ".join(rows) + "}"
        case list():
            return "[" + ", ".join(map(_on_one_line, value)) + "]"
        case tuple():
            inner = ", ".join(map(_on_one_line, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _without_futures(source: str, tree: ast.Module) -> tuple[str, str]:
    """The candidate's `from __future__` lines, which must come first, and the text without them."""
    result = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    lines = source.encode().splitlines(keepends=True)
    for node in reversed(result):
        last = node.end_lineno or node.lineno
        before = lines[node.lineno - 1][: node.col_offset]
        after = lines[last - 1][node.end_col_offset :].lstrip(b" \t;")
        kept = before + after if before.strip() else after.lstrip()
        lines[node.lineno - 1 : last] = [kept]
    names = dict.fromkeys(alias.name for node in result for alias in node.names)
    text = b"".join(lines).decode()
    return (f"\n\nfrom __future__ import {', '.join(names)}" if names else ""), text


def _constructor(facts: ProblemFacts) -> str:
    head = "def _construct(module: torch.nn.Module) -> torch.nn.Module:\n"
    if facts.constructor == "from_reference":
        return f"{head}    return {ENTRY_POINT}.from_reference(module)"
    arguments = _written_arguments(facts.init_arguments)
    if arguments is not None:
        return f"{head}    return {_call(ENTRY_POINT, arguments)}"
    return (
        f"{head}    raise TypeError(\n"
        f'        "the constructor\'s arguments could not be written down here; "\n'
        f'        "call optimized(module, fast={ENTRY_POINT}(...)) with the module\'s own"\n'
        f"    )"
    )


def _written_arguments(text: str) -> list[ast.expr | ast.keyword] | None:
    """The arguments of a call such as `(4096, eps=1e-06)`, None when they are not Python."""
    try:
        call = parse_expression(f"f{text}")
    except SyntaxError:
        return None
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    if not isinstance(call, ast.Call) or not names <= {"f", "torch", "float"}:
        return None
    return [*call.args, *call.keywords]


def _call(name: str, arguments: Iterable[ast.expr | ast.keyword]) -> str:
    shown = [_argument(argument) for argument in arguments]
    line = f"{name}({', '.join(shown)})"
    if len(line) < WIDTH - len("    return ") and "\n" not in line:
        return line
    return f"{name}(\n" + "".join(f"        {text},\n" for text in shown) + "    )"


def _argument(argument: ast.expr | ast.keyword) -> str:
    if isinstance(argument, ast.keyword):
        return f"{argument.arg}={_argument(argument.value)}"
    try:
        return _written(ast.literal_eval(argument), indent=8, used=30)
    except ValueError:  # a name of torch inside: not a literal
        return ast.unparse(argument)


@cache
def _dropin_names(blocks: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(bound_names(parse(dropin_text(blocks))).keys() | _NAMES_BESIDE))


def _dropin_text(candidate: ast.Module, envelope: dict[str, Any]) -> tuple[str, str]:
    """The guard's imports and its code; private names and builtins that the candidate defines, too, become `_dropin…`."""
    blocks = blocks_for(envelope, candidate)
    text = dropin_text(blocks)
    taken = bound_names(candidate)
    for name in _dropin_names(blocks):
        if name not in taken or _imports_alike(candidate, name):
            continue
        if not name.startswith("_") or name == "_construct":
            raise UsageError(_needed_twice(taken[name], name))
        own = f"_dropin{name}"
        if own in taken:
            raise UsageError(_needed_twice(taken[own], own))
        text = re.sub(rf"(?<![\w.]){name}\b", own, text)
    for name in ("super", own_builtins.OWN):
        if name in taken:
            raise UsageError(_needed_twice(taken[name], name))
    text = own_builtins.with_own(text, own_builtins.bound_by(candidate, taken, text))
    imports, _, rest = text.partition("\n\n\n")
    return f"{imports}\n", rest


def _asked_of_package(candidate: ast.Module) -> str:
    """The lines that ask the package; raises `UsageError` for a name both need."""
    taken = bound_names(candidate)
    for name in sorted(NAMES | _NAMES_BESIDE | {"OutsideEnvelopeWarning"}):
        if name in taken and not _imports_alike(candidate, name):
            raise UsageError(_needed_twice(taken[name], name))
    return SECTION


def _needed_twice(line: int, name: str) -> str:
    return (
        f"line {line} of the candidate defines {name}, a name the emitted file needs for itself; "
        f"rename it and evaluate again"
    )


def _imports_alike(candidate: ast.Module, name: str) -> bool:
    """Whether the candidate's `torch` or `Any` is the one the drop-in means."""
    same = {
        "torch": lambda node: isinstance(node, ast.Import),
        "Any": lambda node: isinstance(node, ast.ImportFrom) and node.module == "typing",
    }
    if name not in same:
        return False
    return any(
        same[name](node) and alias.asname is None and alias.name.split(".")[0] == name
        for node in ast.walk(candidate)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )
