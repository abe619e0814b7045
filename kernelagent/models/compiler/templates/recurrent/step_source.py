"""The text of a kernel that does one step of every chain of a recurrence."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from kernelagent.models.compiler.choices import Config
from kernelagent.models.compiler.kernels.layout import folded

_SUMS = {
    "lstm": ("into", "forget", "new", "out"),
    "gru": ("reset", "update", "new"),
    "rnn_tanh": ("new",),
    "rnn_relu": ("new",),
}
"""What the gates' sums are called, in torch's order."""
NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
"""What torch calls the layers."""


@dataclass(frozen=True)
class Source:
    """What a kernel's text depends on."""

    kind: str
    both_ways: bool
    """Two chains are the directions of one layer; otherwise chains are layers on top of each other."""
    stacked: bool
    """Whether there is more than one layer."""
    biased: bool
    narrow: bool
    """Whether numbers have 16 bits."""

    @property
    def parameters(self) -> list[str]:
        """The kernel's tensors beside gates and states."""
        names = ["weight", "bias"] if self.biased else ["weight"]
        below = [f"{name}_below" for name in names] if self.stacked else []
        return [f"{name}_ptr" for name in (*names, *below)]

    def kernel(self, name: str, config: Config) -> str:
        """The definition."""
        given = [
            "gates_ptr",
            *(["back_ptr"] if self.both_ways else []),
            "states_ptr",
            *self.parameters,
            "step",
            "n_steps",
            "n_rows",
            "n_units",
        ]
        given += [
            "step_stride",
            "row_stride",
            *(f"{block}: tl.constexpr" for block in config.blocks),
        ]
        head = [_JIT, folded(f"def {name}({', '.join(given)}):")]
        text = folded("\n".join(self._body(config)))
        return "\n".join([*head, textwrap.indent(text, "    ")])

    @property
    def _sums(self) -> tuple[str, ...]:
        return _SUMS[self.kind]

    def _body(self, config: Config) -> list[str]:
        return [
            *self._where(),
            *self._begin(),
            "for start in range(0, n_units, BLOCK_K):",
            *(f"    {line}" for line in self._turn(config)),
            *self._end(),
        ]

    def _where(self) -> list[str]:
        slots = "n_steps + 2" if self.kind == "lstm" else "n_steps + 1"
        if self.both_ways:
            which = [
                "time = step",
                "given = step.to(tl.int64)",
                "# The second chain goes from the end to the beginning.",
                "given_back = (n_steps - 1 - step).to(tl.int64)",
            ]
        elif self.stacked:
            which = [
                "# A layer is a step behind the one below it, so that all do one at a time.",
                "time = step - chain",
                "given = time.to(tl.int64)",
                "active = (time >= 0) & (time < n_steps)",
            ]
        else:
            which = ["time = step", "given = step.to(tl.int64)"]
        lines = [
            "chain = tl.program_id(2)",
            *which,
            "row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]",
            "first_unit = tl.program_id(0) * BLOCK_N",
            "unit = first_unit + tl.arange(0, BLOCK_N)[None, :]",
            "row_mask = row < n_rows",
            "unit_mask = unit < n_units",
            f"mask = row_mask & unit_mask{' & active' if self.stacked else ''}",
            "# States are (chain, step, row, unit): those before the first step, then after each.",
            "size = n_rows * n_units",
            f"before = (chain * ({slots}) + time).to(tl.int64) * size",
        ]
        if self.stacked:
            lines.append(f"below = ((chain - 1) * ({slots}) + time + 1).to(tl.int64) * size")
        return lines

    def _begin(self) -> list[str]:
        """The inputs' part and the biases."""
        count = len(self._sums)
        lines = ["gate = gates_ptr + given * step_stride + row * row_stride + unit"]
        masks = {"gate": "mask"}
        if self.both_ways:
            lines.append("back = back_ptr + given_back * step_stride + row * row_stride + unit")
            lines += ["gate_mask = mask & (chain == 0)", "back_mask = mask & (chain == 1)"]
            masks = {"gate": "gate_mask", "back": "back_mask"}
        elif self.stacked:
            lines.append("gate_mask = mask & (chain == 0)")
            masks["gate"] = "gate_mask"
        if self.biased:
            lines.append(f"bias = bias_ptr + chain * {count} * n_units + unit")
            masks["bias"] = "unit_mask"
            if self.stacked:
                lines.append(
                    f"bias_below = bias_below_ptr + (chain - 1) * {count} * n_units + unit"
                )
                lines.append("below_mask = unit_mask & (chain > 0)")
                masks["bias_below"] = "below_mask"
        for at, name in enumerate(self._sums):
            apart = self.kind == "gru" and name == "new"
            if apart:
                lines.append("# The states' part of it is multiplied before the inputs' is added.")
                lines.append("new = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)")
            begun = {"new"} if apart else set[str]()
            for role, mask in masks.items():
                into = "fresh" if apart and role != "bias" else name
                sign = "+=" if into in begun else "="
                lines.append(f"{into} {sign} {self._load(_plus(role, at), mask)}")
                begun.add(into)
        return lines

    def _turn(self, config: Config) -> list[str]:
        """One part of the inner dimension: the states' products, and those with the layer below."""
        lines = [
            "inner = start + tl.arange(0, BLOCK_K)[None, :]",
            "rows_of_weight = first_unit + tl.arange(0, BLOCK_N)[:, None]",
            "inside = (rows_of_weight < n_units) & (inner < n_units)",
            "at = rows_of_weight * n_units + inner",
            "state_mask = row_mask & (inner < n_units)" + (" & active" if self.stacked else ""),
        ]
        lines += self._products("before", "weight", "chain", "inside", "state_mask", config)
        if self.stacked:
            lines += [
                "# The first layer has none below: what is not loaded adds nothing.",
                "inside_below = inside & (chain > 0)",
                *self._products(
                    "below", "weight_below", "(chain - 1)", "inside_below",
                    "state_mask & (chain > 0)", config,
                ),
            ]  # fmt: skip
        return lines

    def _products(
        self, states: str, weight: str, chain: str, inside: str, mask: str, config: Config
    ) -> list[str]:
        how = "" if config.precision is None else f', input_precision="{config.precision}"'
        count = len(self._sums)
        lines = [
            f"state = {self._load(f'states_ptr + {states} + row * n_units + inner', mask, factor=True)}",
            f"tile = {weight}_ptr + {_times(chain, count)} * n_units * n_units + at",
        ]
        for number, name in enumerate(self._sums):
            into = "fresh" if self.kind == "gru" and name == "new" and states == "below" else name
            place = _plus("tile", number, " * n_units")
            lines.append(f"factor = {self._load(place, inside, factor=True)}")
            lines.append(f"{into} = tl.dot(state, tl.trans(factor), {into}{how})")
        return lines

    def _load(self, place: str, mask: str, *, factor: bool = False) -> str:
        """Numbers in 32 bits; `factor`: of a product, as they are."""
        text = f"tl.load({place}, mask={mask}, other=0.0)"
        return f"{text}.to(tl.float32)" if self.narrow and not factor else text

    def _end(self) -> list[str]:
        store = "tl.store(states_ptr + before + size + row * n_units + unit, {}, mask=mask)"
        if self.kind == "lstm":
            return [
                "# The cells stand behind the last step's states.",
                "place = states_ptr + (chain * (n_steps + 2) + n_steps + 1).to(tl.int64) * size + row * n_units + unit",
                f"cell = {self._load('place', 'mask')}",
                "cell = tl.sigmoid(forget) * cell + tl.sigmoid(into) * libdevice.tanh(new)",
                "tl.store(place, cell, mask=mask)",
                store.format("tl.sigmoid(out) * libdevice.tanh(cell)"),
            ]
        if self.kind == "gru":
            return [
                f"last = {self._load('states_ptr + before + row * n_units + unit', 'mask')}",
                "new = libdevice.tanh(fresh + tl.sigmoid(reset) * new)",
                "kept = tl.sigmoid(update)",
                store.format("new + kept * (last - new)"),
            ]
        new = "libdevice.tanh(new)" if self.kind == "rnn_tanh" else _RECTIFIED
        return [store.format(new)]


_JIT = '@triton.jit(do_not_specialize=["step"])'
"""One kernel for all steps: by itself Triton compiles one for a number of 1 and one for multiples of 16, too."""
_RECTIFIED = "tl.maximum(new, 0.0, propagate_nan=tl.PropagateNan.ALL)"


def _plus(pointer: str, number: int, by: str = "") -> str:
    if number == 0:
        return pointer
    return f"{pointer} + {'' if number == 1 else f'{number} * '}n_units{by}"


def _times(chain: str, count: int) -> str:
    return chain if count == 1 else f"{chain} * {count}"
