"""A traced forward read: from an event list as a GPU gives it, and from a real trace of the CPU's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernelagent.domain.serialization import from_data
from kernelagent.tools.candidate_runner.observing import machine_facts, plain_events, traced
from kernelagent.tools.candidate_runner.replaying import per_replay_us, replayed
from kernelagent.tools.judge.timing.device_profile import summed_up
from kernelagent.tools.judge.timing.observed import Event, LaunchRow, NotCompiled, Observed
from kernelagent.tools.judge.timing.tracing import library_share, own_kernels, traced_forward
from tests.tools.cuda.profile.compiled_forward import Forward

PREFIX = "kernelagent 1f "
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(Params)"


def row(kernel: str, digest: str = "a", line: int = 6) -> LaunchRow:
    sizes = {"num_warps": 4, "num_stages": 3}
    return LaunchRow(kernel, kernel, digest, line, (4, 1, 1), sizes, {"shared": 0})


def complete(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """One event in the form that Kineto writes into a Chrome trace."""
    where = {"pid": 0, "tid": 7} if cat in {"kernel", "gpu_memcpy"} else {"pid": 900, "tid": 900}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, **where, "args": args}


KINETO = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "args": {"name": "python"}},
        complete("user_annotation", f"{PREFIX}0", 100.0, 10.0, **{"External id": 1}),
        complete("cuda_driver", "cuLaunchKernelEx", 103.0, 4.0, cbid=652, correlation=11),
        complete("kernel", "_norm", 120.0, 30.0, correlation=11, grid=[4, 1, 1], block=[128, 1, 1]),
        complete("cpu_op", "aten::mm", 200.0, 9.0, **{"External id": 2}),
        complete("cuda_runtime", "cudaLaunchKernel", 203.0, 4.0, cbid=211, correlation=12),
        complete("kernel", GEMM, 220.0, 50.0, correlation=12),
        complete("user_annotation", f"{PREFIX}1", 300.0, 10.0),
        complete("cuda_driver", "cuLaunchKernelEx", 303.0, 4.0, cbid=652, correlation=13),
        complete("kernel", "_norm", 320.0, 10.0, correlation=13),
        complete("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 340.0, 10.0, correlation=14),
        complete("cuda_runtime", "cudaMemcpyAsync", 315.0, 4.0, cbid=41, correlation=14),
        complete("cuda_runtime", "cudaDeviceSynchronize", 345.0, 40.0, cbid=165, correlation=15),
        {"ph": "s", "id": 11, "pid": 900, "tid": 900, "ts": 103.0, "cat": "ac2g", "name": "ac2g"},
        complete("user_annotation", "the candidate's own words", 90.0, 400.0),
        complete("gpu_user_annotation", f"{PREFIX}0", 120.0, 30.0),
    ],
}
SHOWN = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "cuda_driver", "cuda_runtime"})


def events(written: dict[str, Any] = KINETO, shown: frozenset[str] = SHOWN) -> list[Event]:
    return from_data(plain_events(written, shown, PREFIX), list[Event])


def test_a_kernel_is_own_where_the_call_that_launched_it_stands_in_a_launch_of_the_record() -> None:
    result = traced_forward(events(), [row("_norm"), row("_norm")], PREFIX)
    assert [(k.name, k.us, k.launches) for k in result.kernels] == [
        (GEMM, 50.0, 1),
        ("_norm", 40.0, 2),
        ("Memcpy DtoD (Device -> Device)", 10.0, 1),
    ]
    assert result.device_us == 100.0
    assert result.coverage == pytest.approx(0.4)
    assert result.unseen == 0


def test_a_name_alone_makes_no_kernel_the_candidates_own() -> None:
    elsewhere = [e for e in events() if e.cat != "user_annotation"]
    result = traced_forward(elsewhere, [row("_norm"), row("_norm")], PREFIX)
    assert result.coverage == 0.0
    assert result.unseen == 2


def test_what_torch_launches_beside_an_annotation_on_another_thread_is_torchs() -> None:
    moved = [replace(e, tid=901) if e.cat == "user_annotation" else e for e in events()]
    assert traced_forward(moved, [row("_norm"), row("_norm")], PREFIX).coverage == 0.0


def test_kernels_of_a_graph_are_own_where_the_process_has_launched_them_before() -> None:
    replay = {
        "traceEvents": [
            complete("cuda_runtime", "cudaGraphLaunch", 10.0, 5.0, cbid=311, correlation=5),
            complete("kernel", "_norm", 20.0, 30.0, correlation=5),
            complete("kernel", GEMM, 60.0, 10.0, correlation=5),
        ]
    }
    known = [row("_norm")]
    result = traced_forward(events(replay), [], PREFIX, known)
    assert result.coverage == pytest.approx(0.75)
    facts = own_kernels(Observed(known=tuple(known)), result)
    assert [(k.name, k.share_of_device_time, k.tier) for k in facts] == [("_norm", 0.75, "cupti")]


def test_the_evaluation_names_time_share_place_and_tier_of_each_own_kernel() -> None:
    launches = (row("_norm"), row("_norm"))
    result = Observed(tuple(events()), launches)
    (kernel,) = own_kernels(result, traced_forward(result.events, launches, PREFIX))
    assert (kernel.name, kernel.launches, kernel.line, kernel.grid) == ("_norm", 2, 6, (4, 1, 1))
    assert (kernel.share_of_device_time, kernel.device_us, kernel.tier) == (0.4, 40.0, "cupti")


def test_what_still_runs_in_torch_is_said_without_template_arguments() -> None:
    (message,) = library_share(traced_forward(events(), [row("_norm"), row("_norm")], PREFIX))
    assert "cutlass::Kernel2" in message.message
    assert "60% of the device time" in message.message
    assert "tensorop" not in message.message


def test_of_several_input_sets_the_least_covered_one_is_shown() -> None:
    whole = {"traceEvents": KINETO["traceEvents"][:4]}
    item = Observed(tuple(events()), (row("_norm"), row("_norm")))
    two = Observed(tuple(events(whole)), (row("_norm"),))
    seen = [(o, traced_forward(o.events, o.launches, PREFIX)) for o in (two, item)]
    result = summed_up(seen)
    assert result.coverage == pytest.approx(0.4)
    assert result.why_not is None


def test_without_a_trace_the_launches_and_the_compilers_word_remain_with_one_line_why() -> None:
    untraced = Observed(launches=(row("_norm"),), no_trace="CUPTI initialization failed")
    result = summed_up([(untraced, None)])
    assert result.coverage is None
    assert [(k.name, k.tier) for k in result.kernels] == [("_norm", "launches")]
    assert [d.code for d in result.disclosures] == ["not_traced"]
    assert "CUPTI initialization failed" in result.disclosures[0].message


def test_what_did_not_compile_is_kept_with_and_without_a_trace() -> None:
    why = NotCompiled("compiling `_norm` raised CompilationError", {})
    untraced = Observed(failures=(why,), no_trace="CUPTI initialization failed")
    assert summed_up([(untraced, None)]).failures == (why,)
    item = Observed(tuple(events()), (row("_norm"), row("_norm")), failures=(why,))
    seen = traced_forward(item.events, item.launches, PREFIX)
    assert summed_up([(item, seen)]).failures == (why,)


@pytest.mark.long
def test_a_real_trace_on_the_cpu_splits_own_work_from_torchs(forward: Forward) -> None:
    reported = traced(forward, forward.launches, "cpu", PREFIX)
    assert reported["why_not"] is None
    result = Observed(
        tuple(from_data(reported["events"], list[Event])),
        tuple(from_data(reported["launches"], list[LaunchRow])),
        facts=from_data(machine_facts(forward.launches.kernels, "sm_90"), dict[str, Any]),
    )
    summary = traced_forward(result.events, result.launches, PREFIX)
    assert len(result.launches) == 2
    assert summary.unseen == 0
    assert {k.name for k in summary.kernels if k.own} == {"aten::mul"}
    assert {"aten::ones", "aten::add"} <= {k.name for k in summary.library}
    assert 0.0 < summary.coverage < 1.0


def test_the_time_of_a_replay_is_that_of_the_work(forward: Forward) -> None:
    us, why_not = replayed(forward, "cpu")
    assert why_not is None
    assert us is not None
    assert us > 10.0


def test_short_replays_are_timed_many_at_a_time() -> None:
    class Counted:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def replay(self) -> None: ...

        def seconds(self, replays: int) -> float:
            self.asked.append(replays)
            return replays * 3e-6

    result = Counted()
    assert per_replay_us(result) == pytest.approx(3.0)
    assert max(result.asked) * 3e-6 >= 0.01
