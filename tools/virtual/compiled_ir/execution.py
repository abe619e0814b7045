"""Runs one program after another of a compiled kernel on numpy arrays, from its Triton IR."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir import (
    between_lanes,
    blocks,
    conversions,
    effects,
    elementwise,
)
from kernelagent.tools.virtual.compiled_ir.memory import LaunchMemory
from kernelagent.tools.virtual.compiled_ir.text import Block, Function, Module, Operation
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from kernelagent.tools.virtual.device.storages.addresses import Pointee

_PURE = {**elementwise.PURE, **conversions.PURE, **blocks.PURE}
_ENDS = ("tt.return", "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return",
         "tt.map_elementwise.return")  # fmt: skip
_MOST_SINGLE = 4096
"""Elements that a function which decides on single values is tried on."""
Values = tuple[Any, ...]


class OutOfTime(Exception):
    """The programs take longer than they may."""


@dataclass
class _Step:
    """An operation, ready to be done."""

    results: tuple[str, ...]
    operands: tuple[str, ...]
    do: Callable[..., Any]


@dataclass
class _Block:
    arguments: tuple[str, ...]
    steps: list[_Step]
    end: Operation | None


@dataclass
class _Region:
    """Blocks that may be done with values for the arguments of the first."""

    blocks: list[_Block]
    places: dict[str, int]


@dataclass
class Running:
    """One program of a grid, as its operations see it."""

    memory: LaunchMemory
    grid: tuple[int, int, int]
    pointees: Sequence[Pointee]
    until: float
    """By `time.process_time`."""
    place: tuple[int, int, int] = (0, 0, 0)
    held: dict[str, Any] = field(default_factory=dict)

    def in_time(self) -> None:
        if time.process_time() > self.until:
            raise OutOfTime


class CompiledKernel:
    """The entry function of a module, made ready once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._regions: dict[str, _Region] = {}
        self._constants: dict[str, Array] = {}
        self._reads_bits = any(_reads_bits(f.blocks) for f in module.functions.values())
        self._entry = self._of_function(module.entry)

    def run(self, program: Running, arguments: dict[str, Any]) -> None:
        """Run the program that `program.place` names."""
        program.held = {**self._constants, **arguments}
        with np.errstate(all="ignore"):
            self._run(self._entry, program, ())

    def _of_function(self, function: Function) -> _Region:
        known = self._regions.get(function.name)
        if known is None:
            known = self._regions[function.name] = _Region([], {})
            made = self._region(function.blocks, function.name)
            known.blocks, known.places = made.blocks, made.places
        return known

    def _region(self, given: list[Block], function: str) -> _Region:
        _note_uses(given)
        places = {block.label: at for at, block in enumerate(given)}
        return _Region([self._block(block, function) for block in given], places)

    def _block(self, block: Block, function: str) -> _Block:
        steps: list[_Step] = []
        end = None
        for operation in block.operations:
            if operation.name in _ENDS or operation.name.startswith("cf."):
                end = operation
                break
            if operation.name == "arith.constant" and function == self.module.entry.name:
                self._constants[operation.results[0]] = blocks.constant(operation)
                continue
            do = self._made(operation, function)
            steps.append(_Step(operation.results, operation.operands, do))
        return _Block(tuple(name for name, _ in block.arguments), steps, end)

    def _made(self, operation: Operation, function: str) -> Callable[..., Any]:
        name = operation.name
        if name == "arith.constant":
            value = blocks.constant(operation)
            return lambda _: value
        if name in _PURE:
            pure = _PURE[name](operation)
            if self._reads_bits and name in elementwise.COMPUTING:
                pure = elementwise.with_a_gpus_nan(pure, operation)
            return _without_program(pure)
        if name in effects.EFFECTS:
            return effects.EFFECTS[name](operation)
        if name in ("scf.for", "scf.while", "scf.if", "scf.execute_region"):
            made: Callable[..., Any] = getattr(self, "_made_" + name[4:])(operation, function)
            return made
        if name in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            return self._made_combining(operation, function)
        if name == "tt.call":
            return self._made_call(operation)
        raise Unknown(f"the operation {name}")

    def _made_for(self, operation: Operation, function: str) -> Callable[..., Any]:
        body = self._region(operation.regions[0], function)
        names = operation.targets[0][1]
        body.blocks[0].arguments = names
        unsigned = operation.attributes.startswith("unsigned")

        def loop(program: Running, low: Array, high: Array, step: Array, *carried: Any) -> Values:
            if unsigned:
                low, high = (side.view(f"u{side.dtype.itemsize}") for side in (low, high))
            kind = step.dtype
            at, end, by = (
                int(low.reshape(-1)[0]),
                int(high.reshape(-1)[0]),
                int(step.reshape(-1)[0]),
            )
            if by <= 0:
                raise Unknown("a loop whose step is not positive")
            values: Values = carried
            while at < end:
                here = np.array([at], np.int64).astype(kind)
                values = self._run(body, program, (here, *values))
                at += by
            return values

        return loop

    def _made_while(self, operation: Operation, function: str) -> Callable[..., Any]:
        before, after = (self._region(part, function) for part in operation.regions)
        before.blocks[0].arguments = operation.targets[0][1]

        def loop(program: Running, *carried: Any) -> Values:
            values: Values = carried
            while True:
                condition, *values_of_round = self._run(before, program, values)
                if not _holds(condition):
                    return tuple(values_of_round)
                values = self._run(after, program, tuple(values_of_round))

        return loop

    def _made_if(self, operation: Operation, function: str) -> Callable[..., Any]:
        ways = [self._region(part, function) for part in operation.regions]

        def branch(program: Running, condition: Array) -> Values:
            if _holds(condition):
                return self._run(ways[0], program, ())
            return self._run(ways[1], program, ()) if len(ways) > 1 else ()

        return branch

    def _made_execute_region(self, operation: Operation, function: str) -> Callable[..., Any]:
        body = self._region(operation.regions[0], function)
        return lambda program: self._run(body, program, ())

    def _made_call(self, operation: Operation) -> Callable[..., Any]:
        name = operation.body[operation.body.index("@") + 1 :].partition("(")[0]
        function = self.module.functions.get(name)
        if function is None:
            raise Unknown(f"a call of {name}")
        body = self._of_function(function)
        names = tuple(name for name, _ in function.arguments)

        def call(program: Running, *given: Any) -> Values:
            outer, program.held = program.held, dict(zip(names, given, strict=True))
            try:
                return self._run(body, program, ())
            finally:
                program.held = outer

        return call

    def _made_combining(self, operation: Operation, function: str) -> Callable[..., Any]:
        body = self._region(operation.regions[0], function)
        straight = len(body.blocks) == 1 and not any(
            inner.regions for inner in operation.regions[0][0].operations
        )
        made = between_lanes.MAKERS[operation.name](operation)

        def combining(program: Running, *given: Array) -> Any:
            def at_once(*values: Array) -> Values:
                return self._run(body, program, values)

            def singly(*values: Array) -> Values:
                return _element_by_element(at_once, values)

            return made(at_once if straight else singly, given)

        return combining

    def _run(self, region: _Region, program: Running, given: Values) -> Values:
        """What the region hands on at its end."""
        held, blocks_, at = program.held, region.blocks, 0
        while True:
            program.in_time()
            if at >= len(blocks_):
                return ()
            block = blocks_[at]
            for name, value in zip(block.arguments, given, strict=False):
                held[name] = value
            for step in block.steps:
                result = step.do(program, *[held[name] for name in step.operands])
                names = step.results
                if len(names) == 1:
                    held[names[0]] = result[0] if type(result) is tuple else result
                elif names:
                    for name, value in zip(names, result, strict=True):
                        held[name] = value
            end = block.end
            if end is None:
                return ()
            if not end.name.startswith("cf."):
                return tuple(held[name] for name in end.operands)
            label, handed = end.targets[0]
            if end.name == "cf.cond_br" and not _holds(held[end.operands[0]]):
                label, handed = end.targets[1]
            given = tuple(held[name] for name in handed)
            at = region.places[label]


