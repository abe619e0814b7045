"""What each of Inductor's kernels computes, as the expression of PyTorch that it was fused from.

Read from the comments above a kernel in Inductor's file, where the nodes of the graph stand in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

_NODE = re.compile(r"#   %(\w+) : .*?= call_function\[target=torch\.ops\.(\w+)\.(\w+)\.\w+\]\(args = \((.*)\), kwargs = \{(.*)\}\)$")  # fmt: skip
_RETURN = re.compile(r"#   return (%.*)")
_KERNEL = re.compile(r"(\w+) = async_compile\.triton\(")
_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
_ATOM, _SIGN = 4, 3
_TOGETHER = {
    "var_mean": ("variance", "mean"),
    "prepare_softmax_online": ("largest", "total"),
}
"""Names of two results of one operation."""
_SILENT = frozenset(
    """view reshape unsqueeze squeeze expand permute transpose t clone alias detach _unsafe_view
    convert_element_type lift_fresh_copy""".split()
)
"""They change no values."""
_LONGEST, _SHORT = 100, 24
_Text = tuple[str, int]
"""An expression and how tightly it binds."""


def expressions_of(source: str) -> dict[str, tuple[str, ...]]:
    """By kernel, lines of what it computes; none where a line is too long to be read."""
    result: dict[str, tuple[str, ...]] = {}
    comment: list[str] = []
    names = _pairs(source)
    for line in source.splitlines():
        if line.startswith("#"):
            comment.append(line)
            continue
        if made := _KERNEL.match(line):
            lines = [_named(text, names) for text in _lines(comment)]
            if all(len(text) <= _LONGEST for text in lines):
                result[made[1]] = tuple(lines)
        if line.strip():
            comment = []
    return result


def _pairs(source: str) -> tuple[str, str] | None:
    """The names of two results that come together, where all that do are of one known operation."""
    made = set(re.findall(r"#   %\w+ : \[num_users=\d+\] = call_function\[target=torch\.ops\.\w+\.(\w+)", source))  # fmt: skip
    known = [names for operation, names in _TOGETHER.items() if made == {operation}]
    # Nothing comes in pairs at all: no name is needed.
    return known[0] if known else None


def _named(text: str, names: tuple[str, str] | None) -> str:
    if names is None:
        return text
    return re.sub(r"\bgetitem(?:_(\d+))?\b", lambda m: names[int(m[1] or 0) % 2], text)


def _lines(comment: list[str]) -> list[str]:
    """What is used more than once under a name of its own, then the results that nothing else uses."""
    nodes = [match.groups() for line in comment if (match := _NODE.match(line))]
    returned = next((match[1] for line in comment if (match := _RETURN.match(line))), "")
    used = Counter(re.findall(r"%(\w+)", " ".join(node[3] for node in nodes)))
    values: dict[str, _Text] = {}
    lines: list[str] = []
    named_so: Counter[str] = Counter()
    for name, _, operation, arguments, named in nodes:
        text = _called(operation, list(_parts(arguments)), named, values)
        if used[name] > 1 and operation not in _SILENT and len(text[0]) > _SHORT:
            named_so[operation] += 1
            own = f"{operation}_{named_so[operation]}"
            lines.append(f"{own} = {text[0]}")
            text = own, _ATOM
        values[name] = text
    results = [name.strip().removeprefix("%") for name in returned.split(",")]
    return [*lines, *(values[n][0] for n in results if n in values and not used[n])]


def _called(operation: str, arguments: list[str], named: str, values: Mapping[str, _Text]) -> _Text:
    given = [_operand(argument, values) for argument in arguments]
    if operation in _SILENT or (operation == "as_strided" and len(given) < 4):
        return given[0]
    if operation == "neg":
        return f"-{_bound(given[0], _SIGN)}", _SIGN
    if operation in _INFIX and len(given) == 2 and not named.replace("alpha: 1", ""):
        sign, binds = _INFIX[operation]
        left, right = _bound(given[0], binds), _bound(given[1], binds + (sign in "-/"))
        return f"{left} {sign} {right}", binds
    if operation == "rev":
        operation = "flip"
    if operation in {"full", "scalar_tensor"}:
        return given[-1]
    texts = [text for text, _ in given]
    texts += [part.strip().replace(": ", "=") for part in named.split(", ") if _is_named(part)]
    return f"{operation.strip('_')}({', '.join(texts)})", _ATOM


def _is_named(named: str) -> bool:
    """Types and devices are the file's to say."""
    word = named.split(":")[0].strip()
    return bool(word) and word not in {"dtype", "device", "layout", "pin_memory", "memory_format"}


def _operand(text: str, values: Mapping[str, _Text]) -> _Text:
    if text.startswith("%"):
        return values.get(text[1:], (text[1:], _ATOM))
    return re.sub(r"%(\w+)", r"\1", text), _ATOM


def _bound(value: _Text, binds: int) -> str:
    text, own = value
    return text if own >= binds else f"({text})"


def _parts(arguments: str) -> Iterator[str]:
    """At the commas outside of brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(arguments):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield arguments[start:at].strip()
            start = at + 1
    if arguments[start:].strip():
        yield arguments[start:].strip()
