"""The emitted module of every example, as a user has it: saved, copied, moved, and called near and far.

The kernels run on the virtual device in a process of their own; everything else is the user's process.
"""

from __future__ import annotations

import atexit
import copy
import io
import os
import pickle
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.run import optimize
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.verify.compare import compare
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.process.limits import Limits
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.dropin.emitted import imported
from tests.judges import JudgesHere

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
EXAMPLES = [pytest.param(name, marks=pytest.mark.long) for name in NAMES]
CALLS = 50


@dataclass(frozen=True)
class Emitted:
    """One example with the file that was written for it."""

    file: ModuleType
    text: str
    spec: ProblemSpec

    def reference(self) -> torch.nn.Module:
        from kernelagent.tools.judge.problem.load import load_problem

        torch.manual_seed(3)
        return load_problem(self.spec).build().eval()

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        from kernelagent.tools.judge.problem.load import load_problem

        return next(iter(load_problem(self.spec).input_sets().values()))


@cache
def emitted(name: str, judges: JudgesHere) -> Emitted:
    plain = name == "rotary_embedding"
    spec = ProblemSpec(
        path=str(ROOT / "examples" / f"{name}.py"),
        module="RotaryEmbedding" if plain else None,
        inputs="example_inputs" if plain else None,
    )
    folder = Path(tempfile.mkdtemp(prefix="kernelagent-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    out = folder / f"{name}_optimized.py"
    config = RunConfig(
        device="virtual", turns=2, out=str(out), runs=str(folder / "runs"), envelope_seconds=5.0
    )
    result = optimize(spec, config, judges=judges)
    # What cannot be told apart from eager is not written beside the user's file, but is kept in the run.
    assert result.path is not None or result.outcome == "not_faster", result.why
    text = (result.run / "module.py").read_text(encoding="utf-8")
    file = imported(text, folder)
    # The guard asks where tensors are; here they are on the CPU that the virtual device runs on.
    file.ENVELOPE_VERIFIED["device_types"] = ["cpu"]
    return Emitted(file, text, spec)


@pytest.fixture(params=EXAMPLES)
def one(request: pytest.FixtureRequest, judges: JudgesHere) -> Emitted:
    return emitted(request.param, judges)


def test_the_state_dict_goes_round(one: Emitted) -> None:
    reference, other = one.reference(), one.reference()
    dropin = one.file.optimized(reference)
    file = io.BytesIO()
    torch.save(dropin.state_dict(), file)
    file.seek(0)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(torch.load(file), strict=True)
    assert list(dropin.state_dict()) == list(reference.state_dict())
    for name, tensor in reference.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def test_a_copy_is_a_drop_in_of_its_own(one: Emitted) -> None:
    dropin = one.file.optimized(one.reference())
    for copied in (copy.deepcopy(dropin), pickle.loads(pickle.dumps(dropin))):
        assert type(copied).__name__ == type(dropin).__name__
        pairs = zip(copied.parameters(), dropin.parameters(), strict=True)
        for mine, theirs in pairs:
            assert torch.equal(mine, theirs)
            assert mine is not theirs


def answers_as_the_original(one: Emitted, dropin: Any, arguments: Any, reason: str) -> list[Any]:
    args, kwargs = arguments
    expected = tree_leaves(dropin.original(*args, **kwargs))
    with pytest.warns(one.file.OutsideEnvelopeWarning, match=reason):
        got = tree_leaves(dropin(*args, **kwargs))
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)
    return got


def test_another_type_falls_back(one: Emitted) -> None:
    used = {leaf.dtype for leaf in tree_leaves(one.arguments()) if _is_floating(leaf)}
    other = torch.bfloat16 if torch.float16 in used else torch.float16
    dropin = one.file.optimized(one.reference()).to(other)
    arguments = tree_map(lambda v: v.to(other) if _is_floating(v) else v, one.arguments())
    with torch.no_grad():
        answers_as_the_original(one, dropin, arguments, r"\((dtype|values)\).*float16")


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def test_a_gradient_falls_back(one: Emitted) -> None:
    dropin = one.file.optimized(one.reference())
    arguments = tree_map(
        lambda v: (
            v.clone().requires_grad_()
            if isinstance(v, torch.Tensor) and v.is_floating_point()
            else v
        ),
        one.arguments(),
    )
    got = answers_as_the_original(one, dropin, arguments, r"\(gradient\)")
    sum(t.float().sum() for t in got if t.requires_grad).backward()
    grads = [v.grad for v in tree_leaves(arguments) if isinstance(v, torch.Tensor)]
    assert any(grad is not None for grad in grads)


class Bench:
    """The drop-in in this process, its kernels in the candidate's, the oracle beside it."""

    def __init__(self, one: Emitted, fork_server: ForkServer) -> None:
        settings = JudgeSettings(one.spec, device="virtual")
        self.context = JudgeContext.open(settings, fork_server)
        self._scratch = tempfile.TemporaryDirectory(prefix="kernelagent-test-")
        self.process = CandidateProcess(
            self.context.fork_server,
            source=Candidate(one.text).source,
            device="virtual",
            target=settings.target,
            scratch=Path(self._scratch.name) / "bench",
            limits=Limits(),
            sandboxed=True,
        )
        self.process.load()
        self.context.construct(self.process)
        self.process.use_weights(self.context.oracle.given_weights)
        self.kernel_calls = 0
        self.reference = self.context.oracle.module
        self.dropin = one.file.optimized(copy.deepcopy(self.reference), self._fast())

    def _fast(self) -> torch.nn.Module:
        def forward(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self.kernel_calls += 1
            return self.process.call((args, kwargs)).output

        fast = copy.deepcopy(self.reference)
        fast.__class__ = type("Through", (type(fast),), {"forward": forward})
        return fast

    def close(self) -> None:
        self.process.close()
        self.context.close()
        self._scratch.cleanup()


@pytest.fixture
def bench(one: Emitted, fork_server: ForkServer) -> Iterator[Bench]:
    made = Bench(one, fork_server)
    yield made
    made.close()


def test_any_input_near_the_verified_ones_is_answered_rightly(bench: Bench) -> None:
    chance = random.Random(os.environ.get("PYTEST_SEED", "7"))
    by_fallback = 0
    for number in range(CALLS):
        source = chance.choice(bench.context.sources)
        # The given form comes up again and again, between the others.
        change = chance.choice(CHANGES) if number % 5 else _as_it_is
        arguments = change(source.draw(number), chance)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            before = bench.kernel_calls
            try:
                expected = bench.context.oracle.expect(arguments)
            except (ProblemError, RuntimeError, IndexError):
                with pytest.raises((RuntimeError, IndexError, ValueError)):
                    bench.dropin(*arguments[0], **arguments[1])
                continue
            got = bench.dropin(*arguments[0], **arguments[1])
        if bench.kernel_calls == before:
            by_fallback += 1
            for a, b in zip(tree_leaves(got), tree_leaves(expected.output), strict=True):
                torch.testing.assert_close(a, b, equal_nan=True)
            continue
        scales = compare.scales_of(expected.output64)
        wanted = compare.Expected(expected.output, expected.output64, scales)
        result = compare.compare(got, wanted, input_set=source.name, probe=change.__name__)
        assert result.reason is None, (change.__name__, result.reason)
    assert bench.kernel_calls >= CALLS // 5
    assert by_fallback > 0


def _as_it_is(arguments: Any, chance: random.Random) -> Any:
    return arguments


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    return lambda value: change(value) if isinstance(value, torch.Tensor) else value


def _fewer_or_more(arguments: Any, chance: random.Random) -> Any:
    """Another leading size, the same for all tensors that have the commonest one."""
    tensors = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor) and t.dim()]
    was = max((t.shape[0] for t in tensors), key=[t.shape[0] for t in tensors].count)
    now = chance.choice([1, was - 1, was + 1, 2 * was, chance.randint(1, 2 * was)])

    def sized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != was:
            return tensor
        return torch.cat([tensor, tensor])[: max(1, now)].contiguous()

    return tree_map(_each(sized), arguments)


