"""The reference on each input set, before any candidate: does it run, repeat, and cross as data?"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import LeastTime, ReferenceEstimate, Remark
from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.calls.tensors import NotPortable, pack
from kernelagent.tools.estimates.least import least_of, least_us
from kernelagent.tools.estimates.library import by_operation, library_for
from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.bounds.headroom import Headroom, headroom_of
from kernelagent.tools.judge.problem import describe
from kernelagent.tools.judge.problem.devices import JudgeDevice
from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.interpreted_work import meta_twin
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.virtual.cost.eager import eager_rows


def require_portable(sources: tuple[InputSource, ...], problem: LoadedProblem) -> None:
    """A candidate is called with tensors and plain values; raises `ProblemError` naming anything else."""
    for source in sources:
        for path, leaf in tree_flatten_with_path(source.full)[0]:
            try:
                pack(leaf, [])
            except NotPortable:
                kind = type(leaf)
                raise ProblemError(
                    f"the forward of {problem.entry_point} is called with a "
                    f"{kind.__module__}.{kind.__qualname__} (input set {source.name!r}, "
                    f"{keystr(path)}), which cannot cross to a candidate's process; wrap the module in "
                    f"one whose forward takes tensors and plain values and makes the "
                    f"{kind.__name__} itself"
                ) from None


def described(source: InputSource, module: torch.nn.Module) -> Any:
    """The input set as data, with the shapes that are executed where they are smaller."""
    executed = source.draw(0) if source.shrunk is not None else None
    return describe.input_set(source.name, source.full, module, executed)


def output_at_full_size(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice, executed: Any
) -> Any:
    """What the first input set gives at the user's sizes; as executed where that needs values."""
    if all(source.shrunk is None for source in sources):
        return executed
    args, kwargs = on_meta(sources[0].full)
    try:
        with device.scope(), AtOnce(), torch.no_grad():
            return meta_twin(module)(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's own forward, without contents
        return executed


def least_of_each(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice
) -> tuple[dict[str, Headroom], tuple[Remark, ...]]:
    """The least that each input set needs, and a remark on each for which there is none."""
    result: dict[str, Headroom] = {}
    remarks: list[Remark] = []
    for source in sources:
        args, kwargs = on_meta(source.full)
        try:
            with device.scope():
                result[source.name] = headroom_of(
                    module, args, kwargs, device.ceilings, device.promised
                )
        except Exception as error:  # noqa: BLE001 - the user's own forward, without contents
            message = str(error).strip().splitlines() or [type(error).__name__]
            text = f"no lower bound of the time for input set {source.name!r}: {message[0][:200]}"
            remarks.append(Remark("no_headroom", text))
    return result, tuple(remarks)


def estimates(
    module: torch.nn.Module, sources: tuple[InputSource, ...], device: JudgeDevice
) -> tuple[ReferenceEstimate, ...]:
    """Of the reference at the user's sizes; nothing for a forward that needs values."""
    if device.kind != "virtual":
        return ()
    library = library_for(device.promised)
    result = []
    for source in sources:
        args, kwargs = source.full
        try:
            with device.scope():
                rows = eager_rows(meta_twin(module), args, kwargs, device.facts.target)
        except Exception:  # noqa: BLE001 - the user's own forward, without contents
            continue
        operations = tuple(row.operation for row in rows if row.operation is not None)
        eager, compiled = library.eager(operations), library.compiled(operations).us
        least = least_of(operations, device.promised)
        result.append(
            ReferenceEstimate(
                source.name,
                eager.us,
                compiled,
                by_operation(eager.parts),
                LeastTime(
                    moved_bytes=least.moved_bytes,
                    flops=least.flops,
                    bytes_us=round(least.dram_us, 3),
                    operations_us=round(least.math_us, 3),
                    us=round(least_us(least, eager.us.value, library), 3),
                ),
            )
        )
    return tuple(result)


def tried(
    oracle: Oracle, sources: tuple[InputSource, ...], problem: LoadedProblem
) -> tuple[Any, tuple[Remark, ...]]:
    """Run the reference twice on each input set; returns the first set's output and remarks."""
    first: Any = None
    remarks = [Remark("problem", text) for text in problem.disclosures]
    for source in sources:
        arguments = source.draw(1)
        output, again = oracle.eager(arguments), oracle.eager(arguments, going_on=True)
        _require_deterministic(output, again, source.name, problem)
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in compare.leaves(output)):
            raise ProblemError(f"the forward of {problem.entry_point} returns no tensor")
        first = output if first is None else first
        if source.shrunk is not None:
            message = f"input set {source.name!r} was executed with {source.shrunk}"
            remarks.append(Remark("executed_smaller", message))
    if problem.constant_inputs:
        message = "inputs were drawn like the example tensors: there is no input generator"
        remarks.append(Remark("no_input_generator", message))
    return first, tuple(remarks)


def _require_deterministic(first: Any, second: Any, name: str, problem: LoadedProblem) -> None:
    for (where, left), (_, right) in zip(
        compare.leaves(first), compare.leaves(second), strict=True
    ):
        if isinstance(left, torch.Tensor) and not torch.allclose(
            parts_first(left).double(),
            parts_first(right).double(),
            rtol=1e-3,
            atol=1e-5,
            equal_nan=True,
        ):
            raise ProblemError(
                f"the forward of {problem.entry_point} is not deterministic: {where} differs "
                f"between two calls with the same inputs (set {name!r}). Put it into eval mode, "
                f"or pass its randomness in as an argument"
            )
