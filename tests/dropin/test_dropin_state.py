from __future__ import annotations

import copy
import functools
import io
import pickle
import random
import types
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.dropin.emitted import CANDIDATE, Block, facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(8, 8, bias=False)
        self.two = torch.nn.Linear(8, 8, bias=False)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x).relu())


TIED = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(8, 8, bias=False)
        self.two = torch.nn.Linear(8, 8, bias=False)
        CALLS.append(self)

    def forward(self, x):
        return (x @ self.one.weight.t()).relu() @ self.two.weight.t()


CALLS = []
"""


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return imported(text_for(), tmp_path_factory.mktemp("emitted"))


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


def by_kernel(emitted: ModuleType, dropin: torch.nn.Module, x: torch.Tensor = X) -> torch.Tensor:
    """The answer, with the proof that `ModelNew` gave it."""
    before = emitted.CALLS[0]
    answer: torch.Tensor = dropin(x)
    assert emitted.CALLS[0] == before + 1
    return answer


def agrees(emitted: ModuleType, dropin: torch.nn.Module, original: torch.nn.Module) -> None:
    torch.testing.assert_close(by_kernel(emitted, dropin), original(X))


def test_the_dropin_is_an_instance_of_the_original_class_and_gives_it_back(
    emitted: ModuleType,
) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    assert isinstance(dropin, Block)
    assert dropin is not block
    assert dropin.original is block
    assert emitted.optimized(dropin).original is block
    agrees(emitted, dropin, block)


def test_parameters_and_buffers_are_the_very_same_objects(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    ours = {**dict(dropin.named_parameters()), **dict(dropin.named_buffers())}
    theirs = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    assert ours.keys() == theirs.keys()
    assert all(ours[name] is theirs[name] for name in theirs)
    assert len(list(dropin.modules())) == len(list(block.modules()))


def test_an_optimizer_of_either_updates_both(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    before = by_kernel(emitted, dropin)
    optimizer = torch.optim.SGD(dropin.parameters(), lr=0.5)
    with torch.enable_grad():
        block(X).square().sum().backward()
    optimizer.step()
    assert not torch.equal(by_kernel(emitted, dropin), before)
    agrees(emitted, dropin, block)


def test_a_state_dict_goes_round_strictly(emitted: ModuleType) -> None:
    block, other = Block().eval(), Block().eval()
    dropin = emitted.optimized(block)
    assert dropin.state_dict().keys() == block.state_dict().keys()
    dropin.load_state_dict(other.state_dict(), strict=True)
    agrees(emitted, dropin, other)
    other.load_state_dict(dropin.state_dict(), strict=True)
    agrees(emitted, dropin, block)


@pytest.mark.parametrize("into", ["dropin", "original"])
def test_assigning_a_state_dict_reaches_the_kernel(emitted: ModuleType, into: str) -> None:
    block, other = Block().eval(), Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    target = dropin if into == "dropin" else block
    target.load_state_dict(other.state_dict(), assign=True)
    agrees(emitted, dropin, other)
    agrees(emitted, dropin, block)


def test_a_parameter_put_into_a_submodule_reaches_the_kernel(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    dropin.fc.weight = torch.nn.Parameter(torch.randn(8, 8))
    block.gain = torch.nn.Parameter(torch.randn(8))
    block.shift = torch.randn(8)
    dropin.fc.bias.data = torch.randn(8)
    agrees(emitted, dropin, block)


def test_entries_whose_dicts_differ_are_bound_one_by_one(tmp_path: Path) -> None:
    source = CANDIDATE.replace(
        'self.register_buffer("shift", torch.randn(width))',
        'self.register_buffer("shift", torch.randn(width)); self.register_parameter("no", None)',
    )
    emitted = imported(text_for(source), tmp_path)
    block = Block().eval()
    dropin = emitted.optimized(block)
    agrees(emitted, dropin, block)
    block.gain = torch.nn.Parameter(torch.randn(8))
    agrees(emitted, dropin, block)


def test_half_falls_back_and_float_returns_to_the_kernel(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin.half()
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="dtype"):
        halved = dropin(X.half())
    assert halved.dtype is torch.float16
    assert block.gain.dtype is torch.float16
    block.float()
    agrees(emitted, dropin, block)


def test_another_dtype_behind_one_parameter_falls_back(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    dropin(X)
    dropin.gain.data = dropin.gain.data.double()
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="gain is torch.float64"):
        assert dropin(X).dtype is torch.float64


def test_a_transposed_parameter_falls_back(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    block.fc.weight = torch.nn.Parameter(torch.randn(8, 8).t())
    with pytest.warns(emitted.OutsideEnvelopeWarning, match=r"fc\.weight has strides"):
        assert torch.equal(dropin(X), block(X))


def test_an_added_parameter_falls_back(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    block.fc.register_parameter("extra", torch.nn.Parameter(torch.ones(1)))
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="structure"):
        assert torch.equal(dropin(X), block(X))


def test_a_function_kept_as_an_attribute_survives_a_copy_and_its_exchange_is_seen(
    emitted: ModuleType,
) -> None:
    block = Block().eval()
    block.activation = torch.relu
    block.initialise = lambda: None
    dropin = copy.deepcopy(emitted.optimized(block))
    by_kernel(emitted, dropin)
    dropin.initialise = lambda: 1
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="attribute initialise"):
        dropin(X)


def test_a_list_changed_in_place_falls_back(emitted: ModuleType) -> None:
    block = Block().eval()
    block.sizes = [1, 2]
    dropin = emitted.optimized(block)
    by_kernel(emitted, dropin)
    block.sizes.append(3)
    with pytest.warns(emitted.OutsideEnvelopeWarning, match=r"sizes is \[1, 2, 3\]"):
        dropin(X)


def test_weights_that_are_replaced_at_once_are_not_initialised(tmp_path: Path) -> None:
    source = CANDIDATE.replace(
        "self.gain = nn.Parameter(torch.randn(width))",
        "self.gain = nn.Parameter(torch.zeros(width)); nn.init.constant_(self.gain, 7.0); "
        "CALLS.append(self.gain.tolist())",
    )
    emitted = imported(text_for(source), tmp_path)
    emitted.optimized(Block())
    assert emitted.CALLS[1:] == [[0.0] * 8]


def test_a_table_of_its_own_survives_dtypes_devices_and_copies(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin._dropin.fast.table.fill_(0.1)
    expected = by_kernel(emitted, dropin)
    dropin.half().float()
    block.load_state_dict({k: v.half().float() for k, v in block.state_dict().items()})
    torch.testing.assert_close(by_kernel(emitted, copy.deepcopy(dropin)), block(X) * 0.1 / 2)
    torch.testing.assert_close(by_kernel(emitted, dropin), expected, rtol=0.05, atol=0.05)
    assert dropin._dropin.fast.table.item() == pytest.approx(0.1)


def test_a_table_of_its_own_follows_to_the_device(tmp_path: Path) -> None:
    emitted = imported(text_for(device_types=["cpu", "meta"]), tmp_path)
    dropin = emitted.optimized(Block().eval())
    assert by_kernel(emitted, dropin).device.type == "cpu"
    dropin.to("meta")
    assert by_kernel(emitted, dropin, X.to("meta")).device.type == "meta"
    assert dropin._dropin.fast.table.device.type == "meta"


def test_a_deep_copy_stands_alone(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    expected = by_kernel(emitted, dropin)
    copied = copy.deepcopy(dropin)
    block.gain.zero_()
    assert isinstance(copied, Block)
    assert copied.gain is copied.original.gain
    assert copied.gain is not block.gain
    torch.testing.assert_close(by_kernel(emitted, copied), expected)
    copied.fc.weight.zero_()
    agrees(emitted, copied, copied.original)


def test_a_shallow_copy_shares_the_parameters(emitted: ModuleType) -> None:
    block = Block().eval()
    copied = copy.copy(emitted.optimized(block))
    assert copied.gain is block.gain
    agrees(emitted, copied, block)


def test_a_pickle_goes_round(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    for back in (
        pickle.loads(pickle.dumps(dropin)),
        torch.load(_saved(dropin), weights_only=False),
    ):
        assert isinstance(back, Block)
        agrees(emitted, back, block)
        back.gain.zero_()
        agrees(emitted, back, back.original)


def _saved(module: torch.nn.Module) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return buffer


def test_it_works_inside_a_larger_model(emitted: ModuleType) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Block(), torch.nn.ReLU()).eval()
    names, expected = list(model.state_dict()), model(X)
    model[1] = emitted.optimized(model[1])
    assert list(model.state_dict()) == names
    torch.testing.assert_close(by_kernel(emitted, model), expected)
    torch.testing.assert_close(by_kernel(emitted, copy.deepcopy(model)), expected)


def test_a_forward_hook_runs_once_by_kernel_and_by_fallback(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    seen: list[torch.Size] = []
    handle = dropin.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    dropin.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    by_kernel(emitted, dropin)
    assert seen == [(4, 8), (4, 8)]
    with pytest.warns(emitted.OutsideEnvelopeWarning):
        dropin(torch.randn(2, 8))
    assert seen[2:] == [(2, 8), (2, 8)]
    handle.remove()
    by_kernel(emitted, dropin)
    assert len(seen) == 5


def test_a_hook_on_a_submodule_runs_because_the_original_does(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    dropin(X)
    seen: list[int] = []
    handle = dropin.fc.register_forward_hook(lambda *_: seen.append(1))
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="hook"):
        dropin(X)
    assert seen == [1]
    handle.remove()
    by_kernel(emitted, dropin)


def test_a_hook_on_all_modules_runs_because_the_original_does(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    seen: list[str] = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, output: seen.append(type(module).__name__)
    )
    try:
        with pytest.warns(emitted.OutsideEnvelopeWarning, match="hook"):
            dropin(X)
    finally:
        handle.remove()
    assert seen == ["Linear", "Dropout", "OptimizedBlock"]


def test_training_mode_is_shared_and_runs_the_original(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin.train()
    assert block.training
    assert block.drop.training
    torch.manual_seed(3)
    expected = block(X)
    torch.manual_seed(3)
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="mode"):
        assert torch.equal(dropin(X), expected)
    dropin.eval()
    agrees(emitted, dropin, block)


def test_one_submodule_in_training_mode_runs_the_original(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Block().eval())
    dropin(X)
    dropin.drop.train()
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="mode"):
        dropin(X)


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    tied = Tied().eval()
    emitted = imported(text_for(TIED, facts_of(tied, "()")), tmp_path)
    dropin = emitted.optimized(tied)
    assert len(list(dropin.parameters())) == 1
    torch.testing.assert_close(dropin(X), tied(X))
    copied = pickle.loads(pickle.dumps(dropin))
    assert copied.one.weight is copied.two.weight
    assert copied._dropin.fast.one.weight is copied._dropin.fast.two.weight
    copied.one.weight.zero_()
    assert not copied(X).any()


@pytest.mark.parametrize("on", ["dropin", "original"])
def test_a_changed_attribute_runs_the_original(emitted: ModuleType, on: str) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    (dropin if on == "dropin" else block).eps = 1.0
    with pytest.warns(emitted.OutsideEnvelopeWarning, match=r"attribute eps is 1\.0"):
        assert torch.equal(dropin(X), block(X))
    block.eps = 1e-6
    agrees(emitted, dropin, block)


def test_a_module_with_another_attribute_than_the_verified_one_is_refused(tmp_path: Path) -> None:
    attributes = {"": {"class": "Block", "eps": "1e-06", "width": "8"}}
    emitted = imported(text_for(attributes=attributes), tmp_path)
    with pytest.raises(TypeError, match=r"attribute eps is 0\.5, verified: 1e-06"):
        emitted.optimized(Block(eps=0.5).eval())
    by_kernel(emitted, emitted.optimized(Block().eval()))


def test_a_replaced_submodule_runs_the_original(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    dropin.drop = torch.nn.Tanh()
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="structure"):
        assert torch.equal(dropin(X), block(X))


def test_a_parametrized_submodule_runs_the_original(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    dropin(X)
    torch.nn.utils.parametrizations.weight_norm(dropin.fc)
    dropin.fc.parametrizations.weight.original0.mul_(2.0)
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="structure"):
        assert torch.equal(dropin(X), block(X))


def test_parameters_swapped_for_one_call_are_the_ones_used(emitted: ModuleType) -> None:
    block, other = Block().eval(), Block().eval()
    dropin = emitted.optimized(block)
    values = {name: tensor.detach().clone() for name, tensor in other.state_dict().items()}
    swapped = torch.func.functional_call(dropin, values, (X,))
    torch.testing.assert_close(swapped, other(X))
    agrees(emitted, dropin, block)


def test_a_module_with_another_state_is_refused_by_name(emitted: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"fc\.bias: \(9,\), not \(8,\)"):
        emitted.optimized(Block(9))
    with pytest.raises(TypeError, match="parameters or buffers differ"):
        emitted.optimized(torch.nn.Linear(8, 8))


def test_a_forward_replaced_on_the_instance_is_refused(emitted: ModuleType) -> None:
    block = Block()
    block.forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="replaced on the instance"):
        emitted.optimized(block)


def test_a_module_with_an_attribute_called_original_keeps_it(tmp_path: Path) -> None:
    class Wrapper(Tied):
        def __init__(self) -> None:
            super().__init__()
            self.original = "mine"

    wrapper = Wrapper().eval()
    emitted = imported(text_for(TIED, facts_of(wrapper, "()")), tmp_path)
    assert emitted.optimized(wrapper).original == "mine"


def test_building_a_dropin_draws_no_random_number(emitted: ModuleType) -> None:
    block = Block()
    torch.manual_seed(5)
    random.seed(5)
    expected = torch.rand(3), random.random()
    torch.manual_seed(5)
    random.seed(5)
    emitted.optimized(block)
    assert torch.equal(torch.rand(3), expected[0])
    assert random.random() == expected[1]


class Running(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.5).add_(x.mean(0))
        self.seen += 1
        return x - self.mean


RUNNING = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        CALLS[0] += 1
        self.mean = 0.5 * self.mean + x.mean(0)
        self.seen += 1
        return x - self.mean


CALLS = [0]
"""


