from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.trials.inputs import InputSource, input_sources
from kernelagent.tools.judge.problem.trials.interpreted_work import INTERPRETED_BYTES

HEAD = "import torch\nimport torch.nn as nn\n"


def sources(tmp_path: Path, text: str, *, may_shrink: bool = True) -> Mapping[str, InputSource]:
    path = tmp_path / "problem.py"
    path.write_text(HEAD + text, encoding="utf-8")
    problem = load_problem(ProblemSpec(path=str(path)))
    result = input_sources(
        problem, problem.build(), "cpu", lambda: nullcontext(), may_shrink=may_shrink
    )
    return {source.name: source for source in result}


def bytes_of(arguments: Any) -> int:
    args, kwargs = arguments
    return sum(t.numel() * t.element_size() for t in (*args, *kwargs.values()))


ROWS = """
class Model(nn.Module):
    def forward(self, x, scale):
        return torch.softmax(x * scale, -1)


def get_inputs():
    return [torch.rand(65536, 8192), torch.rand(8192)]
"""


def test_a_problem_of_gigabytes_is_drawn_small_and_kept_whole_on_paper(tmp_path: Path) -> None:
    source = sources(tmp_path, ROWS)["default"]
    assert source.shrunk is not None
    assert source.shrunk.was == 65536
    assert bytes_of(source.draw(0)) <= INTERPRETED_BYTES
    assert source.full[0][0].shape == (65536, 8192)
    assert source.full[0][0].device.type == "meta"
    assert source.draw(0)[0][1].shape == (8192,), "what is not a row count keeps its size"


def test_pairs_of_rows_are_executed_for_as_many_rows_as_there_is_time_for(tmp_path: Path) -> None:
    pairs = """
class Model(nn.Module):
    def forward(self, x):
        return torch.exp(-(x[:, None] - x[None]).square().sum(-1)).mean(-1)


def get_inputs():
    return [torch.rand(65536, 2)]
"""
    source = sources(tmp_path, pairs)["default"]
    assert source.shrunk is not None
    assert 256 < source.shrunk.now < 1024


def test_a_small_problem_runs_as_given(tmp_path: Path) -> None:
    source = sources(tmp_path, ROWS.replace("65536, 8192", "16, 64").replace("8192", "64"))[
        "default"
    ]
    assert source.shrunk is None
    assert source.draw(0)[0][0].shape == (16, 64)


def test_a_gpu_never_shrinks(tmp_path: Path) -> None:
    text = ROWS.replace("65536, 8192", "2048, 1024").replace("8192", "1024")
    assert sources(tmp_path, text, may_shrink=False)["default"].shrunk is None


def test_only_the_operand_that_can_shrink_is_shrunk(tmp_path: Path) -> None:
    text = """
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(2048, 2048), torch.randn(2048, 2048)]
"""
    source = sources(tmp_path, text)["default"]
    assert source.shrunk is not None
    (a, b), _ = source.draw(0)
    assert a.shape == (source.shrunk.now, 2048)
    assert b.shape == (2048, 2048)


@pytest.mark.long
def test_what_cannot_shrink_ends_with_the_flag_to_use(tmp_path: Path) -> None:
    text = """
class Model(nn.Module):
    def forward(self, x):
        return x.view(8192, 64, 128).sum(-1)


def get_inputs():
    return [torch.rand(8192, 8192)]
"""
    with pytest.raises(ProblemError, match="--inputs FUNCTION"):
        sources(tmp_path, text)


def test_inputs_of_one_seed_are_equal_and_of_two_are_not(tmp_path: Path) -> None:
    text = ROWS.replace("65536, 8192", "4, 8").replace("8192", "8")
    source = sources(tmp_path, text)["default"]
    first, again, other = (source.draw(seed)[0][0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


CACHE = """
class Model(nn.Module):
    def forward(self, cache, places):
        return cache[places].sum(-1)


def get_inputs():
    return [torch.rand(4096, 512), PLACES]
"""


def test_a_cache_that_numbers_point_into_keeps_its_rows(tmp_path: Path) -> None:
    source = sources(tmp_path, CACHE.replace("PLACES", "torch.randperm(4096).view(64, 64)"))[
        "default"
    ]
    assert source.shrunk is None
    (cache, places), _ = source.draw(0)
    assert cache.shape == (4096, 512)
    assert int(places.max()) == 4095


def test_a_cache_is_made_smaller_where_the_numbers_stay_within(tmp_path: Path) -> None:
    source = sources(tmp_path, CACHE.replace("PLACES", "torch.randint(0, 4, (4096,))"))["default"]
    assert source.shrunk is not None
    assert source.draw(0)[0][0].shape == (source.shrunk.now, 512)


LENGTHS = """
class Model(nn.Module):
    def forward(self, x, lengths):
        row = torch.arange(x.shape[0], device=x.device)
        request = torch.searchsorted(lengths.cumsum(0), row, right=True).clamp(max=2)
        return x.exp() * lengths[request][:, None]


def get_inputs():
    return [torch.rand(ROWS, 512), torch.randint(1, ROWS // 3, (3,))]
"""


def test_rows_that_lengths_may_count_are_as_many_as_the_user_gave(tmp_path: Path) -> None:
    source = sources(tmp_path, LENGTHS.replace("ROWS", "3072"))["default"]
    assert source.shrunk is None
    large = sources(tmp_path, LENGTHS.replace("ROWS", "98304"))["default"]
    assert large.shrunk is not None, (
        "what takes the interpreter minutes is made smaller all the same"
    )


@pytest.mark.long
def test_a_large_cache_that_numbers_point_into_ends_with_the_flag_to_use(tmp_path: Path) -> None:
    text = CACHE.replace("4096, 512", "65536, 512").replace(
        "PLACES", "torch.randperm(65536).view(256, 256)"
    )
    with pytest.raises(ProblemError, match="--inputs FUNCTION"):
        sources(tmp_path, text)
