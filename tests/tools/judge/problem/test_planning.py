"""What is known before anything is drawn: sizes that fit, the memory they need, and when nothing does."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.domain.configuration.judge_settings import bytes_of
from kernelagent.domain.errors import EnvironmentFault, ProblemError, UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.estimates.recurrent import AtOnce
from kernelagent.tools.judge.problem import memory_plan
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.memory_need import BASE_BYTES
from kernelagent.tools.judge.problem.memory_plan import plan

HEAD = "import torch\nfrom torch import nn\n"
WIDE = """
width = 32768


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.linear = nn.Linear(size_in, size_out)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)).sum(1, keepdim=True)


def get_inputs():
    return [torch.rand(128, width)]


def get_init_inputs():
    return [width, width]
"""
VOLUME = """
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv3d(3, channels, 3)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(16, 3, 128, 128, 128)]


def get_init_inputs():
    return [64]
"""
GROUPED = """
class Model(nn.Module):
    def __init__(self, size, groups):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = nn.GroupNorm(groups, size)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.rand(1024, 8192)]


def get_init_inputs():
    return [8192, 256]
"""
FIXED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(65536, 65536))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.rand(128, 65536)]


def get_init_inputs():
    return []
"""

SHORTCUT = """
class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.conv = nn.Conv2d(width, out, 3, padding=1)
        self.shortcut = nn.Identity() if width == out else nn.Conv2d(width, out, 1)

    def forward(self, x):
        return self.conv(x) + self.shortcut(x)


def get_inputs():
    return [torch.rand(10, 240, 224, 224)]


def get_init_inputs():
    return [240, 480]
"""


BATCHED = """
class Model(nn.Module):
    def __init__(self, batch, length):
        super().__init__()
        self.batch = batch
        self.places = nn.Parameter(torch.randn(batch, length, 64))

    def forward(self, x):
        return torch.softmax(x @ x.transpose(1, 2), -1) @ (x + self.places)


def get_inputs():
    return [torch.rand({batch}, {length}, 64)]


def get_init_inputs():
    return [{batch}, {length}]
"""
"""Its constructor decides how many rows there are."""


def planned(tmp_path: Path, text: str, limit: int = 4 << 30, level: int = 0):
    path = tmp_path / "problem.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return plan(load_problem(ProblemSpec(path=str(path))), "cpu", nullcontext, limit, level=level)


@pytest.mark.long
def test_weights_of_gigabytes_are_never_built_and_inner_sizes_give_way(tmp_path: Path) -> None:
    result = planned(tmp_path, WIDE)
    assert result.inner[32768] < 32768
    assert result.need.total < 4 << 30
    assert result.whole is not None
    assert result.whole.linear.weight.shape == (32768, 32768)
    assert result.whole.linear.weight.device.type == "meta"


@pytest.mark.long
def test_the_smaller_module_takes_the_smaller_inputs(tmp_path: Path) -> None:
    result = planned(tmp_path, WIDE)
    (source,) = result.sources
    (x,), _ = source.draw(0)
    with torch.no_grad():
        assert result.problem.build()(x).shape == (x.shape[0], 1)
    assert source.full[0][0].shape == (128, 32768), "the estimate is made at the user's sizes"


@pytest.mark.long
def test_what_was_made_smaller_is_said(tmp_path: Path) -> None:
    (source,) = planned(tmp_path, WIDE).sources
    for fact in ("instead of 32768", "constructor arguments"):
        assert fact in str(source.shrunk)


@pytest.mark.long
def test_spatial_sizes_of_a_volume_give_way_where_rows_do_not_suffice(tmp_path: Path) -> None:
    result = planned(tmp_path, VOLUME)
    (x,), _ = result.sources[0].draw(0)
    assert x.shape[1] == 3, "a size that says what the data is stays"
    assert x.numel() < 16 * 3 * 128**3 // 16


@pytest.mark.long
def test_what_need_not_be_smaller_stays(tmp_path: Path) -> None:
    result = planned(tmp_path, GROUPED)
    assert set(result.arguments) == {8192}, "the groups are fewer than the rows, and cost nothing"


@pytest.mark.long
def test_in_a_wide_volume_sizes_go_below_those_that_do_elsewhere(tmp_path: Path) -> None:
    wide = VOLUME.replace("rand(16, 3, 128, 128, 128)", "rand(16, 64, 64, 64, 64)")
    wide = wide.replace("Conv3d(3", "Conv3d(channels")
    result = planned(tmp_path, wide)
    (x,), _ = result.sources[0].draw(0)
    assert min(x.shape[1:]) == 16
    assert x.shape[0] >= 2


@pytest.mark.long
@pytest.mark.parametrize("level", range(memory_plan.LEVELS))
def test_a_layer_that_only_some_sizes_have_is_there_in_what_is_executed(
    tmp_path: Path, level: int
) -> None:
    result = planned(tmp_path, SHORTCUT, level=level)
    assert result.inner
    assert result.problem.build().shortcut.weight.dim() == 4


@pytest.mark.long
def test_rows_that_the_constructor_decides_give_way_with_it(tmp_path: Path) -> None:
    made = planned(tmp_path, BATCHED.format(batch=2048, length=512))
    assert made.arguments[2048] < 2048
    ((args, _),) = [source.draw(0) for source in made.sources]
    module = made.problem.build()
    assert module.places.shape == args[0].shape
    assert module(*args).shape == args[0].shape


@pytest.mark.long
def test_rows_that_the_module_fixes_end_with_words_where_they_are_too_many(
    tmp_path: Path,
) -> None:
    text = BATCHED.format(batch=2048, length=512).replace("randn(batch", "randn(2048")
    with pytest.raises(ProblemError, match="accepts no smaller ones"):
        planned(tmp_path, text)