def test_buffers_that_the_kernels_bind_anew_are_the_originals_all_the_same(tmp_path: Path) -> None:
    original, alone = Running().eval(), Running().eval()
    held, facts = original.mean, facts_of(original, "()")
    emitted = imported(text_for(RUNNING, facts, binds=True), tmp_path)
    dropin = emitted.optimized(original)
    for x in (X, X + 1, X * 2):
        torch.testing.assert_close(by_kernel(emitted, dropin, x), alone(x))
    assert dropin.mean is held
    torch.testing.assert_close(dropin.state_dict(), alone.state_dict())
    torch.testing.assert_close(original(X), alone(X))


def test_from_reference_builds_from_the_live_module(tmp_path: Path) -> None:
    source = CANDIDATE + (
        "\n    @classmethod\n    def from_reference(cls, module):\n"
        "        return cls(module.width, module.eps)\n"
    )
    facts = facts_of(Block())
    emitted = imported(text_for(source, facts, constructor="init"), tmp_path)
    assert "from_reference(module)" not in text_for(source, facts).split("# The drop-in.")[1]
    live = imported(text_for(source, _live(facts)), tmp_path)
    block = Block(eps=0.25).eval()
    agrees(live, live.optimized(block), block)
    assert isinstance(emitted.optimized(Block()), Block)


