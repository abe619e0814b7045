"""What a candidate leaves changed or does besides computing, seen in the process it runs in."""

from __future__ import annotations

import _thread
import gc
import os
import random
import signal
import sys
import threading
import time
import warnings

import pytest
import torch
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheInfo

from kernelagent.tools.candidate_runner.candidate import CandidateFailure
from kernelagent.tools.candidate_runner.integrity.integrity import Integrity
from kernelagent.tools.candidate_runner.integrity.watch import Reach
from kernelagent.tools.candidate_runner.integrity.whole_interpreter import is_filled_in


def left_by(act, *, keeps_random_state=True, may_compile=False):
    """The failure that `act` ends in, None when it leaves everything as it was."""
    integrity = Integrity(may_compile=may_compile)
    try:
        with integrity.kept("the forward", keeps_random_state=keeps_random_state):
            act()
    except CandidateFailure as failure:
        return failure
    return None


@pytest.fixture
def original():
    kept = torch.allclose, time.perf_counter, torch.get_default_dtype()
    yield
    torch.allclose, time.perf_counter = kept[:2]
    torch.set_default_dtype(kept[2])


def test_ordinary_work_leaves_everything_as_it_was():
    assert left_by(lambda: torch.randn(4, generator=torch.Generator()) @ torch.ones(4, 4)) is None


def test_a_replaced_function_is_named(original):
    def act():
        torch.allclose = lambda *_: True

    failure = left_by(act)
    assert failure is not None
    assert failure.code == "tampering"
    assert "torch.allclose" in failure.message


def test_code_swapped_inside_a_function_is_named():
    target = torch.testing.assert_close
    kept = target.__code__

    def nothing(*args, **kwargs):
        return None

    def act():
        target.__code__ = nothing.__code__

    try:
        failure = left_by(act)
    finally:
        target.__code__ = kept
    assert failure is not None
    assert "assert_close" in failure.message


def test_a_setting_left_changed_is_named_with_both_values(original):
    failure = left_by(lambda: torch.set_default_dtype(torch.float16))
    assert failure is not None
    assert "torch.float32 to torch.float16" in failure.message


def test_a_setting_that_is_put_back_is_no_matter():
    def act():
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float16)
        torch.set_default_dtype(before)

    assert left_by(act) is None


def test_an_environment_variable_is_a_setting(monkeypatch):
    failure = left_by(lambda: monkeypatch.setenv("KERNELAGENT_TEST", "1"))
    assert failure is not None
    assert "environment" in failure.message


@pytest.mark.parametrize(
    ("silence", "is_seen"),
    [
        (lambda: warnings.simplefilter("ignore"), True),
        (lambda: warnings.filterwarnings("ignore", ".*verified", UserWarning), True),
        (lambda: warnings.filterwarnings("ignore", "a library's own", UserWarning), False),
        (lambda: warnings.simplefilter("ignore", DeprecationWarning), False),
    ],
    ids=["all", "the emitted module's", "a library's own", "of another kind"],
)
def test_warnings_of_the_users_program_are_not_silenced(silence, is_seen):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        failure = left_by(silence)
    assert (failure is not None and "which warnings are shown" in failure.message) is is_seen


def test_drawing_random_numbers_is_seen_only_where_the_reference_draws_none():
    assert left_by(lambda: torch.rand(3), keeps_random_state=False) is None
    failure = left_by(lambda: torch.rand(3))
    assert failure is not None
    assert "random generator" in failure.message


@pytest.mark.parametrize(("may_compile", "code"), [(True, None), (False, "tampering")])
def test_threads_of_a_library_are_no_matter_where_a_compiler_may_work(may_compile, code):
    done = threading.Event()
    thread = threading.Thread(target=done.wait, daemon=True)
    try:
        failure = left_by(thread.start, may_compile=may_compile)
    finally:
        done.set()
        thread.join()
    assert (failure and failure.code) == code


def test_a_thread_started_below_threading_is_seen():
    done = threading.Event()
    try:
        failure = left_by(lambda: _thread.start_new_thread(done.wait, ()))
    finally:
        done.set()
    assert failure is not None
    assert "thread" in failure.message


