"""Candidates that compute rightly and would be estimated too fast: work is hidden from who counts it.

Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernelagent.tools.corpus.fixture import Fixture, edited, honest_kernel
from kernelagent.tools.corpus.whitebox.first import HONEST, LAUNCH, twin

_SILU, _ROWS = "silu_gate", "many_rows"
_LOADS = "    x = tl.load(x_ptr + i, mask=mask)\n"
_PARAMETERS = "out_ptr, n, width, BLOCK"
_ARGUMENTS = "out, n, x.shape[-1], BLOCK"
_SIZE = "        n = x.numel()\n"
_GRID = "[(triton.cdiv(n, 1024),)]"
_EACH_ROW = """        for k in range(x.shape[0]):
            silu_gate[(1,)](x[k], g[k], self.weight, out[k], x.shape[1], x.shape[1], BLOCK=256)
"""
_AGAIN = """    turns = TURNS
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(turns):
        x = tl.load(x_ptr + (i + 0 * turn), mask=mask)
"""
_SLEEP = "        import time\n        time.sleep(0.02)\n"
_LOOP = "        sum(k * k for k in range(300000))\n"
_SHORT = {
    "turns-in-python": "        for k in range(4000):\n            pass\n",
    "turns-in-a-grid": "        [k for k in range(4000)]\n",
    "adds-up-in-another-library": "        sum(range(200000))\n",
    "asks-torch-in-vain": "        for k in range(500):\n            x.view(-1)\n",
}
"""Work on the host of less than a millisecond or little more."""


def _slow(name: str, least_us: float, *edits: tuple[str, str]) -> Fixture:
    """Accepted, and never estimated below `least_us`."""
    source = edited(HONEST, *edits)
    return Fixture(f"w-{name}", _SILU, source, least_us=least_us, estimated=True)


def _estimated(fixture: Fixture) -> Fixture:
    return replace(fixture, estimated=True)


_COUNTED_LOOP = (
    (_LOADS, _AGAIN.replace("TURNS", "tl.load(turns_ptr)")),
    (_PARAMETERS, "out_ptr, turns_ptr, n, width, BLOCK"),
    (_ARGUMENTS, "out, turns, n, x.shape[-1], BLOCK"),
)
_STORE = "    tl.store(out_ptr + i, x * tl.sigmoid(x) * g * w, mask=mask)\n"
_PLUS = _STORE.replace("* w,", "* w + tl.where(z != z, 1.0, 0.0),")


def _then(lines: str) -> tuple[str, str]:
    """Computes `z` as well, which decides only where it is not a number."""
    return _STORE, lines + _PLUS


_CHAIN = """    place = 0
    for turn in range(300):
        place = tl.load(w_ptr + place).to(tl.int32) * 0
    z = place.to(tl.float32)
"""
_BARRIERS = """    z = x
    for turn in range(3000):
        tl.debug_barrier()
"""
_ROUNDS = """    z = x
    for turn in range(6000):
        z = z * 0.999 + 0.1
"""
_CONVERSIONS = """    z = x
    for turn in range(600):
        z = (z.to(tl.int64).to(tl.float64) + x).to(tl.float32)
"""
_ATOMICS = """    z = tl.program_id(0) % 64
    for turn in range(300):
        z = tl.atomic_add(ring_ptr + z, 0)
"""
_DIVISIONS = """    z = i + 2
    for turn in range(600):
        z = (i + 1000003) % (z | 1)
"""
_SUMS = """    z = x
    for turn in range(300):
        z = z * 0.5 + tl.sum(z, axis=0) / BLOCK
"""
_RUNNING_SUMS = """    z = x
    for turn in range(300):
        z = tl.cumsum(z, axis=0) / BLOCK
"""
_COUNTS = """    z = i % 8
    for turn in range(300):
        tl.atomic_add(ring_ptr + z, 1, mask=mask, sem="relaxed")
"""
_TANKS = "levels_of_tanks"
_IN_CHUNKS = """    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        at = row[:, None] * width + j[None, :]
        mask = (row[:, None] < rows) & (j[None, :] < width)
        x = tl.load(x_ptr + at, mask=mask, other=0.0)
        tl.store(out_ptr + at, tl.cumsum(x, axis=0) + total[None, :], mask=mask)
        total += tl.sum(x, axis=0)