def _live(facts: object) -> object:
    from dataclasses import replace

    return replace(facts, constructor="from_reference", init_arguments="()")


def _seen(emitted: ModuleType, dropin: torch.nn.Module, change: str) -> None:
    """A change that no state_dict shows: seen at the next call, and the original answers."""
    by_kernel(emitted, dropin)
    by_kernel(emitted, dropin)
    exec(change, {"torch": torch, "m": dropin, "partial": functools.partial})
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="what was verified"):
        assert torch.equal(dropin(X), dropin.original(X))


@pytest.mark.parametrize(
    "change",
    [
        "m.scratch.fill_(1.0)",
        "m.scratch = torch.ones(1)",
        "m.scratch.data = torch.ones(1)",
        "m.table.add_(1.0)",
        "m.table = torch.full((2,), 3.0)",
        "m.tables['a'][0].mul_(2.0)",
        "m.tables['a'][0] = torch.zeros(2)",
        "m.tables['b'] = [torch.zeros(2)]",
        "m.names['act'] = 'relu'",
        "m.sizes[1].append(3)",
        "m.act = partial(torch.nn.functional.gelu, approximate='none')",
        "m.scaled.keywords['input'].fill_(1.0)",
        "m.plain.add_(1.0)",
    ],
)
def test_what_no_state_dict_shows_is_compared(emitted: ModuleType, change: str) -> None:
    block = Block().eval()
    block.table = torch.full((2,), 2.0)
    block.tables = {"a": [torch.ones(2)], "scale": 2.0}
    block.names, block.sizes = {"act": "gelu"}, [1, [2]]
    block.act = functools.partial(torch.nn.functional.gelu, approximate="tanh")
    block.scaled = functools.partial(torch.mul, input=torch.zeros(2))
    block.plain = torch.ones(2)
    _seen(emitted, emitted.optimized(block), change)


