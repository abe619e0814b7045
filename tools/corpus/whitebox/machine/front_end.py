"""Kernels whose text says one thing to Python and another to Triton's compiler, right as the former only.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_RELU = "relu_affine"
_TOP = "\n\n@triton.jit"
_MASK = "    mask = i < n\n"
_RESULT = "tl.maximum(x, 0.0) * w + b"
_SCALED = f"({_RESULT}) * scale"
_HALF = "\n\n@triton.jit\ndef lower(v):\n    if v > 7:\n        return -1\n    return -3"

_FACTOR = "@triton.constexpr_function\ndef factor(n):\n    return n * {}"
_ANEW = f"""

{_FACTOR.format(1.0)}


def other(n):
    return n * 2.0


factor = triton.constexpr_function(other)"""
_BRANCHES = """

if True:
    {}
else:
    {}"""


def _of(name: str, *edits: tuple[str, str], code: str | None = "compiled_differs") -> Fixture:
    return Fixture(f"x-{name}", _RELU, edited(honest_kernel(_RELU), *edits), code=code)


def _scaled(
    name: str, *lines: str, above: str = "", code: str | None = "compiled_differs"
) -> Fixture:
    """The result times a number of the lines' making, 1.0 to Python."""
    added = _MASK + "".join(f"    {line}\n" for line in lines)
    edits = [(_MASK, added), (_RESULT, _SCALED)]
    return _of(name, *([(_TOP, above + _TOP)] if above else []), *edits, code=code)


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        _scaled(
            "doubles-in-the-else-of-an-unrolled-loop",
            "scale = 0.5",
            "for _ in tl.static_range(2):",
            "    scale = scale * 1.0",
            "else:",
            "    scale = scale * 2.0",
        ),
        # Here the interpreter reads the text as the compiler does.
        _scaled("divides-a-named-number", "scale = 2.0 + ((low := -1) // 2)", code="wrong_output"),
        _scaled(
            "halves-what-a-helper-returns", "scale = 2.0 + (lower(width + n) // 2)", above=_HALF
        ),
        _scaled(
            "divides-numbers-of-a-tuple",
            "low, high = -1, 2",
            "scale = 2.0 + (low // high)",
            code="wrong_output",
        ),
        _scaled(
            "binds-a-function-of-constants-anew",
            "scale = factor(1)",
            above=_ANEW,
            code="unverifiable",
        ),
        _scaled(
            "binds-a-helper-to-a-function-of-triton-s",
            "scale = act(tl.full((), 1.0, tl.float32))",
            above="\n\n@triton.jit\ndef act(v):\n    return v * 1.0\n\n\nact = tl.exp",
            code="wrong_output",
        ),
        _scaled(
            "doubles-by-a-function-of-constants-in-a-branch",
            "scale = factor(1)",
            above=_BRANCHES.format(
                *(_FACTOR.format(by).replace("\n", "\n    ") for by in (2.0, 1.0))
            ),
            code="compile_error",
        ),
    ),
}
TWINS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        _scaled(
            "calls-the-helper-of-its-branch",
            "scale = factor(1.0)",
            above=_BRANCHES.format(
                *(
                    f"@triton.jit\n    def factor(n):\n        return {value}"
                    for value in ("n * 1.0", "tl.math.of_an_older_triton(n)")
                )
            ),
            code=None,
        ),
        _scaled(
            "scales-in-an-unrolled-loop",
            "scale = 0.25",
            "for _ in tl.static_range(2):",
            "    scale = scale * 2.0",
            code=None,
        ),
        _scaled(
            "divides-tensors-of-a-type",
            "low = tl.full((), -1, tl.int32)",
            "scale = 1.0 + (low // 2)",
            code=None,
        ),
        _scaled(
            "swaps-numbers-of-a-tuple",
            "low, high = 1, 2",
            "low, high = high, low",
            "scale = 0.5 * (low // high)",
            code=None,
        ),
    ),
}
