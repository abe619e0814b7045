"""How many instructions each function of libdevice is, from its machine code: writes `tools/virtual/cost/libdevice_costs.toml`.

    python -m benchmarks.libdevice_costs

Each function is compiled alone for sm_90 by the installed triton, in a kernel that calls it once for each element, and
beside it the same kernel without the call. Counted is the shortest way through what `nvdisasm` shows: branches are
taken as is shortest, so that special cases (large arguments, numbers that are none) do not count. Needs no GPU.
"""

from __future__ import annotations

import functools
import heapq
import importlib.util
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.compiler import ASTSource
from triton.language.extra.cuda import libdevice

from kernelagent.tools.virtual.compiled.compiling import gpu_target
from kernelagent.tools.virtual.compiled.disassembling import disassembled

TARGET = "sm_90"
TABLE = Path(__file__).parents[1] / "tools" / "virtual" / "libdevice_costs.toml"
_LEAST = 3
"""Functions of fewer instructions are left out: they count as one."""
_KINDS = {"fp32": "fp32", "fp64": "fp64", "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64"}  # fmt: skip
_CALL = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*)$")
_LABEL = re.compile(r"^(\.L\w+):")
_TARGET = re.compile(r"`\((\.L\w+)\)")
_FREE = frozenset({"NOP", "BSSY", "BSYNC", "WARPSYNC"})
_TEXT = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def measured({pointers}, out):
    lanes = tl.arange(0, 128)
{loads}
    tl.store(out + lanes, {result})
"""


@dataclass(frozen=True)
class Function:
    """One of libdevice's for one choice of argument types."""

    name: str
    symbol: str
    given: tuple[str, ...]
    made: str


@dataclass(frozen=True)
class Instruction:
    """One of a listing, and where it may go on."""

    kind: str
    follows: tuple[int, ...]


class _Told(Exception):
    """Carries what a wrapper would ask the compiler for."""


def functions() -> Iterator[Function]:
    """Those of floats, and of floats and integers of 32 or 64 bits; those of integers alone are few instructions."""
    for name, wrapper in vars(libdevice).items():
        asked = _asked(wrapper)
        for given, (symbol, made) in asked.items():
            kinds = [str(kind) for kind in (*given, made)]
            if set(kinds) <= set(_KINDS) and set(kinds) & {"fp32", "fp64"}:
                yield Function(name, symbol, tuple(kinds[:-1]), kinds[-1])


def _asked(wrapper: Any) -> Mapping[Any, Any]:
    """By types of arguments, the symbol and the type of the result that a wrapper chooses."""
    inner = getattr(wrapper, "__wrapped__", wrapper)
    if not hasattr(inner, "__code__") or "extern_elementwise" not in inner.__code__.co_names:
        return {}

    class Core:
        dtype = libdevice.core.dtype

        def extern_elementwise(
            self, _library: Any, _path: Any, _args: Any, table: Any, **_: Any
        ) -> Any:
            raise _Told(table)

    scope = {**vars(libdevice), "core": Core()}
    called = type(inner)(
        inner.__code__, scope, inner.__name__, inner.__defaults__, inner.__closure__
    )
    called.__kwdefaults__ = inner.__kwdefaults__
    try:
        called(*[None] * inner.__code__.co_argcount)
    except _Told as told:
        return dict(told.args[0])
    return {}


def shortest(listing: str) -> Counter[str]:
    """Instructions by kind on the way that has fewest of them: `fp64`, `special` and `other`."""
    code = list(_instructions(listing))
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    met: set[int] = set()
    while waiting:
        length, at, way = heapq.heappop(waiting)
        if at in met or at >= len(code):
            continue
        met.add(at)
        one = code[at]
        way = (*way, at)
        if not one.follows:
            return Counter(code[place].kind for place in way if code[place].kind)
        for place in one.follows:
            heapq.heappush(waiting, (length + bool(one.kind), place, way))
    return Counter()


def _instructions(listing: str) -> Iterator[Instruction]:
    labels: dict[str, int] = {}
    rows: list[tuple[bool, str, str]] = []
    for line in listing.splitlines():
        label, found = _LABEL.match(line), _CALL.match(line)
        if label:
            labels[label[1]] = len(rows)
        if found:
            rows.append((bool(found[1]), found[2], found[3]))
    for at, (predicated, mnemonic, rest) in enumerate(rows):
        name, target = mnemonic.partition(".")[0], _TARGET.search(rest)
        follows: list[int] = [at + 1]
        if name == "EXIT":
            follows = [at + 1] if predicated else []
        elif name == "BRA" and target:
            # A condition may also stand among the operands.
            always = not predicated and not re.search(r"!?U?P\d", rest)
            follows = [labels[target[1]], *([] if always else follows)]
        yield Instruction(_kind(name), tuple(follows))


def _kind(name: str) -> str:
    if name in _FREE:
        return ""
    if name == "MUFU":
        return "special"
    return "fp64" if name in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX") else "other"


def measured(function: Function, folder: Path) -> Counter[str]:
    """What its call adds to a kernel."""
    names = _names(function.given)
    called = f"libdevice.{function.name}({', '.join(names)})"
    found = _shortest_of(function.given, function.made, called, folder / f"{function.symbol}.py")
    found.subtract(_without_call(function.given, function.made, folder))
    return found


def _names(given: tuple[str, ...]) -> list[str]:
    return [f"x{i}" for i in range(len(given))]


@functools.cache
def _without_call(given: tuple[str, ...], made: str, folder: Path) -> Counter[str]:
    """Of the same kernel that adds its arguments up."""
    kind = made.replace("fp", "float")
    plain = " + ".join(f"{name}.to(tl.{kind})" for name in _names(given))
    return _shortest_of(given, made, plain, folder / f"without_{'_'.join((*given, made))}.py")


def _shortest_of(given: tuple[str, ...], made: str, result: str, file: Path) -> Counter[str]:
    names = _names(given)
    loads = "\n".join(f"    {name} = tl.load(p_{name} + lanes)" for name in names)
    pointers = ", ".join(f"p_{name}" for name in names)
    file.write_text(_TEXT.format(pointers=pointers, loads=loads, result=result), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = [*given, made]
    signature = {
        name: f"*{_KINDS[kind]}"
        for name, kind in zip([*(f"p_{n}" for n in names), "out"], kinds, strict=True)
    }
    compiled = triton.compile(
        ASTSource(module.measured, signature, {}),
        target=gpu_target(TARGET),
        options={"num_warps": 4},
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        return shortest(disassembled(cubin.name))


def table_of(found: Mapping[str, Counter[str]]) -> str:
    """As TOML, by symbol: instructions of any kind, and those in fp64."""
    lines = [
        "# Instructions of libdevice's functions, for one element and at least: the shortest way through the machine code",
        f"# that triton {triton.__version__} makes for {TARGET}; written by benchmarks/libdevice_costs.py.",
        f"# `all` counts every instruction, `fp64` those of them in fp64. Functions of fewer than {_LEAST} are left out.",
        "",
    ]
    for symbol in sorted(found):
        kinds = found[symbol]
        every = sum(kinds.values())
        if every >= _LEAST:
            lines.append(f"{symbol} = {{ all = {every}, fp64 = {max(0, kinds['fp64'])} }}")
    return "\n".join(lines) + "\n"


def main() -> None:
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for function in functions():
            found[function.symbol] = measured(function, Path(folder))
            print(function.symbol, dict(found[function.symbol]), flush=True)
    TABLE.write_text(table_of(found), encoding="utf-8")


if __name__ == "__main__":
    main()
