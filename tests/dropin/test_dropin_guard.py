from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from tests.dropin.emitted import (
    CANDIDATE,
    Block,
    X,
    facts_of,
    imported,
    text_for,
    warnings_as_errors,
)
from tests.lanes import examples

NESTED = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, pair, table, power=2):
        CALLS[0] += 1
        return (pair[0] + pair[1] * table["w"]) ** power
"""


class Nested(torch.nn.Module):
    def forward(
        self,
        pair: tuple[torch.Tensor, torch.Tensor],
        table: dict[str, torch.Tensor],
        power: int = 2,
    ) -> torch.Tensor:
        return (pair[0] + pair[1] * table["w"]) ** power


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return imported(text_for(), tmp_path_factory.mktemp("emitted"))


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors(DeprecationWarning):
        yield


def warmed(emitted: ModuleType, **state: Any) -> Any:
    """A drop-in that has answered twice by kernel, so that its quickest path is in use."""
    dropin = emitted.optimized(Block(**state).eval())
    before = emitted.CALLS[0]
    dropin(X_)
    dropin(X_)
    assert emitted.CALLS[0] == before + 2
    return dropin


X_ = torch.randn(4, 8)


def falls_back(emitted: ModuleType, reason: str, call: Callable[[], Any]) -> Any:
    """The answer, with the proof that the original gave it and that the reason was said."""
    before = emitted.CALLS[0]
    with pytest.warns(emitted.OutsideEnvelopeWarning, match=rf"\({reason}\)"):
        answer = call()
    assert emitted.CALLS[0] == before
    return answer


def _sparse() -> torch.Tensor:
    return X_.to_sparse()


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("dtype", lambda: X_.double()),
        ("rank", lambda: X_[0]),
        ("rank", lambda: X_[None]),
        ("shape", lambda: torch.randn(5, 8)),
        ("strides", lambda: torch.randn(8, 4).t()),
        ("strides", lambda: torch.randn(4, 16)[:, ::2]),
        ("alignment", lambda: torch.randn(33)[1:].view(4, 8)),
        ("tensor type", lambda: X_.as_subclass(Subclass)),
        ("device", lambda: X_.to("meta")),
    ],
)
def test_a_tensor_unlike_the_verified_one_runs_the_original(
    emitted: ModuleType, reason: str, make: Callable[[], torch.Tensor]
) -> None:
    dropin, x = warmed(emitted), make()
    compatible = x.dtype is torch.float32 and x.device.type == "cpu"
    if not compatible:
        with (
            pytest.warns(emitted.OutsideEnvelopeWarning, match=reason),
            pytest.raises(RuntimeError),
        ):
            dropin(x)
        return
    answer = falls_back(emitted, reason, lambda: dropin(x))
    assert torch.equal(answer, dropin.original(x))


def test_a_row_major_tensor_of_other_strides_is_covered_when_it_is_a_view(
    emitted: ModuleType,
) -> None:
    dropin = warmed(emitted)
    before = emitted.CALLS[0]
    view = torch.randn(8, 8)[4:]
    torch.testing.assert_close(dropin(view), dropin.original(view))
    assert emitted.CALLS[0] == before + 1


def test_a_tensor_lies_as_the_verified_ones_also_where_a_size_is_open(tmp_path: Path) -> None:
    source = (
        "import torch\n\nCALLS = [0]\n\n\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, x):\n        CALLS[0] += 1\n        return x * 2\n"
    )

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    size = {"name": "size0", "min": 1, "max": 9}
    row = {
        "dtype": "float32",
        "shape": [2, size, 4, 5],
        "strides": [120, 1, 30, 6],
        "sizes": [2, 6, 4, 5],
    }
    sets = [{"name": "default", "args": [row]}]
    emitted = imported(text_for(source, facts_of(Double(), "()"), input_sets=sets), tmp_path)
    dropin = emitted.optimized(Double().eval())
    for channels in (6, 9, 1):
        dropin(torch.randn(2, channels, 4, 5).to(memory_format=torch.channels_last))
    assert emitted.CALLS == [3]
    x = torch.randn(2, 6, 4, 5)
    assert torch.equal(falls_back(emitted, "strides", lambda: dropin(x)), x * 2)


def test_a_row_major_tensor_is_not_covered_where_another_layout_was_verified(
    tmp_path: Path,
) -> None:
    source = (
        "import torch\n\nCALLS = [0]\n\n\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, x):\n        CALLS[0] += 1\n        return x * 2\n"
    )

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    row = {"dtype": "float32", "shape": [4, 8], "strides": [1, 4]}
    sets = [{"name": "default", "args": [row]}]
    emitted = imported(text_for(source, facts_of(Double(), "()"), input_sets=sets), tmp_path)
    dropin, x = emitted.optimized(Double().eval()), torch.randn(8, 4).t()
    dropin(x)
    assert emitted.CALLS == [1]
    plain = x.contiguous()
    assert torch.equal(falls_back(emitted, "strides", lambda: dropin(plain)), x * 2)


def test_a_sparse_tensor_runs_the_original(tmp_path: Path) -> None:
    source = (
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        1/0\n"
    )

    class Total(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum()

    total = Total().eval()
    emitted = imported(text_for(source, facts_of(total, "()")), tmp_path)
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="tensor type"):
        assert emitted.optimized(total)(_sparse()) == total(_sparse())


def test_a_lazily_conjugated_tensor_runs_the_original(tmp_path: Path) -> None:
    source = (
        "import torch\n\nCALLS = [0]\n\n\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, x):\n        CALLS[0] += 1\n        return x * 2\n"
    )

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    row = {"dtype": "complex64", "shape": [4, 8], "strides": [8, 1]}
    sets = [{"name": "default", "args": [row]}]
    text = text_for(source, facts_of(Double(), "()"), input_sets=sets)
    emitted = imported(text, tmp_path)
    dropin, z = emitted.optimized(Double().eval()), torch.randn(4, 8, dtype=torch.complex64)
    dropin(z)
    dropin(z)
    assert emitted.CALLS == [2]
    assert torch.equal(falls_back(emitted, "tensor type", lambda: dropin(z.conj())), z.conj() * 2)


def test_each_reason_is_said_once_and_names_a_remedy(emitted: ModuleType) -> None:
    dropin = warmed(emitted)
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        for rows in (2, 3, 5, 6):
            dropin(torch.randn(rows, 8))
        dropin.train()
        dropin(X_)
        dropin(X_)
    texts = [str(warning.message) for warning in message]
    assert len(texts) == 2
    assert "(2, 8), verified: (4, 8)" in texts[0]
    assert "Optimize again" in texts[0]
    assert ".eval()" in texts[1]


def test_the_warning_points_at_the_users_line(emitted: ModuleType) -> None:
    dropin = warmed(emitted)
    with pytest.warns(emitted.OutsideEnvelopeWarning) as message:
        dropin(torch.randn(2, 8))
    assert message[0].filename == __file__


@pytest.mark.parametrize(
    ("reason", "context"),
    [
        ("autocast", lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
        ("tracing", lambda: FlopCounterMode(display=False)),
    ],
)
def test_what_is_in_force_around_a_call_is_seen_after_quick_calls(
    emitted: ModuleType, reason: str, context: Callable[[], AbstractContextManager[Any]]
) -> None:
    dropin = warmed(emitted)
    with context():
        expected = dropin.original(X_)
        assert torch.equal(falls_back(emitted, reason, lambda: dropin(X_)), expected)
    before = emitted.CALLS[0]
    dropin(X_)
    assert emitted.CALLS[0] == before + 1


def test_vmap_runs_the_original(emitted: ModuleType) -> None:
    dropin, batch = warmed(emitted), torch.randn(3, 4, 8)
    answer = falls_back(emitted, "transform", lambda: torch.func.vmap(dropin)(batch))
    torch.testing.assert_close(answer, torch.stack([dropin.original(x) for x in batch]))


def test_a_transform_around_a_tensor_from_outside_runs_the_original(emitted: ModuleType) -> None:
    dropin = warmed(emitted)
    falls_back(emitted, "transform", lambda: torch.func.vmap(lambda _: dropin(X_))(torch.ones(2)))


def test_forward_mode_differentiation_runs_the_original(emitted: ModuleType) -> None:
    dropin = warmed(emitted).requires_grad_(requires_grad=False)
    dropin(X_)
    assert dropin._dropin._is_accepted(X_, *dropin._dropin._watch.tensors)
    with torch.enable_grad(), forward_ad.dual_level():
        falls_back(emitted, "transform", lambda: dropin(X_))
    dropin(X_)
    dropin._dropin._warned.clear()
    with torch.enable_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(X_, torch.ones_like(X_))
        answer = falls_back(emitted, "transform", lambda: dropin(dual))
        assert forward_ad.unpack_dual(answer).tangent is not None


def test_a_function_mode_and_inference_mode_stay_on_the_kernel(emitted: ModuleType) -> None:
    class Watching(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
            return function(*args, **(kwargs or {}))

    dropin = warmed(emitted)
    for context in (Watching(), torch.inference_mode(), nullcontext()):
        with context:
            before = emitted.CALLS[0]
            dropin(X_)
            dropin(X_)
            assert emitted.CALLS[0] == before + 2


@pytest.mark.parametrize("wanted_by", ["input", "parameter"])
def test_a_call_that_records_gradients_runs_the_original(
    emitted: ModuleType, wanted_by: str
) -> None:
    dropin = warmed(emitted)
    dropin.requires_grad_(wanted_by == "parameter")
    x = X_.clone().requires_grad_(wanted_by == "input")
    dropin(x)
    with torch.enable_grad():
        falls_back(emitted, "gradient", lambda: dropin(x)).sum().backward()
    assert (x if wanted_by == "input" else dropin.gain).grad is not None


def test_recording_gradients_that_nothing_needs_stays_on_the_kernel(emitted: ModuleType) -> None:
    dropin = warmed(emitted)
    dropin.requires_grad_(requires_grad=False)
    before = emitted.CALLS[0]
    with torch.enable_grad():
        dropin(X_)
        dropin(X_)
        assert emitted.CALLS[0] == before + 2
        dropin.fc.bias.requires_grad_()
        falls_back(emitted, "gradient", lambda: dropin(X_))


def test_gradients_and_both_modes_are_covered_where_they_were_verified(tmp_path: Path) -> None:
    source = CANDIDATE.replace("CALLS[0] += 1", "CALLS.append(self.training)")
    emitted = imported(text_for(source, modes=["eval", "train"]), tmp_path)
    dropin = emitted.optimized(Block())
    with torch.enable_grad():
        dropin(X_).sum().backward()
        dropin.eval()(X_).sum().backward()
    assert emitted.CALLS[1:] == [True, False]
    assert dropin.gain.grad is not None


def test_training_without_gradients_is_covered_where_the_flag_means_nothing(
    tmp_path: Path,
) -> None:
    emitted = imported(text_for(mode_independent=True), tmp_path)
    dropin = emitted.optimized(Block())
    dropin.train()(X_)
    assert emitted.CALLS == [1]


def test_cpu_tensors_run_the_original_when_a_gpu_was_stood_in_for(tmp_path: Path) -> None:
    emitted = imported(text_for(device_types=["cuda"]), tmp_path)
    block = Block().eval()
    answer = falls_back(emitted, "device", lambda: emitted.optimized(block)(X_))
    assert torch.equal(answer, block(X_))


def test_an_input_on_another_device_than_the_parameters_runs_the_original(
    tmp_path: Path,
) -> None:
    emitted = imported(text_for(device_types=["cpu", "meta"]), tmp_path)
    dropin = warmed(emitted)
    with (
        pytest.warns(emitted.OutsideEnvelopeWarning, match="arguments and parameters are on"),
        pytest.raises(RuntimeError, match="device"),
    ):
        dropin(X_.to("meta"))


def test_arguments_by_name_are_put_as_they_were_verified(emitted: ModuleType) -> None:
    dropin = warmed(emitted)
    before = emitted.CALLS[0]
    expected = dropin.original(X_)
    torch.testing.assert_close(dropin(x=X_), expected)
    torch.testing.assert_close(dropin(X_, 1.0), expected)
    torch.testing.assert_close(dropin(X_, scale=1.0), expected)
    assert emitted.CALLS[0] == before + 3
    assert torch.equal(
        falls_back(emitted, "arguments", lambda: dropin(X_, scale=2.0)), 2 * expected
    )


def test_arguments_that_fit_no_signature_raise_what_the_original_raises(
    emitted: ModuleType,
) -> None:
    dropin = warmed(emitted)
    with (
        pytest.warns(emitted.OutsideEnvelopeWarning, match="arguments"),
        pytest.raises(TypeError, match="unexpected keyword"),
    ):
        dropin(X_, nonsense=1)


def test_other_values_of_plain_arguments_run_the_original(tmp_path: Path) -> None:
    sets = [{"name": "default", "args": [X], "kwargs": {"scale": {"literal": "0.5"}}}]
    emitted = imported(text_for(input_sets=sets), tmp_path)
    dropin = emitted.optimized(Block().eval())
    torch.testing.assert_close(dropin(X_, scale=0.5), dropin.original(X_, scale=0.5))
    torch.testing.assert_close(dropin(X_, 0.5), dropin.original(X_, 0.5))
    assert emitted.CALLS == [2]
    answer = falls_back(emitted, "value", lambda: dropin(X_, scale=0.25))
    assert torch.equal(answer, dropin.original(X_, 0.25))


def test_a_value_that_cannot_be_written_down_is_never_taken_for_the_verified_one(
    tmp_path: Path,
) -> None:
    sets = [{"name": "default", "args": [X], "kwargs": {"scale": {"literal": "<Fraction>"}}}]
    emitted = imported(text_for(input_sets=sets), tmp_path)
    dropin = emitted.optimized(Block().eval())
    with (
        pytest.warns(emitted.OutsideEnvelopeWarning, match="value"),
        pytest.raises(TypeError, match="Fraction"),
    ):
        dropin(X_, scale=Fraction(1, 2))


def test_zero_and_minus_zero_are_two_values(tmp_path: Path) -> None:
    sets = [{"name": "default", "args": [X], "kwargs": {"scale": {"literal": "0.0"}}}]
    emitted = imported(text_for(input_sets=sets), tmp_path)
    dropin = emitted.optimized(Block().eval())
    for _ in range(2):
        dropin(X_, scale=0.0)
    assert emitted.CALLS == [2]
    falls_back(emitted, "value", lambda: dropin(X_, scale=-0.0))


def test_nests_of_arguments_are_compared_leaf_by_leaf(tmp_path: Path) -> None:
    row = {"dtype": "float32", "shape": [3]}
    args = [{"tuple": [row, row]}, {"dict": {"w": row}}]
    sets = [{"name": "default", "args": args, "kwargs": {"power": {"literal": "3"}}}]
    emitted = imported(text_for(NESTED, facts_of(Nested(), "()"), input_sets=sets), tmp_path)
    dropin, item = emitted.optimized(Nested().eval()), torch.ones(3)
    for _ in range(2):
        assert torch.equal(dropin((item, item), {"w": item}, power=3), item * 8)
    assert emitted.CALLS == [2]
    for reason, call in (
        ("value", lambda: dropin((item, item), {"w": item}, power=3.0)),
        ("arguments", lambda: dropin([item, item], {"w": item}, power=3)),
        ("arguments", lambda: dropin((item, item), {"w": item, "v": item}, power=3)),
        ("dtype", lambda: dropin((item, item.double()), {"w": item}, power=3)),
        ("shape", lambda: dropin((item, item), {"w": torch.ones(1)}, power=3)),
    ):
        dropin._dropin._warned.clear()
        falls_back(emitted, reason, call)


def test_each_of_several_input_sets_is_covered(tmp_path: Path) -> None:
    sets = [
        {"name": "small", "args": [X]},
        {"name": "large", "args": [{"dtype": "float32", "shape": [64, 8]}]},
    ]
    emitted = imported(text_for(input_sets=sets), tmp_path)
    dropin = emitted.optimized(Block().eval())
    for rows in (4, 64, 4, 64):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(dropin(x), dropin.original(x))
    assert emitted.CALLS == [4]
    falls_back(emitted, "shape", lambda: dropin(torch.randn(5, 8)))


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ("any", {1, 7, 64}),
        ({"min": 7}, {7, 64}),
        ({"max": 7}, {1, 7}),
        ({"multiple_of": 8}, {64}),
        (7, {7}),
    ],
)
def test_a_rule_for_a_size_covers_what_it_says(
    rule: Any, covered: set[int], tmp_path: Path
) -> None:
    sets = [{"name": "default", "args": [{"dtype": "float32", "shape": [rule, 8]}]}]
    emitted = imported(text_for(input_sets=sets), tmp_path)
    for rows in (1, 7, 64):
        dropin, before = emitted.optimized(Block().eval()), emitted.CALLS[0]
        if rows in covered:
            dropin(torch.randn(rows, 8))
            assert emitted.CALLS[0] == before + 1
        else:
            falls_back(emitted, "shape", lambda d=dropin, n=rows: d(torch.randn(n, 8)))


def test_sizes_of_one_name_must_agree(tmp_path: Path) -> None:
    row = {"dtype": "float32", "shape": [{"min": 1, "name": "n"}]}
    args = [{"tuple": [row, row]}, {"dict": {"w": row}}]
    emitted = imported(
        text_for(NESTED, facts_of(Nested(), "()"), input_sets=[{"name": "d", "args": args}]),
        tmp_path,
    )
    dropin = emitted.optimized(Nested().eval())
    dropin((torch.ones(5), torch.ones(5)), {"w": torch.ones(5)})
    assert emitted.CALLS == [1]
    ones = (torch.ones(5), torch.ones(5))
    falls_back(emitted, "shape", lambda: dropin(ones, {"w": torch.ones(1)}))


def test_an_error_of_the_kernel_is_not_hidden(tmp_path: Path) -> None:
    source = CANDIDATE.replace("CALLS[0] += 1", 'raise RuntimeError("a bug")')
    emitted = imported(text_for(source), tmp_path)
    with pytest.raises(RuntimeError, match="a bug"):
        emitted.optimized(Block().eval())(X_)


def test_the_guard_works_without_torchs_own_comparison(tmp_path: Path) -> None:
    emitted = imported(text_for(), tmp_path)
    emitted._TensorGuards = None
    dropin = warmed(emitted)
    falls_back(emitted, "shape", lambda: dropin(torch.randn(5, 8)))
    dropin.half()
    falls_back(emitted, "dtype", lambda: dropin(X_.half()))


@pytest.mark.long
@pytest.mark.parametrize("rows", [4, 5])
def test_compiling_around_it_keeps_the_answer(emitted: ModuleType, rows: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), warmed(emitted), torch.nn.ReLU()).eval()
    x = torch.randn(rows, 8)
    expected = torch.relu(model[1].original(model[0](x)))
    before = emitted.CALLS[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend="eager", fullgraph=False)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), expected)
        alone = torch.compile(model[1], backend="eager")
        torch.testing.assert_close(alone(x), model[1].original(x))
    assert emitted.CALLS[0] - before == (4 if rows == 4 else 0)


def test_a_jit_trace_holds_the_original(emitted: ModuleType) -> None:
    dropin, x = warmed(emitted), torch.randn(4, 8)
    traced = falls_back(
        emitted, "tracing", lambda: torch.jit.trace(dropin, (X_,), check_trace=False)
    )
    torch.testing.assert_close(traced(x), dropin.original(x))


@pytest.mark.long
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(0, 8),
    columns=st.just(8),
    batch=st.lists(st.integers(1, 3), max_size=2),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    transposed=st.booleans(),
    offset=st.integers(0, 5),
    by_name=st.booleans(),
)
def test_the_answer_is_right_for_any_input_near_the_verified_one(
    emitted: ModuleType,
    rows: int,
    columns: int,
    batch: list[int],
    dtype: torch.dtype,
    transposed: bool,
    offset: int,
    by_name: bool,
) -> None:
    block = Block(columns).eval().to(dtype)
    dropin = emitted.optimized(block)
    shape = (*batch, columns, rows) if transposed else (*batch, rows, columns)
    count = torch.Size(shape).numel()
    x = torch.randn(count + offset, dtype=torch.float64).to(dtype)[offset:].view(shape)
    x = x.mT if transposed else x
    exact = (
        not batch and rows == 4 and dtype is torch.float32 and not transposed and offset % 4 == 0
    )
    before = emitted.CALLS[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = dropin(x=x) if by_name else dropin(x)
        again = dropin(x)
    torch.testing.assert_close(answer, block(x))
    torch.testing.assert_close(again, block(x))
    assert emitted.CALLS[0] - before == (2 if exact else 0)


def test_the_forward_has_the_signature_of_the_original(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    assert inspect.signature(dropin.forward) == inspect.signature(Block().forward)
