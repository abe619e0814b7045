"""What is written of a reference for the file: all that calls with the verified inputs have read of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.envelope.envelope import read_in
from kernelagent.tools.judge.envelope.neighbours import neighbours
from kernelagent.tools.judge.problem.context import JudgeContext

pytestmark = pytest.mark.long

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


LIBRARY = """\
import torch

FACTOR = 2.0
_BACKENDS = {}


class Backend:
    def times(self, x):
        return x * FACTOR


def backend_of(x):
    if type(x) not in _BACKENDS:
        _BACKENDS[type(x)] = Backend()
    return _BACKENDS[type(x)]
"""
USES_IT = """\
import torch
import backends_of_somebody as library


class Model(torch.nn.Module):
    def forward(self, x):
        return library.backend_of(x).times(x)


def get_inputs():
    return [torch.randn(6, 32)]
"""


def test_what_a_library_finds_at_its_first_use_is_told_and_not_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "backends_of_somebody.py").write_text(LIBRARY, encoding="utf-8")
    (tmp_path / "toy.py").write_text(USES_IT, encoding="utf-8")
    spec = ProblemSpec(path=str(tmp_path / "toy.py"))
    opened = JudgeContext.open(JudgeSettings(spec, device="virtual"))
    try:
        reads = read_in(opened, opened.sources, opened.module_at_full_size)["reads"]
        remarks = {remark.code: remark.message for remark in opened.facts.disclosures}
    finally:
        opened.close()
    assert reads == {"FACTOR of backends_of_somebody": "2.0"}
    named = "`_BACKENDS of backends_of_somebody`, which a first call changes"
    assert f"your module reads {named}:" in remarks["read_from_outside"]
