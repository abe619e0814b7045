"""Every tool that a writer may call beside its turns: what it is for, and what it takes.

The one place for all writers: the functions that are offered to a model behind an API, the tools of the MCP
server, the blocks of a plain reply and the checks of a call's arguments are made from `TOOLS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kernelagent.domain.replies.tool_calls import ToolCall

Kind = Literal["string", "integer", "object"]
_PYTHON: dict[Kind, type] = {"string": str, "integer": int, "object": dict}
CHECK, PROBE, REFERENCE = "check", "probe", "reference"
ASM, SWEEP, BENCH, PATTERNS = "asm", "sweep", "bench", "patterns"
MOST_CONFIGURATIONS = 24
"""Of one sweep."""


@dataclass(frozen=True)
class Argument:
    """One argument of a tool."""

    name: str
    description: str
    kind: Kind = "string"
    required: bool = False

    @property
    def python(self) -> type:
        return _PYTHON[self.kind]


_CODE = Argument("code", "The complete Python file that defines ModelNew.", required=True)
_INPUT_SET = Argument("input_set", "Name of the input set; default: the first.")


@dataclass(frozen=True)
class Tool:
    """One tool; its arguments in the order in which they are told."""

    name: str
    description: str
    arguments: tuple[Argument, ...] = ()
    needs_gpu: bool = False
    """It is not offered on `virtual`; called all the same, it says so."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {
                a.name: {"type": a.kind, "description": a.description} for a in self.arguments
            },
            "required": [a.name for a in self.arguments if a.required],
            "additionalProperties": False,
        }

    @property
    def takes_code(self) -> bool:
        return any(argument.name == "code" for argument in self.arguments)


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            CHECK,
            "Compile a candidate and count its traffic at the user's sizes, in seconds: registers, spills, "
            "shared memory, occupancy, waves and the estimated time. Nothing is verified.",
            (_CODE,),
        ),
        Tool(
            PROBE,
            "Run a candidate once on one input set and compare it with the reference: what differs, where, by "
            "how much, and what is allowed. One comparison, under --train of one backward's gradients too; a turn "
            "makes many more.",
            (_CODE, _INPUT_SET),
        ),
        Tool(
            REFERENCE,
            "Statistics of what the reference computes on one input set: shape, strides, range, mean and "
            "spread of the outputs of one of its submodules, or of the whole module.",
            (
                Argument(
                    "submodule", "Path of the submodule, such as `layers.0.norm`; default: all."
                ),
                _INPUT_SET,
            ),
        ),
        Tool(
            ASM,
            "The machine code of a candidate's kernel at the user's sizes: instructions by source line, the "
            "commonest ones, and those of one line with what stands around them.",
            (
                _CODE,
                Argument("kernel", "Name of the kernel; default: the first that is launched."),
                Argument("line", "The line of the file whose instructions are shown.", "integer"),
                Argument("form", "sass (default) or ptx."),
            ),
        ),
        Tool(
            SWEEP,
            "Rank one file in many configurations, estimated (or, on a GPU, timed) in one call: block sizes, "
            "num_warps, num_stages. Each name is a constant of the file, such as `BLOCK = 64`, or a keyword "
            "with a number at a launch, of one kernel alone as `kernel.num_warps`; what decides the grid as well must be a constant that the grid is computed "
            f"with. At most {MOST_CONFIGURATIONS} at once; each takes some seconds of those there are for tools. Nothing is "
            "verified.",
            (
                _CODE,
                Argument(
                    "axes",
                    'Values by name, every combination of which is tried: {"BLOCK": [64, 128], '
                    '"num_warps": [4, 8]}; in a block `BLOCK=64,128 num_warps=4,8`.',
                    "object",
                    required=True,
                ),
            ),
        ),
        Tool(
            PATTERNS,
            "The built-in policy's library of kernels: without a name the list, with one the whole file.",
            (Argument("name", "Which kernel, as the list has it."),),
        ),
        Tool(
            BENCH,
            "Time a file on the GPU without verifying it, whatever it computes: as called against eager, and "
            "by kernel.",
            (_CODE,),
            needs_gpu=True,
        ),
    )
}


def offered_on(device: str) -> tuple[Tool, ...]:
    """The tools for a device of this kind, `cuda` or `virtual`."""
    return tuple(tool for tool in TOOLS.values() if device == "cuda" or not tool.needs_gpu)


def unfit(call: ToolCall) -> str | None:
    """A sentence for the writer where no tool takes this call; None: one does."""
    tool = TOOLS.get(call.tool)
    if tool is None:
        return f"there is no tool `{call.tool}`; there are {', '.join(TOOLS)}"
    if call.unread:
        return f"the arguments of `{call.tool}` cannot be read: {call.unread[:200]}"
    known = {argument.name: argument for argument in tool.arguments}
    unknown = [name for name in call.arguments if name not in known]
    if unknown:
        return (
            f"`{call.tool}` takes no {', '.join(unknown)}; it takes {', '.join(known) or 'nothing'}"
        )
    for name, argument in known.items():
        if name not in call.arguments:
            if argument.required:
                return f"`{call.tool}` needs {name}: {argument.description}"
        elif not _is(call.arguments[name], argument.kind):
            kind = {"string": "text", "integer": "a whole number", "object": "an object"}
            return f"{name} of `{call.tool}` must be {kind[argument.kind]}: {argument.description}"
    return None


def _is(value: Any, kind: Kind) -> bool:
    return isinstance(value, _PYTHON[kind]) and not isinstance(value, bool)