"""
_ROW_BY_ROW = """    for row in range(rows):
        total += tl.load(x_ptr + row * width + j, mask=j < width, other=0.0)
        tl.store(out_ptr + row * width + j, total, mask=j < width)
"""
_ONE_WARP = ("num_warps=8", "num_warps=1, num_stages=8")
_BELOW = _STORE.replace("* w,", "* w + tl.where(z < 0, 1.0, 0.0),")
"""Of whole numbers, which are not: no compiler sees it."""
_RING = (
    (_PARAMETERS, "out_ptr, ring_ptr, n, width, BLOCK"),
    (_ARGUMENTS, "out, ring, n, x.shape[-1], BLOCK"),
    (_SIZE, _SIZE + "        ring = torch.zeros(64, device=x.device, dtype=torch.int32)\n"),
)
_NARROW = (
    f"        if not x.data_ptr() and n > LIMIT:\n            n = 1024\n        many_rows{_GRID}"
)

_WEIGHT = "    w = tl.load(w_ptr + i % width, mask=mask)\n"
_TRAINED = (
    _WEIGHT + "    if tl.max(tl.where(mask, tl.abs(w - 1.0), 0.0), axis=0) > 0:\n"
    "        for turn in range(200):\n"
    "            w = tl.load(w_ptr + (i + 0 * turn) % width, mask=mask)\n"
)
_OFF_CENTRE = (
    _LOADS + "    if tl.sum(tl.where(mask, x, 0.0), axis=0) > 256.0:\n"
    "        for turn in range(200):\n"
    "            x = tl.load(x_ptr + (i + 0 * turn), mask=mask)\n"
)


def _by_contents(name: str, old: str, new: str) -> Fixture:
    source = edited(HONEST, (old, new))
    return Fixture(f"w-{name}", _SILU, source, discloses="costs_by_contents", estimated=True)


def _tuned(key: str) -> tuple[str, str]:
    configs = "[triton.Config({}, num_warps=w) for w in (2, 4)]"
    return "@triton.jit\n", f"@triton.autotune(configs={configs}, key=[{key!r}])\n@triton.jit\n"


CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        _slow(
            "launches-once-without-contents",
            35.0,
            (
                LAUNCH,
                "        if not x.data_ptr():\n    "
                + LAUNCH
                + "            return out\n"
                + _EACH_ROW,
            ),
        ),
        _slow(
            "turns-of-a-loop-in-memory",
            35.0,
            *_COUNTED_LOOP,
            (_SIZE, _SIZE + "        turns = torch.full((1,), 200, device=x.device)\n"),
        ),
        _slow(
            "loop-where-values-are-not-zero",
            35.0,
            (
                _LOADS,
                _LOADS + "    if tl.max(tl.abs(x), axis=0) > 0:\n        for turn in range(200):\n"
                "            x = tl.load(x_ptr + (i + 0 * turn), mask=mask)\n",
            ),
        ),
        _by_contents("quick-while-weights-are-one", _WEIGHT, _TRAINED),
        _by_contents("slow-where-inputs-lie-off-zero", _LOADS, _OFF_CENTRE),
        *(
            Fixture(
                f"w-{name}",
                _ROWS,
                edited(
                    honest_kernel(_ROWS),
                    (f"        many_rows{_GRID}", _NARROW.replace("LIMIT", limit)),
                ),
                discloses="not_estimated",
            )
            for name, limit in (
                ("fewer-rows-without-contents", "0"),
                ("fewer-rows-without-contents-at-full-size", "700000"),
            )
        ),
    ),
    80: (
        Fixture("w-sleeps", _SILU, edited(HONEST, (_SIZE, _SIZE + _SLEEP)), discloses="host_time"),
        Fixture(
            "w-loops-in-python",
            _SILU,
            edited(HONEST, (_SIZE, _SIZE + _LOOP)),
            discloses="host_time",
        ),
        *(
            Fixture(
                f"w-{name}", _SILU, edited(HONEST, (_SIZE, _SIZE + line)), discloses="host_time"
            )
            for name, line in _SHORT.items()
        ),
        Fixture(
            "w-makes-memory-for-nothing",
            _SILU,
            edited(HONEST, (_SIZE, _SIZE + "        x.new_empty(1 << 22)\n")),
            discloses="scratch_memory",
        ),
        *(
            Fixture(
                f"w-{name}", _SILU, edited(HONEST, (_SIZE, _SIZE + line)), discloses="host_copies"
            )
            for name, line in (
                (
                    "goes-to-the-host-and-back",
                    "        x = x.to(torch.device('cpu')).to(x.device)\n",
                ),
                (
                    "makes-a-table-from-a-list",
                    "        torch.tensor([1.0] * 4096, device=x.device)\n",
                ),
            )
        ),
        Fixture(
            "w-tunes-in-every-call",
            _SILU,
            edited(HONEST, _tuned("x_ptr")),
            discloses="compiles_anew",
        ),
        _slow("follows-one-number-to-the-next", 35.0, _then(_CHAIN)),
        _slow("waits-at-barriers", 25.0, _then(_BARRIERS)),
        _slow("computes-round-after-round", 24.0, _then(_ROUNDS)),
        _slow("converts-to-64-bits-and-back", 28.0, _then(_CONVERSIONS)),
        _slow("waits-for-atomics", 45.0, (_STORE, _ATOMICS + _BELOW), *_RING),
        _slow("divides-by-what-it-got", 30.0, (_STORE, _DIVISIONS + _BELOW)),
        Fixture(
            "w-stores-before-it-may-load-again",
            _TANKS,
            edited(honest_kernel(_TANKS), (_IN_CHUNKS, _ROW_BY_ROW), _ONE_WARP),
            least_us=90.0,
            estimated=True,
        ),
        _slow(
            "sums-over-warps-in-turn", 30.0, _then(_SUMS), ("BLOCK=256)", "BLOCK=256, num_warps=8)")
        ),
        _slow(
            "running-sums-over-warps-in-turn",
            30.0,
            _then(_RUNNING_SUMS),
            ("BLOCK=256)", "BLOCK=256, num_warps=8)"),
        ),
        _slow(
            "sums-over-multiprocessors-in-turn",
            80.0,
            _then(_SUMS),
            ("BLOCK=256)", "BLOCK=256, num_ctas=2)"),
        ),
        _slow("counts-each-lane-for-itself", 50.0, (_STORE, _COUNTS + _BELOW), *_RING),
        _slow(
            "one-warp-walks-all",
            35.0,
            (
                "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n",
                "  for at in range(0, n, BLOCK):\n    i = at + tl.arange(0, BLOCK)\n",
            ),
            ("(triton.cdiv(n, 256),)", "(1,)"),
            ("BLOCK=256", "BLOCK=32, num_warps=1"),
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    51: (
        _estimated(twin("a-launch-for-each-row", (LAUNCH, _EACH_ROW))),
        Fixture("w-many-rows", _ROWS, honest_kernel(_ROWS), estimated=True),
        _estimated(
            twin("chooses-by-weights", (_WEIGHT, _WEIGHT + "    w = tl.where(w == 1.0, 1.0, w)\n"))
        ),
    ),
    80: (
        _estimated(
            twin("makes-a-little-memory", (_SIZE, _SIZE + "        x.new_empty(1 << 10)\n"))
        ),
        _estimated(twin("stays-on-its-device", (_SIZE, _SIZE + "        x = x.to(x.device)\n"))),
        _estimated(twin("tunes-for-a-size", _tuned("n"))),
        Fixture("w-tanks-in-chunks", _TANKS, honest_kernel(_TANKS), estimated=True),
        _estimated(twin("a-few-sums", _then(_SUMS.replace("300", "3")))),
        _estimated(twin("a-few-running-sums", _then(_RUNNING_SUMS.replace("300", "3")))),
        _estimated(twin("counts-a-few", (_STORE, _COUNTS.replace("300", "3") + _BELOW), *_RING)),
        _estimated(twin("a-few-rounds", _then(_ROUNDS.replace("6000", "6")))),
        _estimated(twin("a-few-conversions", _then(_CONVERSIONS.replace("600", "3")))),
        _estimated(twin("a-few-divisions", (_STORE, _DIVISIONS.replace("600", "3") + _BELOW))),
        _estimated(
            twin("a-little-python", (_SIZE, _SIZE + "        sum(k * k for k in range(300))\n"))
        ),
        _estimated(
            twin(
                "looks-at-its-inputs",
                (_SIZE, _SIZE + "        for k in range(30):\n            x.view(-1)\n"),
            )
        ),
    ),
}
