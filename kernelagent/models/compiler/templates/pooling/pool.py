"""Poolings whose windows overlap, as sites: which tile is loaded, and what that costs."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.templates import Context, Namer, Printed
from kernelagent.models.compiler.templates.layouts import Layout, Layouts, stands_in_order
from kernelagent.models.compiler.templates.pooling.pool_source import Axis, Source
from kernelagent.models.compiler.templates.pooling.pooled import Call, pool_of

KIND = "pooling"
_TILES = ((1, 512), (1, 1024), (2, 512), (4, 512), (8, 128), (8, 256), (16, 64), (16, 128), (32, 64), (32, 128))  # fmt: skip
_PLAIN = Axis(1, 1, 0, 1)


class Poolings:
    """The template; see `templates.Template`."""

    def sites(self, context: Context) -> Iterator[PoolingSite]:
        """Each pooling of a tensor whose elements stand one after another."""
        layouts = Layouts(context.captured, context.program)
        found = 0
        for at, step in enumerate(context.program.steps):
            call = pool_of(step)
            x = None if call is None else layouts.of(call.x)
            out = None if call is None else layouts.of(ast.Name(call.out, ast.Load()))
            if call is None or x is None or out is None:
                continue
            if not all(stands_in_order(one, context.sizes, context.what) for one in (x, out)):
                continue
            made = _site(found, at, call, x, out, context)
            if made is not None:
                found += 1
                yield made


def _site(
    count: int, at: int, call: Call, x: Layout, out: Layout, context: Context
) -> PoolingSite | None:
    axes = [Axis(*row) for row in zip(call.window, call.stride, call.padding, call.dilation, strict=True)]  # fmt: skip
    while len(axes) > 1 and axes[0] == _PLAIN:
        axes = axes[1:]
    # Along one axis alone, rows of all images are one image.
    deep = axes[0] if len(axes) == 3 else None
    down, along = ([_PLAIN, *axes] if len(axes) == 1 else axes)[-2:]
    source = Source(call.kind, down, along, deep, call.divisor)
    sizes = context.sizes[0]
    places = [number(n, sizes, context.what) for n in out.shape]
    inputs = [number(n, sizes, context.what) for n in x.shape]
    high = math.prod(places[:-1]) if len(axes) == 1 else places[-2]
    wide, planes = places[-1], math.prod(places) // (high * places[-1])
    best: tuple[float, Config] | None = None
    for tile in _TILES:
        config = Config({"TILE_H": tile[0], "TILE_W": tile[1]}, 8 if math.prod(tile) > 2048 else 4)
        rows, cols = source.outputs(config)
        if rows < 1 or cols < 1:
            continue
        tiles = planes * -(-high // rows) * -(-wide // cols)
        loaded = tiles * math.prod(tile) * (1 if deep is None else deep.window)
        if best is None or loaded < best[0]:
            best = loaded, config
    if best is None:
        return None
    item, gpu = (4 if x.dtype.endswith("float32") else 2), context.gpu
    made = math.prod(places)
    near = item * (best[0] + made) / gpu.l2_bytes_per_s
    far = item * (math.prod(inputs) + made) / (gpu.dram_bytes_per_s * gpu.dram_efficiency)
    us = gpu.launch_us + 1e6 * max(near, far)
    return PoolingSite(count, at, call, x, out, source, best[1], us, len(axes))


@dataclass(frozen=True)
class PoolingSite:
    """One pooling."""

    number: int
    at: int
    call: Call
    x: Layout
    out: Layout
    source: Source
    config: Config
    us: float
    axes: int
    """Axes that are pooled."""

    @property
    def key(self) -> str:
        return f"{KIND} {self.number}"

    @property
    def steps(self) -> frozenset[int]:
        return frozenset({self.at})

    @property
    def begins(self) -> int:
        return self.at

    @property
    def tensors(self) -> frozenset[str]:
        return frozenset({self.x.storage, self.out.storage})

    @property
    def pays(self) -> bool:
        """Its like was chosen when the module was traced: windows that overlap."""
        return True

    @property
    def has_library_form(self) -> bool:
        return True

    @property
    def options(self) -> Mapping[str, bool]:
        return {}

    @property
    def words(self) -> str:
        kind = "maxima" if self.call.kind == "max" else "averages"
        window = " × ".join(map(str, self.call.window))
        return f"the {kind} over windows of {window} from tiles that are read once (estimate: {self.us:.0f} µs)"

    def allocated(self, namer: Namer) -> list[str]:
        shape = ", ".join(namer.host(size) for size in self.out.shape)
        out = namer.host(ast.Name(self.call.out, ast.Load()))
        return [f"{out} = torch.empty(({shape}), dtype={self.out.dtype}, device=device)"]

    def printed(self, namer: Namer) -> Printed:
        wanted = f"{self.call.kind}_pool{self.axes}d"
        name = namer.kernel(f"{self.source}{self.config}", wanted)
        config = namer.chosen(name) or self.config
        launch = self._launch(name, config, namer)
        kernels = {name: self.source.kernel(name, config)}
        return Printed(name, kernels, launch, config, KIND, (), False)

    def _launch(self, name: str, config: Config, namer: Namer) -> list[str]:
        before, after = ([namer.host(n) for n in one.shape] for one in (self.x, self.out))
        high, wide = self.source.outputs(config)
        if self.axes == 1:
            planes, rows = "1", _product(after[:-1])
            sizes = [rows, before[-1], rows, after[-1]]
        else:
            planes, rows = _product(after[:-2]), after[-2]
            sizes = [*before[-2:], *after[-2:]]
            sizes = [before[-3], after[-3], *sizes] if self.axes == 3 else sizes
        grid = f"triton.cdiv({rows}, {high}) * triton.cdiv({after[-1]}, {wide})"
        grid = grid if planes == "1" else f"{planes} * {grid}"
        given = [namer.host(self.call.x), namer.host(ast.Name(self.call.out, ast.Load())), *sizes]
        given += [f"{block}={size}" for block, size in config.blocks.items()]
        given += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
        return [f"{name}[({grid},)]({', '.join(given)})"]


def _product(texts: Sequence[str]) -> str:
    factors = [text if text.isidentifier() or text.isdigit() else f"({text})" for text in texts]
    return " * ".join(f for f in factors if f != "1") or "1"