def test_a_thread_that_ends_with_the_call_is_no_matter():
    def act():
        thread = threading.Thread(target=time.sleep, args=(0.01,))
        thread.start()
        thread.join()

    assert left_by(act) is None


def set_timer():
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000.0)
    return lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def add_callback():
    gc.callbacks.append(print)
    return lambda: gc.callbacks.remove(print)


def add_importer():
    sys.meta_path.append(os)
    return lambda: sys.meta_path.remove(os)


def trace_new_threads():
    threading.settrace(print)
    return lambda: threading.settrace(None)


def hook_modules():
    return torch.nn.modules.module.register_module_forward_hook(lambda *_: None).remove


def replace_a_forward():
    kept = torch.nn.Hardswish.forward
    torch.nn.Hardswish.forward = lambda self, x: x
    return lambda: setattr(torch.nn.Hardswish, "forward", kept)


def override_an_operation():
    library = torch.library.Library("aten", "IMPL")
    library.impl("hardswish", lambda x: x, "CPU")
    return library._destroy


def override_below_python():
    library = torch._C._dispatch_library("IMPL", "aten", "CPU", __file__)
    library.impl("silu", "CPU", lambda x: x)
    return lambda: library.reset()


def move_pythons_generator():
    kept = random.getstate()
    random.random()
    return lambda: random.setstate(kept)


@pytest.mark.parametrize(
    "register",
    [
        set_timer,
        add_callback,
        add_importer,
        trace_new_threads,
        hook_modules,
        replace_a_forward,
        override_an_operation,
        override_below_python,
        move_pythons_generator,
    ],
)
def test_what_stays_registered_is_tampering(register):
    undo = []

    def act():
        undo.append(register())

    integrity = Integrity()
    looks = [nothing] * 7
    looks[0] = act
    failures = []
    try:
        # Operations are compared a few after each request.
        for look in looks:
            try:
                with integrity.kept("the forward", keeps_random_state=True):
                    look()
            except CandidateFailure as failure:
                failures.append(failure.code)
    finally:
        undo[0]()
    assert "tampering" in failures


def nothing():
    """Honest work."""


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/proc/self/status", True),
        ("/proc/cpuinfo", True),
        ("/proc/self/mem", False),
        ("/proc/self/environ", False),
        ("/proc/1/maps", False),
        ("/home/somebody/.ssh/id_ed25519", False),
        (torch.__file__, True),
        (os.__file__, True),
        (7, True),
    ],
)
def test_reading_is_judged_by_place(path, may):
    assert Reach.of_this_process().may_read(path) is may


def test_only_the_scratch_may_be_written(tmp_path):
    reach = Reach(tmp_path, ())
    assert reach.may_write(tmp_path / "cache" / "kernel.bin")
    assert reach.may_write("/dev/null")
    assert not reach.may_write(torch.__file__)
    assert not reach.may_write(tmp_path.parent)


class OfTheTests(CacheArtifact):
    def populate_cache(self):
        """Of no cache."""

    @staticmethod
    def type():
        return "pgo"


def test_what_torch_fills_in_while_parts_of_its_compiler_are_imported_is_told_from_a_replacement(
    monkeypatch,
):
    monkeypatch.setattr(CacheInfo, "pgo_artifacts", property(lambda self: []))
    assert not is_filled_in(CacheInfo, "pgo_artifacts")
    monkeypatch.setattr(CacheArtifactFactory, "_artifact_types", {})
    CacheArtifactFactory.register(OfTheTests)
    assert is_filled_in(CacheInfo, "pgo_artifacts")
    made = CacheInfo.__dict__["pgo_artifacts"]
    monkeypatch.setattr(CacheInfo, "pgo_artifacts", made.setter(lambda self, value: None))
    assert not is_filled_in(CacheInfo, "pgo_artifacts")
    monkeypatch.setattr(torch.Tensor, "pgo_artifacts", made, raising=False)
    assert not is_filled_in(torch.Tensor, "pgo_artifacts")