@pytest.mark.long
def test_a_higher_level_is_never_larger(tmp_path: Path) -> None:
    first, second = (planned(tmp_path, WIDE, level=level) for level in (0, 2))
    assert second.need.total <= first.need.total


@pytest.mark.long
def test_a_module_that_fixes_its_sizes_ends_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"needs .* GB of memory and may have 4.3 GB"):
        planned(tmp_path, FIXED)


def test_a_small_problem_is_planned_as_given(tmp_path: Path) -> None:
    result = planned(tmp_path, WIDE.replace("32768", "64"))
    assert result.sources[0].shrunk is None
    assert not result.inner
    assert result.need.total < BASE_BYTES + (64 << 20)


LENGTHS = """
class Model(nn.Module):
    def forward(self, x, lengths):
        return x.exp() * lengths.sum()


def get_inputs():
    return [torch.rand(3072, 512), torch.randint(1, 1024, (3,))]


def get_init_inputs():
    return []
"""


def test_rows_that_numbers_may_count_are_planned_as_given_until_time_runs_out(
    tmp_path: Path,
) -> None:
    result = planned(tmp_path, LENGTHS)
    assert result.sources[0].shrunk is None
    assert not result.inner
    assert planned(tmp_path, LENGTHS, level=1).sources[0].shrunk is not None


@pytest.mark.parametrize(
    ("text", "size"),
    [("8G", 8 * 10**9), ("3.5GB", 35 * 10**8), ("800M", 8 * 10**8), ("1024", 1024)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "lots", "0G", "-1G"])
def test_a_size_that_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--memory-limit"):
        bytes_of(text)


RELU = """
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(4, 8), torch.randn(4, 8)]
"""
LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (RELU, "takes 2 positional arguments but 3 were given"),
        (LINEAR, "mat1 and mat2 shapes cannot be multiplied (4x8 and 16x16)"),
        (LINEAR.replace("4, 8", "65536, 4096"), "same reduction dim, but got [65536, 4096]"),
    ],
)
def test_inputs_that_do_not_fit_the_forward_are_not_called_too_large(
    tmp_path: Path, text: str, cause: str
) -> None:
    with pytest.raises(ProblemError) as refused:
        planned(tmp_path, text)
    assert str(refused.value).startswith("the inputs do not fit the forward of Model:")
    assert cause in str(refused.value)
    assert "too large" not in str(refused.value)


def test_a_small_forward_that_reads_values_is_planned_with_its_contents(tmp_path: Path) -> None:
    text = LINEAR.replace("4, 8", "4, 16").replace("(x)\n\n\ndef", "(x) * float(x.max())\n\n\ndef")
    assert planned(tmp_path, text).sources[0].shrunk is None


COUNTED = """
class Model(nn.Module):
    def forward(self, labels):
        return torch.bincount(labels, minlength=32)


def get_inputs():
    return [torch.randint(0, 32, (700,))]


def get_init_inputs():
    return []
"""


def test_a_small_problem_whose_forward_reads_values_is_planned_as_given(tmp_path):
    (source,) = planned(tmp_path, COUNTED).sources
    assert source.shrunk is None
    (labels,), _ = source.draw(0)
    assert labels.shape == (700,)


RECURRENT = """
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.lstm = nn.LSTM(size, size, 6, batch_first=True)

    def forward(self, x):
        out, (hidden, cell) = self.lstm(x)
        return out[:, -1], hidden, cell


def get_inputs():
    return [torch.rand(8, 512, 256)]


def get_init_inputs():
    return [256]
"""


class Counted(TorchDispatchMode):
    operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.long
def test_a_recurrent_layer_is_not_unrolled_to_learn_its_shapes(tmp_path: Path) -> None:
    with Counted() as counted:
        (source,) = planned(tmp_path, RECURRENT).sources
    assert source.shrunk is not None, "its operations were counted all the same"
    assert counted.operations < 20_000, "one forward is 46,000 when each token is a step"


def test_a_recurrent_layer_at_once_has_the_shapes_of_the_real_one() -> None:
    x = torch.rand(3, 7, 16)
    for layer in (
        nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True),
        nn.LSTM(16, 8, proj_size=4),
        nn.GRU(16, 8, 2, batch_first=True),
        nn.RNN(16, 8, bidirectional=True),
    ):
        real = [t.shape for t in tensors_of(layer(x))]
        with AtOnce() as at_once:
            hollow = tensors_of(layer.to("meta")(x.to("meta")))
        assert [t.shape for t in hollow] == real
        assert at_once.flops > 0
        assert at_once.steps == x.shape[1 if layer.batch_first else 0] * layer.num_layers * (
            2 if layer.bidirectional else 1
        )


@pytest.mark.long
def test_a_long_recurrence_is_executed_for_fewer_steps_though_its_products_are_small(
    tmp_path: Path,
) -> None:
    small = RECURRENT.replace("rand(8, 512, 256)", "rand(8, 512, 32)").replace("[256]", "[32]")
    (source,) = planned(tmp_path, small).sources
    assert source.shrunk is not None
    short = small.replace("rand(8, 512, 32)", "rand(8, 24, 32)")
    (source,) = planned(tmp_path, short).sources
    assert source.shrunk is None


@pytest.mark.long
def test_the_search_for_sizes_ends_after_so_many_operations_with_the_best_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thorough = planned(tmp_path, GROUPED)
    monkeypatch.setattr(memory_plan, "_MOST_OPERATIONS", 1)
    with Counted() as counted:
        soon = planned(tmp_path, GROUPED)
    assert soon.need.total < 4 << 30
    assert soon.arguments == {8192: 2048, 1024: 256, 256: 64}, "all sizes at once are tried first"
    assert set(thorough.arguments) == {8192}
    assert counted.operations < 300
