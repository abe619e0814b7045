"""The author's process: trusted with the user's module, it traces it and writes the policy's replies."""

from __future__ import annotations

import ctypes
import logging
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_map

from kernelagent.domain.errors import KernelAgentError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.models.compiler.capturing.capture import PolicyCannot, Smaller, TookTooLong
from kernelagent.models.compiler.capturing.hollow_tensors import HollowTensors
from kernelagent.models.compiler.capturing.open_sizes import Places
from kernelagent.models.compiler.module.constructor import NO_SHAPES, ORIGINAL, Shapes
from kernelagent.models.compiler.module.constructor_sizes import followed, of_the_original
from kernelagent.models.compiler.module.fixed_arguments import Fixed, fixed_arguments
from kernelagent.models.compiler.policy import Past, Policy
from kernelagent.tools.judge.problem.load import LoadedProblem, load_problem
from kernelagent.tools.judge.problem.memory_limit import (
    first_to_go,
    hold_to,
    is_lack_of_memory,
    lack_of_memory,
    limit_of,
)
from kernelagent.tools.judge.problem.smaller_sizes import (
    Sizes,
    module_without_contents,
    with_sizes,
)
from kernelagent.tools.wire import Channel, ChannelClosed, Frame

_PR_SET_PDEATHSIG = 1
_MAX_HEADER = 1 << 28
_LONGEST_S = 60.0
_LONGEST_WITH_BACKWARD_S = 120.0
_A_PART_S, _LONGEST_OF_ALL_S = 0.4, 300.0
"""More for each submodule: a DenseNet has 430."""
_AGAIN_S = 5.0
"""Asked again so long after: the compiler catches what is raised in some of its places."""


def main(fd: int) -> None:
    """Serve requests on the socket `fd` until its other end is closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    first_to_go()
    logging.getLogger("torch").setLevel(logging.ERROR)
    # Sizes that the module refuses are tried as well; torch logs each with its traceback before it raises.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    author = _Author()
    signal.signal(signal.SIGPROF, author.too_long)
    channel = Channel(socket.socket(fileno=fd))
    while True:
        try:
            request = channel.receive(max_header=_MAX_HEADER)
            channel.send(author.answer(request))
        except ChannelClosed:
            return


class _Author:
    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._limit: int | None = None
        """Bytes; None on a GPU, where the judge has none either."""

    @property
    def _longest_s(self) -> float:
        if self._policy is None:
            return _LONGEST_S
        longest = _LONGEST_WITH_BACKWARD_S if self._policy.train else _LONGEST_S
        parts = sum(1 for _ in self._policy.module.modules())
        return min(_LONGEST_OF_ALL_S, longest + _A_PART_S * parts)

    def too_long(self, number: int, frame: object) -> NoReturn:
        """What the clock of the processor calls."""
        raise TookTooLong(
            "this module",
            f"the compiler was not done with it after {self._longest_s:.0f} s of processor time",
        )

    def answer(self, request: Frame) -> dict[str, Any]:
        signal.setitimer(signal.ITIMER_PROF, self._longest_s, _AGAIN_S)
        try:
            if request.kind == "open":
                if request.header["device"] == "virtual":
                    self._limit = limit_of(request.header["memory_limit"])
                    hold_to(self._limit)
                self._policy = _opened(request)
                return {"kind": "ready"}
            return self._next(request)
        except (PolicyCannot, KernelAgentError) as error:
            return {"kind": "cannot", "message": str(error)}
        except Exception as error:  # a process border: the compiler raises anything
            if self._limit is not None and is_lack_of_memory(error):
                return {"kind": "cannot", "message": lack_of_memory(self._limit, "rewriting")}
            logging.getLogger(__name__).debug("the built-in policy failed", exc_info=True)
            first = (str(error).strip().splitlines() or [""])[0][:200]
            reported = (
                f"the built-in policy cannot rewrite this module: it met {type(error).__name__}"
                f"{f' ({first})' if first else ''} in {_where(error)}, which is our fault, not yours; "
                f"give a model with --model"
            )
            return {"kind": "cannot", "message": reported}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _next(self, request: Frame) -> dict[str, Any]:
        if self._policy is None:
            return {"kind": "cannot", "message": "the author was asked before it read a problem"}
        history = [_past(row) for row in request.header["history"]]
        reply = self._policy.reply(history)
        if reply is None:
            return {"kind": "exhausted", "message": self._policy.nothing_left(history)}
        return {"kind": "reply", "text": reply}


def _where(error: BaseException) -> str:
    """The last place of ours on the way to the error, for a report of it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "compiler" in f.filename and "site-packages" not in f.filename]
    last = (ours or frames)[-1]
    return f"{last.filename.rsplit('/', 1)[-1]} line {last.lineno}"


