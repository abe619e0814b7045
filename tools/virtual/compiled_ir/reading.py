"""Reads the text of Triton IR, a line an operation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelagent.tools.virtual.compiled_ir.text import Block, Function, Module, Operation
from kernelagent.tools.virtual.compiled_ir.types import Type, read_type
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown

_NAME = r"%[A-Za-z0-9_$.\-]+(?:#\d+)?"
_OPERAND = re.compile(_NAME)
_RESULTS = re.compile(rf"((?:{_NAME}(?::\d+)?(?:, )?)+) = ")
_OPERATION = re.compile(r'"?([a-z_]+\.[a-z_0-9.]+)"?')
_LABEL = re.compile(r"\^bb\d+")
_ASSIGNED = re.compile(rf"({_NAME}) = ({_NAME})")
_LOC_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)\Z")
_LOC_OF = re.compile(r" loc\((#loc\d*|unknown)\)\Z")
_OPEN, _CLOSE = "({[<", ")}]>"


def read_module(text: str) -> Module:
    """The module that this text is; raises `Unknown` for what it cannot read."""
    lines, places = [], {}
    for line in text.splitlines():
        if line.startswith("#loc"):
            known = _LOC_ALIAS.match(line)
            if known:
                places[known[1]] = known[2]
        elif line.strip():
            lines.append(line.strip())
    functions = _Reader(lines).module()
    public = [function for function, is_public in functions if is_public]
    if len(public) != 1:
        raise Unknown("a module without one public function")
    return Module({function.name: function for function, _ in functions}, public[0], places)


class _Reader:
    """Goes through the lines of a module."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def module(self) -> list[tuple[Function, bool]]:
        functions = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("tt.func"):
                functions.append(self._function(line))
        return functions

    def _function(self, line: str) -> tuple[Function, bool]:
        line, _ = _without_place(line)
        if not line.endswith("{"):
            raise Unknown("a function without a body")
        name = line[line.index("@") + 1 : line.index("(")]
        inside, _ = _enclosed(line, line.index("("))
        arguments = tuple(map(_argument, _split(inside)))
        blocks, _ = self._region()
        return Function(name, arguments, blocks), line.startswith("tt.func public")

    def _region(self) -> tuple[list[Block], str]:
        """The blocks up to the line that closes them, and that line."""
        blocks = [Block("", ())]
        while True:
            if self._at >= len(self._lines):
                raise Unknown("a text that ends within a block")
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("}"):
                return [block for block in blocks if block.operations or block.label], line
            if line.startswith("^bb"):
                blocks.append(_block(line))
            else:
                blocks[-1].operations.append(self._operation(line))

    def _operation(self, line: str) -> Operation:
        opening = line.endswith("{")
        if opening:
            head, regions = line[:-1].rstrip(), []
            closing = "} else {"
            while closing.endswith("{") and closing.startswith("}"):
                blocks, closing = self._region()
                regions.append(blocks)
            closing, place = _without_place(closing)
            if head.endswith("("):
                # In the general form types follow the regions.
                tail = closing.removeprefix("}").strip().removeprefix(")").strip()
                operation = _operation(head[:-1].rstrip() + " " + tail, place)
            else:
                operation = _operation(head, place)
                operation.attributes += closing
            operation.regions = regions
            return operation
        text, place = _without_place(line)
        return _operation(text, place)


def _operation(line: str, place: str) -> Operation:
    found = _RESULTS.match(line)
    results: tuple[str, ...] = ()
    if found:
        results = tuple(_spread(found[1]))
        line = line[found.end() :]
    named = _OPERATION.match(line)
    if named is None:
        raise Unknown(f"the line {line[:80]!r}")
    name, rest = named[1], line[named.end() :]
    body, attributes, types = _parts(rest)
    operation = Operation(name, results, (), body, attributes, (), (), place)
    if name in ("cf.br", "cf.cond_br"):
        operation.targets = tuple(_targets(rest))
        operation.operands = tuple(_OPERAND.findall(rest[: rest.index("^")]))
        return operation
    if name in ("scf.for", "scf.while"):
        _looping(operation, rest)
        return operation
    operation.operands = tuple(_OPERAND.findall(body if name != "arith.constant" else ""))
    if name == "arith.constant":
        is_bit = not types and body in ("true", "false")
        operation.result_types = (Type("i1") if is_bit else read_type(types),)
        return operation
    given, arrow, made = types.partition(" to " if " to " in types else "->")
    if not arrow and " -> " in body:
        # `scf.if %a -> (f32)` has no colon before its types.
        operation.body, _, made = body.partition(" -> ")
    operation.operand_types = tuple(map(read_type, _types(given)))
    operation.result_types = tuple(map(read_type, _types(made))) or _implied(operation)
    return operation