def _narrower(arguments: Any, chance: random.Random) -> Any:
    return tree_map(_each(lambda t: t[..., :-1].contiguous() if t.dim() else t), arguments)


def _another_type(arguments: Any, chance: random.Random) -> Any:
    dtype = chance.choice([torch.float32, torch.bfloat16, torch.float64])
    return tree_map(_each(lambda t: t.to(dtype) if t.is_floating_point() else t), arguments)


def _another_rank(arguments: Any, chance: random.Random) -> Any:
    return tree_map(_each(lambda t: t.unsqueeze(0)), arguments)


def _with_gaps(arguments: Any, chance: random.Random) -> Any:
    return tree_map(
        _each(lambda t: t.repeat_interleave(2, -1)[..., ::2] if t.dim() else t), arguments
    )


def _not_aligned(arguments: Any, chance: random.Random) -> Any:
    def moved(tensor: torch.Tensor) -> torch.Tensor:
        flat = torch.cat([tensor.reshape(-1)[:1], tensor.reshape(-1)])
        return flat[1:].view(tensor.shape)

    return tree_map(_each(moved), arguments)


CHANGES = (
    _fewer_or_more,
    _fewer_or_more,
    _narrower,
    _another_type,
    _another_rank,
    _with_gaps,
    _not_aligned,
)