def test_what_no_state_dict_shows_survives_copies_and_does_not_slow_calls(
    emitted: ModuleType,
) -> None:
    block = Block().eval()
    block.tables, block.names = {"a": [torch.ones(2)]}, {"act": "gelu"}
    block.act = functools.partial(torch.nn.functional.gelu, approximate="tanh")
    block.config = types.SimpleNamespace(eps=1.0)
    dropin = emitted.optimized(block)
    by_kernel(emitted, dropin)
    guard = dropin._dropin
    watch = guard._watch
    by_kernel(emitted, dropin)
    assert guard._watch is watch
    assert watch.is_quiet()
    for other in (copy.deepcopy(dropin), pickle.loads(pickle.dumps(dropin))):
        by_kernel(emitted, other)


def test_another_default_dtype_runs_the_original(emitted: ModuleType) -> None:
    block = Block().eval()
    dropin = emitted.optimized(block)
    by_kernel(emitted, dropin)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.warns(emitted.OutsideEnvelopeWarning, match="default dtype"):
            assert torch.equal(dropin(X), block(X))
    finally:
        torch.set_default_dtype(torch.float32)
    agrees(emitted, dropin, block)


class Leaving(torch.nn.Module):
    """Leaves values in an attribute, in a part's and in an unsaved buffer, and goes on from the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.last: torch.Tensor | None = None
        self.part = torch.nn.Identity()
        self.register_buffer("sizes", torch.zeros(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.last is None else 0.5 * self.last + x
        self.last, self.part.mean = y.detach(), float(y.mean())
        self.sizes.copy_(y.abs().mean(0))
        return y * 2.0


LEAVING = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None
        self.part = torch.nn.Identity()
        self.register_buffer("sizes", torch.zeros(8), persistent=False)

    def forward(self, x):
        CALLS[0] += 1
        y = x if self.last is None else 0.5 * self.last + x
        self.last, self.part.mean = y.detach(), float(y.mean())
        self.sizes.copy_(y.abs().mean(0))
        return y * 2.0


CALLS = [0]
"""


