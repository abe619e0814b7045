"""A compiled kernel as instructions with the source line of each: PTX as triton wrote it, SASS disassembled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernelagent.tools.virtual.compiled.compiling import Compiled
from kernelagent.tools.virtual.compiled.disassembling import printed_of
from kernelagent.tools.virtual.executor.source import FILE_NAME

Form = Literal["sass", "ptx"]
_SASS_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_PTX_PLACE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_PTX = re.compile(r"^\s*((?:@!?%\w+\s+)?[a-z][\w.]*[^;]*;)")


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    line: int | None
    """Of the candidate's file; None: of a library's function, or of no line."""
    text: str


def instructions(compiled: Compiled, form: Form) -> list[Instruction]:
    """All of a kernel, in their order; raises `EnvironmentFault` where the disassembler is missing."""
    return list(_of_ptx(compiled.ptx) if form == "ptx" else _of_sass(compiled.cubin))


def _of_sass(cubin: bytes) -> Iterator[Instruction]:
    line: int | None = None
    for row in printed_of(cubin).listing.splitlines():
        if place := _SASS_PLACE.match(row):
            line = _own(place[1], int(place[2]))
        elif (match := _SASS.match(row)) and match[1] != "NOP":
            yield Instruction(line, " ".join(match[1].split()))


def _of_ptx(ptx: str) -> Iterator[Instruction]:
    rows = ptx.splitlines()
    files = {match[1]: match[2] for row in rows if (match := _PTX_FILE.match(row))}
    line: int | None = None
    inside = False
    for row in rows:
        code = row.partition("//")[0]
        if code.strip() in "{}":
            inside = code.strip() == "{" if code.strip() else inside
        if place := _PTX_PLACE.match(code):
            inside, line = True, _own(files.get(place[1], ""), int(place[2]))
        elif inside and (match := _PTX.match(code)):
            yield Instruction(line, " ".join(match[1].split()))


def _own(file: str, line: int) -> int | None:
    return line if file.endswith(FILE_NAME) else None
