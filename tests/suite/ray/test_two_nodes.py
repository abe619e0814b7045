"""Real clusters of two nodes on loopback addresses: the same verdicts, whatever dies meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from threading import Thread

import pytest

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, ProblemError
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.problem import ProblemSpec
from kernelagent.suite.ray.cluster import Cluster
from kernelagent.tools.judge_client import JudgeProcess

pytest.importorskip("ray", reason="the extra [ray] is not installed")
pytestmark = pytest.mark.long

PROBLEM = """import torch
from torch import nn
from steps import shifted


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(shifted(x))


def get_inputs():
    return [torch.randn(8, 256)]


def get_init_inputs():
    return []
"""
CANDIDATE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.maximum(value * 2.0 + 1.0, 0.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
"""
CANDIDATES = {
    "right": CANDIDATE,
    "wrong": CANDIDATE.replace("+ 1.0", "+ 1.25"),
    "out of bounds": CANDIDATE.replace("mask=at < n)\n    tl", "mask=at < n + 512)\n    tl"),
    "no kernel": "import torch\n\nclass ModelNew(torch.nn.Module):\n"
    "    def forward(self, x):\n        return torch.relu(x * 2.0 + 1.0)\n",
}


class LocalCluster:
    """A head that evaluates nothing, and nodes of one slot each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self._next = 2
        self._cluster = RayCluster()
        self.nodes = []
        self.add(0)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, cpus: int = 1):
        # Each node on a loopback address of its own; 127.0.0.1 is one that Ray replaces.
        node = self._cluster.add_node(
            num_cpus=cpus,
            object_store_memory=80 << 20,
            include_dashboard=False,
            node_ip_address=f"127.0.0.{self._next}",
        )
        self._next += 1
        if cpus:
            self.nodes.append(node)
        return node

    def kill_raylet(self, node_id: str) -> None:
        node = next(n for n in self.nodes if n.node_id == node_id)
        for info in node.all_processes["raylet"]:
            os.kill(info.process.pid, signal.SIGKILL)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._cluster.shutdown()


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[LocalCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = LocalCluster()
        made.add()
        made.add()
        yield made
        made.close()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> JudgeSettings:
    folder = tmp_path_factory.mktemp("home")
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "steps.py").write_text("def shifted(x):\n    return x * 2.0 + 1.0\n")
    return JudgeSettings(ProblemSpec(path=str(folder / "problem.py")), device="virtual")


@pytest.fixture(scope="module")
def here(settings: JudgeSettings) -> dict[str, Evaluation]:
    """The verdicts of one machine without Ray."""
    with JudgeProcess(settings) as judge:
        return {
            name: judge.evaluate(Candidate(source), lambda _: None)
            for name, source in CANDIDATES.items()
        }


def same(found: Evaluation) -> tuple[object, ...]:
    """The verdict, its reason and its steps; errors differ, for the judge's inputs are secret."""
    return (
        found.verdict,
        found.reason.code if found.reason else None,
        tuple((stage.name, stage.status) for stage in found.stages),
        found.correctness.trials if found.correctness else None,
        tuple((kernel.name, kernel.launches) for kernel in found.kernels),
    )


def test_two_nodes_give_the_verdicts_of_one_machine(ray_cluster, settings, here):
    with Cluster(ray_cluster.address, "virtual", "sm_90") as cluster:
        assert cluster.joined.devices == 2
        result: dict[str, Evaluation] = {}

        def work(names):
            with cluster.open(settings, lambda *_: None) as judge:
                for name in names:
                    stages = []
                    candidate = Candidate(CANDIDATES[name])
                    result[name] = judge.evaluate(candidate, stages.append)
                    assert [s.name for s in stages] == [s.name for s in result[name].stages]

        names = list(CANDIDATES)
        threads = [Thread(target=work, args=(half,)) for half in (names[:2], names[2:])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {device.host.node.name for device in cluster.devices} == {"127.0.0.3", "127.0.0.4"}
    assert {e.verdict for e in here.values()} == {"accepted", "rejected"}
    assert {name: same(e) for name, e in result.items()} == {n: same(e) for n, e in here.items()}


def test_a_problem_that_cannot_be_read_is_refused_with_the_path_from_here(
    ray_cluster, settings, tmp_path
):
    broken = tmp_path / "broken.py"
    broken.write_text("class Nothing:\n    pass\n")
    other = replace(settings, problem=ProblemSpec(path=str(broken)))
    with (
        Cluster(ray_cluster.address, "virtual", "sm_90") as cluster,
        pytest.raises(ProblemError, match=str(broken)),
    ):
        cluster.open(other, lambda *_: None)


def test_a_cluster_of_another_make_is_refused(ray_cluster, here):
    with Cluster(ray_cluster.address, "virtual", "sm_90") as cluster:
        make = cluster.joined.device
    with pytest.raises(EnvironmentFault, match=r"triton .*, not 2\.0"):
        Cluster(ray_cluster.address, "virtual", "sm_90", like=replace(make, triton="2.0"))


@pytest.mark.parametrize("victim", ["worker", "raylet"])
def test_what_was_lost_with_a_dead_worker_or_raylet_is_judged_again(
    victim, ray_cluster, settings, here
):
    message: list[str] = []
    killed: list[str] = []
    with Cluster(ray_cluster.address, "virtual", "sm_90") as cluster:

        def kill_once(_stage):
            if killed:
                return
            device = next(d for d in cluster.devices if d.busy)
            killed.append(device.name)
            if victim == "worker":
                os.kill(device.pid, signal.SIGKILL)
            else:
                ray_cluster.kill_raylet(device.host.node.id)

        with cluster.open(settings, lambda _level, text: message.append(text)) as judge:
            # A worker may outlive its raylet for some seconds, and its answer counts.
            for _ in range(40):
                result = judge.evaluate(Candidate(CANDIDATES["right"]), kill_once)
                assert same(result) == same(here["right"])
                if any("runs again elsewhere" in text for text in message):
                    break
    if victim == "raylet":
        ray_cluster.add()
    assert [text for text in message if killed[0] in text and "runs again elsewhere" in text]