@pytest.mark.parametrize("fallback", [False, True], ids=["by kernel", "with a fallback"])
def test_what_calls_leave_is_the_originals_and_the_kernels_go_on_from_it(
    tmp_path: Path, fallback: bool
) -> None:
    original, alone = Leaving().eval(), Leaving().eval()
    leaves = ["last", "part.mean", "sizes"]
    text = text_for(LEAVING, facts_of(original, "()"), leaves=leaves)
    emitted = imported(text, tmp_path)
    dropin = emitted.optimized(original)
    for number, x in enumerate((X, X + 1, X * 2)):
        if fallback and number == 1:
            # As a call outside of what was verified does.
            torch.testing.assert_close(original(x), alone(x))
        else:
            torch.testing.assert_close(by_kernel(emitted, dropin, x), alone(x))
        torch.testing.assert_close(original.last, alone.last)
        torch.testing.assert_close(original.sizes, alone.sizes)
        assert original.part.mean == alone.part.mean
    dropin.last = alone.last = None
    torch.testing.assert_close(by_kernel(emitted, dropin, X), alone(X))


REBINDING = """\
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        CALLS[0] += 1
        y = Scale.apply(x, self.mean)
        self.mean = 0.5 * self.mean + x.detach().mean(0)
        self.seen += 1
        return y


CALLS = [0]
"""


def test_a_buffer_that_is_bound_anew_leaves_to_the_backward_what_it_saved(tmp_path: Path) -> None:
    original = Running().train()
    with torch.no_grad():
        original.mean.fill_(3.0)
    facts = facts_of(original, "()")
    text = text_for(REBINDING, facts, binds=True, modes=["eval", "train"])
    emitted = imported(text, tmp_path)
    dropin = emitted.optimized(original)
    with torch.enable_grad():
        x = X.clone().requires_grad_()
        for _ in range(2):
            before = original.mean.clone()
            x.grad = None
            by_kernel(emitted, dropin, x).sum().backward()
            torch.testing.assert_close(x.grad, before.expand_as(X))
            torch.testing.assert_close(original.mean, 0.5 * before + X.mean(0))
