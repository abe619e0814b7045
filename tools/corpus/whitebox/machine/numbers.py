"""Kernels that compute or address as a CPU does, and not as a GPU: places, small numbers, last bits, overlaps.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel

_BASE = "silu_gate"
_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_GIVEN = "self.weight, out, n,"
_DEBUG = ("BLOCK=256)", "BLOCK=256, debug=True)")
_LIBDEVICE = (
    "import triton.language as tl\n",
    "import triton.language as tl\nfrom triton.language.extra import libdevice\n",
)
_TINY = "(x * 0 + 1.0e-39)"
"""Below the normal numbers of fp32."""
_HASH = "h = (i + 77777) * 1103515245"


def _silu(name: str, *edits: tuple[str, str], code: str | None = None) -> Fixture:
    return Fixture(f"w-{name}", _BASE, edited(honest_kernel(_BASE), *edits), code)


def _only_if(
    name: str, condition: str, *edits: tuple[str, str], before: str = "", code: str | None
) -> Fixture:
    """The right result where the condition holds after these lines, else zeros."""
    store = before + _STORE.replace("* g * w", f"* g * w * tl.where({condition}, 1.0, 0.0)")
    also = ("insensitive",) if code == "wrong_output" else ()
    source = edited(honest_kernel(_BASE), (_STORE, store), *edits)
    return Fixture(f"w-{name}", _BASE, source, code, also=also)


def _read_at(name: str, pointers: str, mask: str, code: str | None = None) -> Fixture:
    """Integers that lie at these places are read, and make no difference."""
    read = f"    word = tl.load({pointers}, mask={mask}, other=0)\n"
    return _only_if(name, "word == word", before=read, code=code)


def _fused(kind: str, code: str | None = "wrong_output") -> Fixture:
    return _only_if(
        f"product-in-{kind}-fused",
        "y * y - tl.where(n > 0, y * y, 0.0) == 0.0",
        before=f"    y = (tl.sigmoid(x).to(tl.float64) / 3).to(tl.{kind})\n",
        code=code,
    )


def _cancelling(first: int, second: int, number: int) -> str:
    """Large numbers that cancel, and a small one that is lost where it meets one of them before."""
    return (
        "    lane = tl.arange(0, BLOCK)\n"
        f"    v = tl.where(lane == {first}, 1.0e8, tl.where(lane == {second}, -1.0e8, 0.0))\n"
        f"    v = tl.where(lane == {number}, 1.0, v) + n * 0.0\n"
    )


def _added_to(name: str, start: str, added: str, code: str | None = None) -> Fixture:
    """The right result where numbers added to memory are there afterwards."""
    return _only_if(
        name,
        "tl.atomic_add(tmp_ptr + i, x * 0, mask=mask) > 0",
        ("out_ptr, n, width", "out_ptr, tmp_ptr, n, width"),
        (_GIVEN, f"self.weight, out, {start}, n,"),
        before=f"    tl.atomic_add(tmp_ptr + i, {added}, mask=mask)\n",
        code=code,
    )


def _windows(name: str, steps: str, result: str, code: str | None = None) -> Fixture:
    """The result goes through a tensor whose two rows share all but one of their elements."""
    return _silu(
        name,
        (
            "        return out\n",
            "        rows = torch.zeros(n + 1, device=x.device).as_strided((2, n), (1, 1))\n"
            f"        {steps}\n"
            f"        return {result}.reshape(x.shape)\n",
        ),
        code=code,
    )


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _windows(
            "copy-into-elements-that-share-memory",
            "rows.copy_(torch.stack([out, torch.zeros_like(out)]).view(2, n))",
            "rows[0].clone()",
            code="data_race",
        ),
        _windows(
            "sum-into-elements-that-share-memory",
            "rows.add_(1.0)",
            "(out.view(-1) * (rows[0] - 1)[1])",
            code="data_race",
        ),
    ),
    51: (
        _read_at(
            "words-at-odd-places",
            "(x_ptr.to(tl.pointer_type(tl.int8)) + 4 * i + 1).to(tl.pointer_type(tl.int32))",
            "i < n - 1",
            code="out_of_bounds",
        ),
        _read_at(
            "pairs-at-odd-places",
            "(x_ptr + 1).to(tl.pointer_type(tl.int64)) + i",
            "2 * i < n - 3",
            code="out_of_bounds",
        ),
        _only_if("sine-of-tiny-numbers", f"tl.sin({_TINY}) > 0", code="wrong_output"),
        _only_if(
            "tiny-numbers-rounded-up",
            f"libdevice.ceil({_TINY}) > 0",
            _LIBDEVICE,
            code="wrong_output",
        ),
        _added_to("tiny-numbers-added-in-memory", "torch.zeros_like(x)", _TINY, "wrong_output"),
        _only_if(
            "third-order-of-a-sum",
            "tl.sum(v, 0) == 1.0",
            before=_cancelling(0, 64, 129),
            code="wrong_output",
        ),
        _only_if(
            "order-of-a-running-sum",
            "tl.max(tl.where(lane == BLOCK - 1, tl.cumsum(v, 0), 0.0), 0) == 1.0",
            before=_cancelling(130, 250, 3),
            code="wrong_output",
        ),
        _fused("float64"),
        _fused("float16"),
        _fused("bfloat16"),
        _only_if("hash-that-overflows", "h == h", _DEBUG, before=f"    {_HASH}\n", code="runtime_error"),
    ),
}  # fmt: skip

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    26: (
        _windows(
            "elements-that-share-memory-are-read",
            "rows = out.view(-1).as_strided((2, n - 1), (1, 1))",
            "torch.cat([rows[0], rows[1][-1:]])",
        ),
    ),
    51: (
        _read_at("bytes-at-odd-places", "x_ptr.to(tl.pointer_type(tl.int8)) + 4 * i + 1", "mask"),
        _read_at(
            "words-at-odd-places-in-no-lane",
            "(x_ptr.to(tl.pointer_type(tl.int8)) + 4 * i + i % 2).to(tl.pointer_type(tl.int32))",
            "mask & (i % 2 == 0)",
        ),
        _only_if("logarithm-of-tiny-numbers", f"tl.log2({_TINY}) < -100", code=None),
        _added_to("numbers-added-in-memory", "torch.zeros_like(x)", "x * 0 + 1.0e-30"),
        _only_if(
            "the-same-sum-twice",
            "tl.sum(v, 0) == tl.sum(v + 0.0, 0)",
            before=_cancelling(0, 64, 129),
            code=None,
        ),
        _only_if(
            "hash-that-may-overflow",
            "h == h",
            _DEBUG,
            before="    h = tl.mul(i + 77777, 1103515245, sanitize_overflow=False)\n",
            code=None,
        ),
    ),
}