def _implied(operation: Operation) -> tuple[Type, ...]:
    """The type of a result where the text names only those of operands."""
    if not operation.results or not operation.operand_types:
        return ()
    first, last = operation.operand_types[0], operation.operand_types[-1]
    match operation.name:
        case "tt.load":
            return (Type(first.pointee, first.shape, first.is_block),)
        case "arith.cmpi" | "arith.cmpf":
            return (first.of("i1"),)
        case "arith.select":
            return (last,)
        case "tt.unsplat":
            return (Type(first.element, pointee=first.pointee),)
    return (first,) * len(operation.results)


def _looping(operation: Operation, rest: str) -> None:
    """`%i = %a to %b step %c iter_args(%x = %y) -> (t) : i32`, or `(%x = %y) : (t) -> (t)`."""
    assigned = _ASSIGNED.findall(rest)
    if operation.name == "scf.while":
        operation.operands = tuple(value for _, value in assigned)
        operation.targets = (("", tuple(name for name, _ in assigned)),)
        return
    heading = rest.partition("iter_args")[0]
    bounds = _OPERAND.findall(heading)[:4]
    carried = assigned[1:]
    operation.operands = (*bounds[1:], *(value for _, value in carried))
    operation.targets = (("", (bounds[0], *(name for name, _ in carried))),)
    colon = rest.rfind(" : ")
    last = rest[colon + 3 :].strip() if colon >= 0 and ")" not in rest[colon:] else "i32"
    operation.operand_types = (read_type(last),)
    operation.attributes = "unsigned" if heading.startswith((" unsigned", "unsigned")) else ""


def _targets(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for found in _LABEL.finditer(text):
        after, handed = text[found.end() :], ()
        if after.startswith("("):
            inside, _ = _enclosed(after, 0)
            handed = tuple(_OPERAND.findall(inside.partition(" : ")[0]))
        yield found[0], handed


def _parts(text: str) -> tuple[str, str, str]:
    """What stands before the types, without attributes; the attributes; the types."""
    body: list[str] = []
    attributes: list[str] = []
    depth, braces, at, quoted = 0, 0, 0, False
    while at < len(text):
        sign = text[at]
        if sign == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if not quoted:
            if sign in _OPEN and not (sign == "<" and text[at - 1] == "-"):
                depth += 1
                braces += sign == "{"
            elif sign in _CLOSE and not (sign == ">" and text[at - 1] == "-"):
                depth -= 1
                if sign == "}":
                    braces -= 1
                    attributes.append(sign)
                    at += 1
                    continue
            elif depth == 0 and text.startswith(" : ", at - 1) and sign == ":":
                return "".join(body).strip(), "".join(attributes), text[at + 1 :].strip()
        (attributes if braces else body).append(sign)
        at += 1
    return "".join(body).strip(), "".join(attributes), ""


def _types(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    # The factors of a product are joined by a star.
    return [one for part in _split(text) for one in part.split(" * ")]


def _split(text: str) -> list[str]:
    """At commas that nothing encloses."""
    result, depth, start, quoted = [], 0, 0, False
    for at, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE and not (sign == ">" and text[at - 1] == "-"):
            depth -= 1
        elif sign == "," and depth == 0:
            result.append(text[start:at].strip())
            start = at + 1
    result.append(text[start:].strip())
    return [part for part in result if part]


def _enclosed(text: str, at: int) -> tuple[str, int]:
    """What stands between the bracket at this place and its partner, and where it ends."""
    depth, quoted = 0, False
    for place in range(at, len(text)):
        sign = text[place]
        if sign == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "({[":
            depth += 1
        elif sign in ")}]":
            depth -= 1
            if depth == 0:
                return text[at + 1 : place], place
    raise Unknown("a bracket without its partner")


def _block(line: str) -> Block:
    label = line[: re.search(r"[(:]", line).start()]  # type: ignore[union-attr]
    if "(" not in line.partition("//")[0]:
        return Block(label, ())
    inside, _ = _enclosed(line, line.index("("))
    return Block(label, tuple(map(_argument, _split(inside))))


def _argument(text: str) -> tuple[str, Type]:
    """`%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc))`."""
    name, _, rest = text.partition(":")
    rest = rest.partition(" loc(")[0].partition(" {")[0]
    return name.strip(), read_type(rest)


def _without_place(line: str) -> tuple[str, str]:
    simple = _LOC_OF.search(line)
    if simple:
        return line[: simple.start()].rstrip(), simple[1]
    at = line.rfind(" loc(")
    while at >= 0:
        try:
            inside, end = _enclosed(line, at + 4)
        except Unknown:
            end = -1
        if end == len(line) - 1:
            return line[:at].rstrip(), inside
        at = line.rfind(" loc(", 0, at)
    return line, ""


def _spread(text: str) -> Iterator[str]:
    """`%v:2` names two results."""
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if count:
            yield from (f"{name}#{number}" for number in range(int(count)))
        else:
            yield name
