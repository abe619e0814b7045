"""What is written of a reference for the file: all that calls with the verified inputs have read of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.envelope.envelope import read_in
from kernelagent.tools.judge.envelope.neighbours import neighbours
from kernelagent.tools.judge.problem.context import JudgeContext

PROBLEM = """\
import torch

OFFSETS = (1.0, 2.0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(32))
        self.register_buffer("table", torch.ones(32), persistent=False)
        self.scaling = {"factor": 2.0}
        self.number, self.alone = 3, 0.5

    def forward(self, x, past=None):
        if past is not None:
            return past[self.number]
        if x.shape[0] == 1:
            x = x * self.alone
        return x * self.gain * self.table * self.scaling["factor"] + OFFSETS[0]


def get_inputs():
    return [torch.randn(6, 32)]
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeContext]:
    path = tmp_path_factory.mktemp("read") / "toy.py"
    path.write_text(PROBLEM, encoding="utf-8")
    opened = JudgeContext.open(JudgeSettings(ProblemSpec(path=str(path)), device="virtual"))
    yield opened
    opened.close()


def test_a_dict_a_buffer_of_no_state_and_a_global_are_written_and_a_number_is_not(
    context: JudgeContext,
) -> None:
    read = read_in(context, context.sources, context.module_at_full_size)
    assert read["attributes"] == {"": {"class": "Model", "scaling": "{\"'factor'\": '2.0'}"}}
    assert read["reads"].keys() == {"the tensor table", "OFFSETS of <its file>"}
    assert read["reads"]["OFFSETS of <its file>"] == "(1.0, 2.0)"


def test_what_only_a_neighbour_reads_is_written_once_that_is_admitted(
    context: JudgeContext,
) -> None:
    (source,) = context.sources
    near = [item.source for item in neighbours(source, (), context.oracle, interpreted=True)]
    read = read_in(context, [source, *near], context.module_at_full_size)
    assert read["attributes"][""]["alone"] == "0.5"
