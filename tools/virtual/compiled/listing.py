"""A compiled kernel as instructions with the source line of each: PTX as triton wrote it, SASS disassembled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernelagent.tools.virtual.compiled.compiling import Compiled
from kernelagent.tools.virtual.compiled.disassembling import printed_of
from kernelagent.tools.virtual.compiled.load_waits import (
    Places,
    is_load,
    place_of,
    places_of_loads,
)
from kernelagent.tools.virtual.executor.source import FILE_NAME

Form = Literal["sass", "ptx"]
_SASS_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_PTX_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_ASSEMBLY = re.compile(r"// (?:begin|end) inline asm")
_GUARD = re.compile(r"^@!?\w+ ")
_PTX = re.compile(r"^\s*((?:@!?%\w+\s+)?[a-z][\w.]*[^;]*;)")


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    line: int | None
    """Of the candidate's file; None: of a library's function, or of no line."""
    text: str


def instructions(compiled: Compiled, form: Form) -> list[Instruction]:
    """All of a kernel, in their order; raises `EnvironmentFault` where the disassembler is missing."""
    if form == "ptx":
        return list(_of_ptx(compiled.ptx))
    return list(_of_sass(compiled.cubin, places_of_loads(compiled.ptx)))


def _of_sass(cubin: bytes, places: Places) -> Iterator[Instruction]:
    line: int | None = None
    for row in printed_of(cubin).listing.splitlines():
        if place := _SASS_PLACE.match(row):
            line = _own(place[1], int(place[2]))
        elif (match := _SASS.match(row)) and match[1] != "NOP":
            text = " ".join(match[1].split())
            mnemonic = _GUARD.sub("", text).partition(" ")[0]
            if line is not None and is_load(mnemonic):
                # Of several lines that it may be the first.
                own = int(place_of(mnemonic, line, places).partition(",")[0])
                yield Instruction(own, text)
            else:
                yield Instruction(line, text)


def _of_ptx(ptx: str) -> Iterator[Instruction]:
    rows = ptx.splitlines()
    files = {match[1]: match[2] for row in rows if (match := _PTX_FILE.match(row))}
    line: int | None = None
    inside = False
    begins = within = False
    for row in rows:
        if _ASSEMBLY.search(row):
            # LLVM counts the lines of the source on with those of the assembly.
            begins = within = "begin" in row
        code = row.partition("//")[0]
        if code.strip() in "{}":
            inside = code.strip() == "{" if code.strip() else inside
        if place := _PTX_PLACE.match(code):
            inside = True
            if begins or not within:
                line = _own(files.get(place[1], ""), int(place[2]))
            begins = False
        elif inside and (match := _PTX.match(code)):
            yield Instruction(line, " ".join(match[1].split()))


def _own(file: str, line: int) -> int | None:
    return line if file.endswith(FILE_NAME) else None
