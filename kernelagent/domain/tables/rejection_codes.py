"""All rejection codes with their texts; the troubleshooting page and lessons read this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RejectionCode:
    """One code, in the words of the page on troubleshooting."""

    name: str
    seen: str
    """What was seen."""
    remedy: str
    """What usually mends it."""
    teaches: bool = False
    """Whether the message is useful for later candidates too (that of `wrong_output` is not)."""
    of_values: bool = False
    """Whether the answer was compared and its values are wrong."""
    of_the_place: bool = False
    """Whether the message names a place in the candidate's code; numbers are removed from its lesson."""


REJECTION_CODES = (
    RejectionCode(
        "no_candidate",
        "no code block with `class ModelNew`",
        "answer with one whole file in one block",
    ),
    RejectionCode(
        "syntax_error",
        "Python cannot read the file",
        "the line is named; often a reply cut off by a limit: raise the model's",
    ),
    RejectionCode(
        "import_error",
        "importing the file failed",
        "import torch, triton and the standard library only",
        teaches=True,
    ),
    RejectionCode(
        "missing_entry_point",
        "no `nn.Module` called `ModelNew` at the top of the file",
        "define it there",
    ),
    RejectionCode(
        "init_error", "its constructor failed", "take the original's arguments", teaches=True
    ),
    RejectionCode(
        "state_mismatch",
        "its `state_dict` is not the original's",
        "same names, shapes and types of parameters and buffers",
        teaches=True,
    ),
    RejectionCode("compile_error", "triton refuses a kernel", "the line is named", teaches=True),
    RejectionCode(
        "out_of_resources",
        "too much shared memory, too many threads, a grid that is too large",
        "smaller blocks, fewer stages",
        teaches=True,
        of_the_place=True,
    ),
    RejectionCode(
        "runtime_error",
        "the forward raised",
        "the traceback is in the evidence",
        teaches=True,
        of_the_place=True,
    ),
    RejectionCode("crash", "its process died", "a bad pointer; `exit` in the code"),
    RejectionCode(
        "timeout", "no answer in time", "a loop without end; too many programs", teaches=True
    ),
    RejectionCode("out_of_memory", "more memory than allowed", "no full copies of large inputs"),
    RejectionCode("output_flood", "too much printed", "no printing in the forward"),
    RejectionCode(
        "out_of_bounds",
        "a load or store outside its tensor (`virtual`)",
        "a mask",
        teaches=True,
        of_the_place=True,
    ),
    RejectionCode(
        "data_race",
        "two programs of a launch write the same place differently, or one reads what another writes (`virtual`)",
        "one program for each output, or atomics",
        teaches=True,
        of_the_place=True,
    ),
    RejectionCode(
        "compiled_differs",
        "Triton's compiler reads a kernel otherwise than Python does, so that a GPU stores something else (`virtual`)",
        "write the line so that both agree: no `:=`, no assignment in a loop's `else`, types said from the start",
        teaches=True,
        of_the_place=True,
    ),
    RejectionCode(
        "wrong_output",
        "further from the float64 reference than the budget, or refused by `--check`",
        "the first mismatch and its pattern are shown; accumulate in float32",
        of_values=True,
    ),
    RejectionCode("wrong_shape", "another shape", "as the original", teaches=True),
    RejectionCode("wrong_dtype", "another type", "cast at the store", teaches=True),
    RejectionCode("wrong_device", "an output elsewhere", "allocate like the input"),
    RejectionCode(
        "wrong_structure",
        "another nesting of outputs, or something that is no plain tensor",
        "as the original",
        teaches=True,
    ),
    RejectionCode(
        "nonfinite",
        "NaN or infinity where the reference has none",
        "elements never written; an `exp` without its maximum subtracted",
        of_values=True,
    ),
    RejectionCode(
        "insensitive",
        "the answer does not move when an input or a weight does",
        "read it",
        teaches=True,
    ),
    RejectionCode("input_mutated", "an input was changed", "write to new memory", teaches=True),
    RejectionCode(
        "output_aliased",
        "two outputs share memory, or an old output changes",
        "allocate in each call",
        teaches=True,
    ),
    RejectionCode(
        "state_not_updated",
        "buffers end otherwise than the reference's",
        "update them, running statistics for example",
    ),
    RejectionCode(
        "stale_output",
        "an earlier answer came again",
        "nothing may be kept from call to call",
        teaches=True,
    ),
    RejectionCode(
        "no_kernel",
        "some call launched no Triton kernel",
        "launch one in every call; or `--policy any`",
        teaches=True,
    ),
    RejectionCode(
        "kernel_not_contributing",
        "with its kernels' results poisoned the answer stays right, or their share is below `--policy`",
        "let the kernels do the work",
        teaches=True,
    ),
    RejectionCode(
        "calls_reference",
        "it looks for the original, or compiles",
        "write the computation",
        teaches=True,
    ),
    RejectionCode(
        "tampering",
        "functions, settings or threads were left changed",
        "leave torch and the interpreter alone",
        teaches=True,
    ),
    RejectionCode(
        "forbidden_access",
        "network, files or programs out of its reach",
        "none is needed",
        teaches=True,
    ),
    RejectionCode(
        "inconsistent_timing",
        "calls cannot be timed, or take longer when each input depends on the answer before (`cuda`)",
        "the work must be done in the call that asks for it",
    ),
    RejectionCode(
        "implausible_speed",
        "faster than the device can move its bytes (`cuda`)",
        "work was skipped",
    ),
    RejectionCode(
        "repeated",
        "a candidate that was tried before; today such a turn is void, and the sentence begins with this word",
        "something else",
    ),
    RejectionCode(
        "unverifiable",
        "a check could not be made",
        "the sentence says which; often inputs of another form help",
    ),
)
CODES = frozenset(code.name for code in REJECTION_CODES)
TEACHING = frozenset(code.name for code in REJECTION_CODES if code.teaches)
OF_VALUES = frozenset(code.name for code in REJECTION_CODES if code.of_values)
LOCATION_SPECIFIC = frozenset(code.name for code in REJECTION_CODES if code.of_the_place)


def page_rows() -> str:
    """The table's rows on the page, in Markdown."""
    return "\n".join(f"| `{code.name}` | {code.seen} | {code.remedy} |" for code in REJECTION_CODES)
