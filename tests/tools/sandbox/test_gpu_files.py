"""What a process with a GPU may touch besides: as much as the driver needs, and no more."""

from __future__ import annotations

from pathlib import Path

from kernelagent.tools.sandbox import environment

STAND_IN = (Path("/dev/zero"),)
"""A device node that every machine has, in the place of NVIDIA's."""


def test_a_process_with_a_gpu_may_name_its_threads_and_write_nothing_else_of_proc(ground):
    ground.need("landlock")
    others = ["/proc/self/oom_score_adj", "/proc/self/comm", "/proc/sys/vm/overcommit_memory"]
    outcomes = ground.ask("name_a_thread", limits={"devices": STAND_IN}, paths=others)
    (task, named), *rest = outcomes.items()
    assert task.startswith("/proc/self/task/")
    assert named == "done: 'written'"
    assert {outcome for _, outcome in rest} == {"EACCES"}


def test_a_process_without_a_gpu_may_not(ground):
    ground.need("landlock")
    outcomes = ground.ask("name_a_thread", limits={"devices": ()}, paths=[])
    assert set(outcomes.values()) == {"EACCES"}


def test_a_process_does_without_the_tiers_it_is_told_to_forgo(ground, tmp_path):
    ground.need("landlock")
    secret = tmp_path / "secret"
    secret.write_text("the key", encoding="ascii")
    asked = {"paths": [str(secret)]}
    assert ground.ask("read_files", limits={"forgo": ("landlock",)}, **asked) == [
        "done: b'the key'"
    ]
    assert ground.ask("read_files", **asked) == ["EACCES"]


def test_a_multi_process_server_and_a_chosen_compiler_are_let_through():
    names = {"CUDA_MPS_PIPE_DIRECTORY": "/run/mps", "CC": "/opt/llvm/bin/clang"}
    assert environment.allowed(names | {"HOME": "/root"}) == names