def _opened(request: Frame) -> Policy:
    header = request.header
    return policy_for(
        from_data(header["problem"], ProblemSpec),
        partial(_scope, request),
        str(header["target"]),
        from_data(header["executed"], dict[str, list[list[int]]]),
        dict(from_data(header["arguments"], list[tuple[int, int]])),
        from_data(header["dynamic"], dict[str, list[list[tuple[int, int]]]]),
        train=header["mode"] == "train",
    )


def policy_for(
    spec: ProblemSpec,
    scope: Callable[[], AbstractContextManager[Any]],
    target: str,
    executed: Mapping[str, list[list[int]]],
    renamed: Mapping[int, int],
    dynamic: Mapping[str, Sequence[Places]],
    *,
    train: bool = False,
) -> Policy:
    """The policy for a problem; `executed`: the shapes of the inputs, by set, where smaller ones are run.

    `renamed`: the constructor's whole numbers that are others there. `dynamic`: the sizes that were
    declared to change, by set. `train`: whether it is to write a backward. Raises `PolicyCannot`.
    """
    with scope():
        problem = load_problem(spec)
    hollow = HollowTensors()
    with scope(), hollow:
        module = problem.build().cpu().eval()
        sets = problem.input_sets()
    on_cpu = {
        name: tree_map(lambda v: v.cpu() if hasattr(v, "cpu") else v, arguments)
        for name, arguments in sets.items()
    }
    small, state = module, NO_SHAPES
    if executed:
        small, state = _smaller_module(problem, module, renamed, scope)
    return Policy(
        module,
        problem.constructor,
        on_cpu,
        {name: Smaller(small, *_of_shapes(on_cpu[name], s)) for name, s in executed.items()},
        dynamic,
        state=state,
        fixed=_fixed(problem, type(module), renamed if executed else {}, state, scope),
        target=target,
        addresses=hollow,
        train=train,
    )


def _fixed(
    problem: LoadedProblem,
    kind: type[torch.nn.Module],
    renamed: Mapping[int, int],
    state: Shapes,
    scope: Callable[[], AbstractContextManager[Any]],
) -> list[Fixed]:
    """What `ModelNew` must be constructed with, where it is constructed as the original is."""
    if problem.constructor != "init":
        return []
    fewer = with_sizes(problem, Sizes(arguments=renamed)) if renamed else problem
    with scope():
        return fixed_arguments(kind, problem.init_args(), fewer.init_args(), state)


def _smaller_module(
    problem: LoadedProblem,
    module: torch.nn.Module,
    renamed: Mapping[int, int],
    scope: Callable[[], AbstractContextManager[Any]],
) -> tuple[torch.nn.Module, Shapes]:
    """The module as it is executed, on the meta device, and how its state follows its constructor."""
    if not renamed or problem.construct is None:
        return module, NO_SHAPES
    fewer = with_sizes(problem, Sizes(arguments=renamed))
    small = module_without_contents(fewer, scope)
    if small is None:
        raise PolicyCannot(problem.entry_point, "it cannot be built without contents")
    if problem.constructor == "from_reference":
        return small.eval(), of_the_original(module, small, ORIGINAL)
    with scope():
        given, less = problem.init_args(), fewer.init_args()
    return small.eval(), followed(module, small, given, less)


def _of_shapes(arguments: Any, shapes: list[list[int]]) -> Any:
    """The arguments with tensors of these shapes in place of theirs, without contents."""
    wanted = iter(shapes)

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty(next(wanted), dtype=value.dtype, device="meta")

    return tree_map(cut, arguments)


def _scope(request: Frame) -> AbstractContextManager[Any]:
    if request.header["device"] == "cuda":
        return nullcontext()
    from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda, with_dynamo_imported

    with_dynamo_imported()
    return pretending_cuda(str(request.header["target"]))


def _past(row: dict[str, Any]) -> Past:
    evaluation = row["evaluation"]
    return Past(
        str(row["source"] or ""),
        None if evaluation is None else from_data(evaluation, Evaluation),
    )
