"""Operators of torch that take functions or kernels come by the modes with all that they call."""

from __future__ import annotations

import pytest
import torch
from torch._ops import HigherOrderOperator

from kernelagent.tools.candidate_runner.candidate import CandidateFailure
from kernelagent.tools.candidate_runner.forbidding import Forbidding
from kernelagent.tools.candidate_runner.host.host_reads import HostReads
from kernelagent.tools.virtual.cost.eager import EagerTraffic

KEY = torch._C.DispatchKey


class Operator(HigherOrderOperator):
    def __init__(self, name):
        super().__init__(name)
        for key in (KEY.AutogradCPU, KEY.ADInplaceOrView, KEY.BackendSelect):
            self.fallthrough(key)

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


TWICE = Operator("twice_of_the_tests")
WITHOUT_CODE = Operator("without_code_of_the_tests")


@TWICE.py_impl(KEY.CompositeExplicitAutograd)
def _twice(x):
    return x + x * x.sum().item()


X = torch.ones(4)


def test_what_an_operator_calls_is_counted():
    with EagerTraffic(None) as traffic:
        result = TWICE(X)
    assert result.tolist() == [5.0] * 4
    assert {"add", "mul", "sum"} <= {row.name for row in traffic.rows}


def test_what_an_operator_computes_is_forbidden_where_torch_may_compute_nothing():
    with pytest.raises(CandidateFailure, match="torch still runs sum"), Forbidding():
        TWICE(X)


def test_a_number_that_an_operator_takes_to_the_host_is_noted():
    with HostReads(__file__) as reads:
        TWICE(X)
    assert "item" in reads.names


def test_an_operator_without_code_of_its_own_is_not_run_unseen():
    with pytest.raises(NotImplementedError, match="without_code_of_the_tests"), Forbidding():
        WITHOUT_CODE(X)
