"""Operations on memory, and those that ask which program runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelagent.tools.virtual.arithmetic.elementwise import without_subnormals
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled_ir.held import rounded
from kernelagent.tools.virtual.compiled_ir.memory import Descriptor
from kernelagent.tools.virtual.compiled_ir.text import Operation
from kernelagent.tools.virtual.compiled_ir.types import Type, bits_of
from kernelagent.tools.virtual.compiled_ir.unknown import Unknown
from kernelagent.tools.virtual.device.storages.addresses import translated

Effect = Callable[..., Any]
"""From the program and the values of the operands to that of the result."""


def _axis(operation: Operation) -> int:
    return "xyz".index(operation.body.strip()[-1])


def _program_id(operation: Operation) -> Effect:
    axis = _axis(operation)
    return lambda program: np.array([program.place[axis]], np.int32)


def _program_count(operation: Operation) -> Effect:
    axis = _axis(operation)
    return lambda program: np.array([program.grid[axis]], np.int32)


def _load(operation: Operation) -> Effect:
    element, where = operation.operand_types[0].pointee, operation.location

    def load(
        program: Any, pointers: Array, mask: Array | None = None, other: Array | None = None
    ) -> Array:
        result: Array = program.memory.load(pointers, mask, other, element, where)
        return result

    return load


def _store(operation: Operation) -> Effect:
    element, where = operation.operand_types[0].pointee, operation.location

    def store(program: Any, pointers: Array, values: Array, mask: Array | None = None) -> tuple[()]:
        program.memory.store(pointers, values, mask, element, where)
        return ()

    return store


def _add_pointer(operation: Operation) -> Effect:
    pointee = operation.operand_types[0].pointee
    size = np.int64(max(1, bits_of(pointee) // 8))

    def moved(_: Any, pointers: Array, offsets: Array) -> Array:
        away = offsets.astype(np.int64)
        away *= size
        result: Array = pointers + away
        return result

    return moved


def _pointer(_: Operation) -> Effect:
    def pointer(program: Any, values: Array) -> Array:
        addresses = translated(values.astype(np.int64).view(np.uint64), program.pointees)
        return addresses.view(np.int64)

    return pointer


def _unsigned(function: Callable[..., Array]) -> Callable[..., Array]:
    def combined(left: Array, right: Array) -> Array:
        kind = left.dtype
        return function(left.view(f"u{kind.itemsize}"), right.view(f"u{kind.itemsize}")).view(kind)

    return combined


_COMBINED: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "fadd": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": _unsigned(np.maximum),
    "umin": _unsigned(np.minimum),
    "exch": lambda _, new: new,
}


def _added_flushed(old: Array, new: Array) -> Array:
    """fp32 sums in global memory flush what goes in and what comes out (PTX ISA, `atom`)."""
    total = without_subnormals(old) + without_subnormals(new)
    return without_subnormals(total)


def _update(operation: Operation) -> Effect:
    kind, where = operation.operand_types[1], operation.location
    name = operation.body.partition(",")[0].strip()
    if name not in _COMBINED:
        raise Unknown(f"the atomic operation {name}")
    flushes = name == "fadd" and kind.element == "f32"
    function = _added_flushed if flushes else _COMBINED[name]

    def combine(old: Array, new: Array) -> Array:
        result = function(old, new)
        return rounded(result, kind.element) if kind.is_float else result

    def update(program: Any, pointers: Array, values: Array, mask: Array | None = None) -> Array:
        result: Array = program.memory.update(pointers, values, mask, kind.element, combine, where)
        return result

    return update


def _exchange_if(operation: Operation) -> Effect:
    kind, where = operation.operand_types[1], operation.location

    def exchange(program: Any, pointers: Array, expected: Array, values: Array) -> Array:
        if pointers.size != 1:
            raise Unknown("a conditional exchange of many lanes")

        def combine(old: Array, new: Array) -> Array:
            return np.where(old == expected.reshape(-1), new, old)

        result: Array = program.memory.update(pointers, values, None, kind.element, combine, where)
        return result

    return exchange


def _polls(operation: Operation) -> Effect:
    kind, where = operation.operand_types[1], operation.location

    def poll(program: Any, pointers: Array, expected: Array) -> Array:
        found = program.memory.load(pointers, None, None, kind.element, where)
        if not (found == expected).all():
            raise Unknown("a program that waits for a later one")
        return np.ones(pointers.shape, np.bool_)

    return poll


def _reduce_described(operation: Operation) -> Effect:
    where, name = operation.location, operation.body.partition(",")[0].strip()
    if name not in _REDUCED:
        raise Unknown(f"the bulk reduction {name}")

    def reduce(program: Any, descriptor: Descriptor, *rest: Array) -> tuple[()]:
        element, kind = descriptor.element, Type(descriptor.element)
        function = _REDUCED[name]

        def combine(old: Array, new: Array) -> Array:
            result = function(old, new)
            return rounded(result, element) if kind.is_float else result

        addresses, inside = descriptor.places(list(rest[:-1]))
        values = rest[-1].reshape(addresses.shape)
        program.memory.update(addresses, values, inside, element, combine, where)
        return ()

    return reduce


_REDUCED: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _make_descriptor(operation: Operation) -> Effect:
    described = operation.result_types[-1]
    kind = next((item for item in operation.operand_types if item.shape), described)
    padding = re.search(r"padding = (\w+)", operation.body + operation.attributes)
    with_nan = padding is not None and "nan" in padding[1].lower()

    def made(_: Any, base: Array, *rest: Array) -> Descriptor:
        rank = len(kind.shape)
        sizes = [int(item.reshape(-1)[0]) for item in rest]
        return Descriptor(
            int(base[0]),
            tuple(sizes[:rank]),
            tuple(sizes[rank : 2 * rank]),
            kind.shape,
            kind.element,
            with_nan,
        )

    return made


def _load_described(operation: Operation) -> Effect:
    made, where = operation.result_types[0], operation.location

    def load(program: Any, descriptor: Descriptor, *offsets: Array) -> Array:
        addresses, inside = descriptor.places(list(offsets))
        other = np.full(1, np.nan if descriptor.pads_with_nan else 0).astype(made.held)
        found = program.memory.load(addresses, inside, other, descriptor.element, where)
        result: Array = found.reshape(made.shape)
        return result

    return load


def _store_described(operation: Operation) -> Effect:
    where = operation.location

    def store(program: Any, descriptor: Descriptor, *rest: Array) -> tuple[()]:
        given = _by_role(operation, rest)
        addresses, inside = descriptor.places(given[1])
        program.memory.store(
            addresses, given[0].reshape(addresses.shape), inside, descriptor.element, where
        )
        return ()

    return store


def _by_role(operation: Operation, values: tuple[Array, ...]) -> tuple[Array, list[Array]]:
    """`%desc[%i, %j], %block`: the block comes last."""
    return values[-1], list(values[:-1])


def _gather_described(operation: Operation) -> Effect:
    made, where = operation.result_types[0], operation.location

    def gather(program: Any, descriptor: Descriptor, rows: Array, column: Array) -> Array:
        tall = _tall(descriptor, made)
        addresses, inside = tall.places([rows.reshape(-1), column])
        result: Array = program.memory.load(addresses, inside, None, descriptor.element, where)
        return result

    return gather


def _scatter_described(operation: Operation) -> Effect:
    where = operation.location

    def scatter(
        program: Any, descriptor: Descriptor, rows: Array, column: Array, values: Array
    ) -> tuple[()]:
        tall = _tall(descriptor, Type(descriptor.element, values.shape, is_block=True))
        addresses, inside = tall.places([rows.reshape(-1), column])
        program.memory.store(addresses, values, inside, descriptor.element, where)
        return ()

    return scatter


def _tall(descriptor: Descriptor, made: Type) -> Descriptor:
    """With as many rows as are gathered."""
    return Descriptor(
        descriptor.base, descriptor.shape, descriptor.strides, made.shape, descriptor.element
    )


EFFECTS: dict[str, Callable[[Operation], Effect]] = {
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_count,
    "tt.load": _load,
    "tt.store": _store,
    "tt.addptr": _add_pointer,
    "tt.int_to_ptr": _pointer,
    "tt.atomic_rmw": _update,
    "tt.atomic_cas": _exchange_if,
    "tt.atomic_load": _load,
    "tt.atomic_store": _store,
    "tt.atomic_poll": _polls,
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _load_described,
    "tt.descriptor_store": _store_described,
    "tt.descriptor_reduce": _reduce_described,
    "tt.descriptor_gather": _gather_described,
    "tt.descriptor_scatter": _scatter_described,
}
"""By name: what makes an operation's function."""