def _without_program(pure: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *values: pure(*values)


def _holds(condition: Array) -> bool:
    return bool(condition.reshape(-1)[0])


def _element_by_element(function: Callable[..., Values], values: tuple[Array, ...]) -> Values:
    shape = np.broadcast_shapes(*(item.shape for item in values))
    flat = [np.broadcast_to(item, shape).reshape(-1) for item in values]
    if flat[0].size > _MOST_SINGLE:
        raise Unknown("a function that decides on very many single values")
    rows = [function(*(item[at : at + 1] for item in flat)) for at in range(flat[0].size)]
    return tuple(np.concatenate(column).reshape(shape) for column in zip(*rows, strict=True))


def _reads_bits(given: list[Block]) -> bool:
    """Whether floating point numbers become integers of the same bits, so that it matters which a NaN has."""
    return any(
        (operation.name in ("tt.bitcast", "arith.bitcast") and operation.operand_types[0].is_float)
        or any(map(_reads_bits, operation.regions))
        for block in given
        for operation in block.operations
    )


def _note_uses(given: list[Block]) -> None:
    """Marks reshapes whose result goes into reductions alone: which order those take is not theirs."""
    others: set[str] = set()
    for block in given:
        for operation in block.operations:
            if operation.name != "tt.reduce":
                others.update(operation.operands)
            others.update(name for _, handed in operation.targets for name in handed)
            for region in operation.regions:
                others.update(_used(region))
    for block in given:
        for operation in block.operations:
            if operation.name == "tt.reshape":
                operation.only_reduced = operation.results[0] not in others


def _used(given: list[Block]) -> set[str]:
    """Operands of whatever stands in these blocks, reductions left out."""
    names: set[str] = set()
    for block in given:
        for operation in block.operations:
            if operation.name != "tt.reduce":
                names.update(operation.operands)
            for region in operation.regions:
                names.update(_used(region))
    return names
