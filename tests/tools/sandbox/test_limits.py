"""A process tree that takes too much is stopped, for the reason that is true."""

from __future__ import annotations

import pytest

MEMORY = 300 << 20


@pytest.mark.namespaces
@pytest.mark.long
def test_a_fork_bomb_is_stopped_for_its_processes(ground):
    ended = ground.run("fork_bomb", limits={"processes": 40})
    assert ended.why == "processes"
    assert ground.leftovers() == []


def test_a_thread_bomb_is_stopped_or_starved(ground):
    child = ground.start("thread_bomb", limits={"processes": 40})
    ended = child.wait(3) or child.kill()
    assert ended.why in ("processes", None)
    assert ground.run("return_at_once").code == 0


def test_a_memory_hog_is_stopped_for_its_memory(ground):
    ended = ground.run("hog_memory", limits={"memory_bytes": MEMORY})
    assert ended.why == "memory"
    assert ended.peak_bytes > MEMORY // 2


@pytest.mark.long
@pytest.mark.namespaces
def test_memory_counts_over_the_whole_tree(ground):
    ended = ground.run("hog_memory_in_children", limits={"memory_bytes": MEMORY})
    assert ended.why == "memory"


def test_children_that_only_share_memory_are_not_counted_for_it(ground):
    assert ground.run("leave_a_daemon", limits={"memory_bytes": MEMORY}).why is None


@pytest.mark.long
def test_memory_that_has_many_addresses_counts_once(ground):
    ended = ground.run("one_window_at_many_addresses", limits={"memory_bytes": MEMORY})
    assert ended.why is None
    assert ended.code == 0


def test_processor_time_is_limited(ground):
    ended = ground.run("spin", limits={"cpu_seconds": 1})
    assert ended.why == "cpu"
    assert ended.seconds < 20


def test_a_flood_is_stopped_and_only_its_ends_are_kept(ground):
    child = ground.start("print_a_gigabyte")
    ended = child.wait(30)
    assert ended is not None
    assert ended.why == "flood"
    assert child.flooded
    assert len(child.output()) < 70_000


def test_much_output_keeps_its_beginning_and_its_end(ground):
    child = ground.start("print_100_kb")
    ended = child.wait(30)
    assert ended is not None
    assert ended.code == 0
    assert child.flooded
    assert child.output().startswith("the beginning\n")
    assert child.output().endswith("the end\n")
    assert "bytes left out" in child.output()


def test_little_output_is_kept_whole_from_both_streams(ground):
    child = ground.start("print_on_both_streams")
    child.wait(30)
    assert child.output() == "out\nerr\n"
    assert not child.flooded


def test_output_can_be_read_while_the_process_runs(ground):
    child = ground.start("hang_in_every_handler")
    assert child.output() == ""
    child.kill()


def test_a_large_file_stops_growing_at_its_limit(ground):
    outcome, size = ground.ask("write_10_gigabytes", limits={"file_bytes": 1 << 20})
    assert (outcome, size) == ("EFBIG", 1 << 20)


@pytest.mark.long
@pytest.mark.parametrize(("files", "size"), [(40, 1 << 20), (25_000, 1)], ids=["bytes", "files"])
def test_filling_the_scratch_with_many_files_is_stopped(ground, files, size):
    allowed = {"file_bytes": 2 << 20, "scratch_bytes": 20 << 20 if size > 1 else 1 << 40}
    ended = ground.run("fill_the_scratch", limits=allowed, files=files, bytes=size)
    assert ended.why == "disk"


def test_descriptors_run_out_for_the_process_alone(ground):
    outcome, held = ground.ask("exhaust_descriptors")
    assert outcome == "EMFILE"
    assert held < 1024
    assert ground.run("return_at_once").code == 0


HOSTILE = (
    "segfault",
    "leave_early",
    "raise_an_error",
    "leave_a_daemon",
    "close_every_descriptor",
    "hang",
    "print_a_gigabyte",
    "hang_at_exit",
    "fork_bomb",
    "hog_memory",
)


def _row(ground, count):
    small = {"processes": 30, "memory_bytes": MEMORY}
    for index in range(count):
        child = ground.start(HOSTILE[index % len(HOSTILE)], limits=small)
        assert child.wait(0.5) or child.kill()
        assert ground.leftovers() == []
    assert list(ground.scratch.iterdir()) == []
    assert ground.run("return_at_once").code == 0


@pytest.mark.long
@pytest.mark.namespaces
def test_one_hostile_process_of_each_kind_after_the_other_leaves_nothing(ground):
    _row(ground, len(HOSTILE))


@pytest.mark.long
def test_a_hundred_hostile_processes_in_a_row_leave_nothing(ground):
    _row(ground, 100)
