"""Turns the loaded problem into data for the parts that must not import it: controller, models, reports."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from kernelagent.domain.problem import (
    DynamicSize,
    InputSet,
    Mode,
    ProblemFacts,
    ReferenceEstimate,
    Remark,
    TensorFacts,
    Tolerance,
)
from kernelagent.tools.calls.tensors import spec_of
from kernelagent.tools.judge.problem.load import Arguments, LoadedProblem


def input_set(
    name: str, arguments: Arguments, module: torch.nn.Module, executed: Arguments | None
) -> InputSet:
    """One input set; `executed` are the shrunk arguments, when they differ."""
    return InputSet(
        name=name,
        tensors=tensor_facts(_by_name(module, arguments)),
        arguments=written_out(module, arguments),
        executed=None if executed is None else tensor_facts(_by_name(module, executed)),
    )


def problem_facts(
    problem: LoadedProblem,
    module: torch.nn.Module,
    input_sets: tuple[InputSet, ...],
    output: Any,
    *,
    mode: Mode,
    matmul_precision: str,
    convolutions_round: bool,
    dynamic: tuple[str, ...],
    dynamic_sizes: tuple[DynamicSize, ...],
    executed_arguments: tuple[tuple[int, int], ...],
    estimates: tuple[ReferenceEstimate, ...],
    tolerances: tuple[Tolerance, ...],
    disclosures: tuple[Remark, ...],
) -> ProblemFacts:
    """Everything the judge says about the problem; its hash covers source, shapes and state."""
    args, kwargs = problem.init_args()
    state = state_facts(module)
    outputs = tensor_facts({"output": output}, kind="output")
    identity = [problem.source, problem.entry_point, mode, [asdict(s) for s in input_sets]]
    identity += [[asdict(fact) for fact in state], list(dynamic)]
    convolutions = ", convolutions may be rounded to tf32" if convolutions_round else ""
    return ProblemFacts(
        name=problem.name,
        source=problem.source,
        entry_point=problem.entry_point,
        constructor=problem.constructor,
        init_arguments=call_text(args, kwargs),
        input_sets=input_sets,
        outputs=outputs,
        state=state,
        mode=mode,
        sha256=hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
        precision=f"float32 matmuls at precision {matmul_precision!r}{convolutions}",
        matmul_precision=matmul_precision,
        convolutions_round=convolutions_round,
        dynamic=dynamic,
        dynamic_sizes=dynamic_sizes,
        executed_arguments=executed_arguments,
        estimates=estimates,
        tolerances=tolerances,
        disclosures=disclosures,
    )


def state_facts(module: torch.nn.Module) -> tuple[TensorFacts, ...]:
    """One row per entry of the module's state_dict."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return tuple(
        TensorFacts(
            name=name,
            shape=tuple(tensor.shape),
            dtype=spec_of(tensor).dtype,
            strides=tuple(tensor.stride()),
            kind="parameter" if name in parameters else "buffer",
        )
        for name, tensor in module.state_dict().items()
    )


def tensor_facts(named: Mapping[str, Any], kind: Any = "input") -> tuple[TensorFacts, ...]:
    """One row per tensor in a nest, named by its path."""
    result: list[TensorFacts] = []
    for name, value in named.items():
        for path, leaf in tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                spec = spec_of(leaf)
                result.append(
                    TensorFacts(name + keystr(path), spec.shape, spec.dtype, spec.strides, kind)
                )
    return tuple(result)


def written_out(module: torch.nn.Module, arguments: Arguments) -> str:
    """The call as a reader would write it, shapes in place of tensors."""
    named = _by_name(module, arguments)
    return "(" + ", ".join(f"{name}{_shown(value)}" for name, value in named.items()) + ")"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        spec = spec_of(value)
        return f": {spec.dtype}[{', '.join(map(str, spec.shape))}]{_lying(value)}"
    if isinstance(value, list | tuple) and any(isinstance(v, torch.Tensor) for v in value):
        return "=(" + ", ".join(_shown(v).lstrip(": ") for v in value) + ")"
    return f"={literal(value)}"


def _lying(tensor: torch.Tensor) -> str:
    """How it lies in memory, where that is not row by row."""
    if tensor.is_contiguous():
        return ""
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return " channels_last"
    if tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d):
        return " channels_last_3d"
    return f" strides {tuple(tensor.stride())}"


def _by_name(module: torch.nn.Module, arguments: Arguments) -> dict[str, Any]:
    args, kwargs = arguments
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        return {f"arg{i}": value for i, value in enumerate(args)} | dict(kwargs)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        match bound.signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                named |= {f"{name}[{i}]": item for i, item in enumerate(value)}
            case inspect.Parameter.VAR_KEYWORD:
                named |= value
            case _:
                named[name] = value
    return named


def call_text(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Constructor arguments as Python text, for example `(4096, eps=1e-06)`."""
    parts = [literal(value) for value in args]
    parts += [f"{key}={literal(value)}" for key, value in kwargs.items()]
    return "(" + ", ".join(parts) + ")"


def literal(value: Any) -> str:
    """Python text that makes `value` again, for what can be written so; else its type in brackets."""
    match value:
        case None | bool() | int() | str():
            return repr(value)
        case float():
            return (
                repr(value)
                if value == value and abs(value) != float("inf")
                else f"float('{value}')"
            )
        case torch.dtype():
            return str(value)
        case torch.device():
            return f"torch.device({str(value)!r})"
        case torch.Tensor():
            return f"<tensor {spec_of(value).dtype}{list(value.shape)}>"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case tuple():
            inner = ", ".join(map(literal, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case dict():
            return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    module = str(getattr(value, "__module__", ""))
    if module.split(".")[0] == "torch" and hasattr(value, "__qualname__"):
        return f"{module}.{value.__qualname__}"
    return f"<{type(value).__name__}>"
