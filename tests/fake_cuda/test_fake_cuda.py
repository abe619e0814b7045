"""What of the fake CUDA device runs without a CUDA build of torch; all of it: `make fake-gpu`."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.commit import head_of
from kernelagent.tools.gpu_lock import chosen as chosen_gpu
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.fake_cuda import __main__ as harness
from tests.fake_cuda import table
from tests.fake_cuda.commands import Command, Machine, chosen, commands, lay_out
from tests.fake_cuda.libraries import (
    BEGINNING_S,
    DRIVER,
    RUNTIME,
    SOURCES,
    build,
    describe,
    install_hook,
    start_clock,
)

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not sys.platform.startswith("linux"),
    reason="NO C COMPILER: the fake device is compiled with gcc, on Linux",
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from triton.backends import nvidia

    folder = tmp_path_factory.mktemp("fake")
    build(folder, [Path(nvidia.__path__[0], "include")])
    return folder


def exported(library: Path) -> set[str]:
    """Names with their versions, as the linker sees them."""
    words = ["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()}


def names_in(file: str) -> set[str]:
    return set((HERE / file).read_text(encoding="utf-8").split())


@pytest.mark.long
def test_the_runtime_exports_what_torch_asks_of_it_under_its_version(libraries: Path) -> None:
    wanted = {f"{name}@@libcudart.so.13" for name in names_in("runtime_symbols.txt")}
    assert wanted <= exported(libraries / RUNTIME)


@pytest.mark.long
def test_the_driver_exports_what_torch_links_against(libraries: Path) -> None:
    assert names_in("driver_symbols.txt") <= exported(libraries / DRIVER)


@pytest.mark.long
def test_a_kernel_goes_through_tritons_own_driver_into_the_interpreter(
    libraries: Path, tmp_path: Path
) -> None:
    install_hook(tmp_path / "hook")
    describe(libraries, "")
    started = "import fake_cuda_hook, runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", started, str(HERE / "launch_once.py")],
        env=os.environ
        | {"LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(tmp_path / "hook")}
        | {"TRITON_CACHE_DIR": str(tmp_path / "triton")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reported = json.loads(done.stdout)
    assert reported["got"] == pytest.approx(
        [math.exp(value) for value in reported["given"]], rel=1e-5
    )
    assert "cannot be accessed from Triton (cpu tensor?)" in reported["refused"]
    # One by one 4096 tenths come to 409.59; in pairs to what they are.
    tenths = 3 * 4096 * float(np.float32(0.1))
    assert reported["sums"] == pytest.approx([tenths, tenths, 3 * 4096], rel=3e-7)
    assert [*tmp_path.glob("triton/*/*.cubin")], "the kernel was not compiled for the device"


@pytest.mark.long
def test_a_confined_process_can_begin_with_the_driver(libraries: Path, tmp_path: Path) -> None:
    node, scratch = tmp_path / "nvidiactl", tmp_path / "scratch"
    node.touch()
    scratch.mkdir()
    describe(libraries, f"node {node}\n")
    settings = {"library": str(libraries / DRIVER)}

    def error_of(warm: ForkServer, devices: tuple[Path, ...]) -> int | None:
        confinement = Confinement(scratch, runnable=(libraries,), devices=devices)
        child = warm.fork("begins:begin", settings, [], confinement)
        ended = child.wait(30) or child.kill()
        return ended.code

    with ForkServer.start(preload=["begins"], environment={"PYTHONPATH": str(HERE)}) as warm:
        if "landlock" not in warm.sandbox.tiers:
            pytest.skip("NO LANDLOCK HERE: nothing of the file system is refused")
        assert error_of(warm, (node,)) == 0
        # A machine without the node's grant, whose driver is refused both the node and its name.
        assert error_of(warm, ()) == 100


@pytest.mark.long
def test_a_machine_whose_mode_excludes_gives_its_context_to_one_process(libraries: Path) -> None:
    describe(libraries, "exclusive 1\n")
    program = (
        "import ctypes, sys; d = ctypes.CDLL(sys.argv[1]); c = ctypes.c_void_p(); d.cuInit(0);"
        "print(d.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0), flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(libraries / DRIVER)]
    first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "0\n"
    second = subprocess.run(words, input="", capture_output=True, text=True, check=True)
    assert second.stdout == "46\n"
    first.communicate("")
    third = subprocess.run(words, input="", capture_output=True, text=True, check=True)
    assert third.stdout == "0\n"


@pytest.mark.long
def test_who_waits_moves_the_machines_clock_on_for_all_processes_and_sleeps_for_nothing(
    libraries: Path, tmp_path: Path
) -> None:
    install_hook(tmp_path)
    describe(libraries, "")
    start_clock(libraries)
    program = (
        "import fake_cuda_hook, ctypes, sys, time; d = ctypes.CDLL(sys.argv[1]);"
        "queue = d.fake_cuda_queue; queue.argtypes = [ctypes.c_double]; before = time.perf_counter();"
        "queue(3000.0); queue(600.0); unchanged = time.perf_counter();"
        "d.fake_cuda_wait(); d.fake_cuda_wait(); print(before, unchanged, time.perf_counter())"
    )
    words = [sys.executable, "-c", program, str(libraries / DRIVER)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(tmp_path)}
    printed = [
        subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for _ in range(2)
    ]
    (libraries / "clock").unlink()
    times = [[float(word) - BEGINNING_S for word in line.split()] for line in printed]
    assert times == [[0.0, 0.0, 3600.0], [3600.0, 3600.0, 7200.0]]


@pytest.mark.long
def test_memory_that_is_not_the_devices_is_known_as_such(libraries: Path) -> None:
    describe(libraries, "memory_bytes 65536\n")
    program = (
        "import ctypes, sys; d = ctypes.CDLL(sys.argv[1]); p = ctypes.c_uint64(); q = ctypes.c_uint64();"
        "size = ctypes.c_size_t; print(d.cuMemAlloc_v2(ctypes.byref(p), size(4096)),"
        "d.cuPointerGetAttribute(ctypes.byref(q), 3, p), d.cuPointerGetAttribute(ctypes.byref(q), 3,"
        "ctypes.c_uint64(4096)), d.cuMemAlloc_v2(ctypes.byref(q), size(1 << 20)), d.cuMemFree_v2(p))"
    )
    words = [sys.executable, "-c", program, str(libraries / DRIVER)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "1", "2", "0"]


def test_every_command_finds_its_files_where_they_are_laid_out_or_written(tmp_path: Path) -> None:
    lay_out(SOURCES / "work", tmp_path)
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("**/*.py")}
    for command in commands():
        there.add(command.writes)
        asked = {word for word in command.words if word.endswith(".py")}
        assert asked <= there | {"resumed.py"}, command.name


_COUNTED = """
import subprocess, sys, time
from tests.fake_cuda import __main__ as harness

busy = "import time; end = time.process_time() + 0.3\\nwhile time.process_time() < end: pass"
parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
harness.adopt_orphans()
subprocess.run([sys.executable, "-c", parent], check=True)
while not harness.reap():
    time.sleep(0.01)
print(harness.processor_s())
"""


@pytest.mark.long
def test_the_processor_time_of_a_process_that_outlives_its_parent_is_counted() -> None:
    # In a process of its own: it waits for every child there is.
    done = subprocess.run(
        [sys.executable, "-c", _COUNTED],
        cwd=SOURCES.parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert float(done.stdout) >= 0.3


def test_no_two_commands_have_one_name() -> None:
    names = [command.name for command in commands()]
    assert len(names) == len(set(names))


def test_a_command_that_is_asked_for_gets_what_it_needs_before_it() -> None:
    names = [command.name for command in chosen(commands(), "^recheck")]
    assert names == ["optimize by relative path", "recheck"]
    resumed = [command.name for command in chosen(commands(), "^--resume")]
    assert resumed == ["a run that is killed", "--resume"]
    assert chosen(commands(), "") == list(commands())
    assert {command.after for command in commands()} <= {"", *(c.name for c in commands())}


@pytest.mark.parametrize(("exclusive", "mode"), [(False, "Default"), (True, "Exclusive_Process")])
def test_the_drivers_own_program_describes_the_imagined_device(
    tmp_path: Path, exclusive: bool, mode: str
) -> None:
    (tmp_path / "machine").write_text(Machine(exclusive=exclusive).text())
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    words = [sys.executable, str(SOURCES / "work" / "nvidia-smi")]

    def said(query: str, form: str) -> str:
        done = subprocess.run(
            [*words, query, form], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    asked = said("--query-gpu=name,compute_mode,fan.speed", "--format=csv,noheader")
    assert asked == f"NVIDIA H200, {mode}, [N/A]\n"
    locked = said("--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
    assert chosen_gpu(locked, "0").memory_bytes == 4 << 30
    assert said("--query-compute-apps=pid,used_memory", "--format=csv,noheader") == ""


def test_results_that_a_command_writes_do_not_make_it_another_commit(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    assert head_of(tmp_path) == ""
    git("init")
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    for path in (results / "page.md", tmp_path / "product.py"):
        path.write_text("before")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first")
    commit = head_of(tmp_path)
    (results / "page.md").write_text("after")
    (results / "new.jsonl").write_text("new")
    recordings = tmp_path / "tests" / "cassettes" / "real_writer"
    recordings.mkdir(parents=True)
    (recordings / "new.jsonl").write_text("new")
    assert head_of(tmp_path) == commit
    (tmp_path / "product.py").write_text("after")
    assert head_of(tmp_path) == f"{commit}-dirty"


def test_a_python_that_does_not_run_is_refused_by_its_name(tmp_path: Path) -> None:
    assert harness.python_of(sys.executable) == sys.executable
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    with pytest.raises(SystemExit, match=r"there is no .*python3\.99 that runs here"):
        harness.python_of(str(shim))


def test_a_new_table_leaves_what_is_written_below_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    assert table.written_below(path) == ""
    path.write_text("# Old\n\n| a |\n\n## Where the time goes\n\nHere.\n\n## History\n")
    text = table.page([], [], table.written_below(path))
    assert text.startswith("# Every command")
    assert text.endswith("\n\n## Where the time goes\n\nHere.\n\n## History\n")


def test_what_was_not_run_is_shown_as_such() -> None:
    assert "| not run |" in table.page([Command("one", ("doctor",))], [])


def test_a_list_that_is_run_in_parts_keeps_what_was_run_on_the_same_commit(tmp_path: Path) -> None:
    command, ended = Command("one", ("doctor",)), table.Ended(0, 1.0, 2.0, "", ())
    rows = [table.Row.of(command, ended, commit, 1.5) for commit in ("old", "new", "new")]
    log = tmp_path / "page.jsonl"
    assert table.kept_rows(log, "new") == []
    log.write_text("".join(row.line() for row in rows))
    kept = table.kept_rows(log, "new")
    assert kept == rows[1:]
    text = table.page([command], kept)
    assert "| one | 0 | 0, 0 | 2, 2 | 1, 1 | 2, 2 | yes |" in text
    assert "commit new," in text
    assert "old" not in text


@pytest.mark.parametrize(
    ("ended", "faults"),
    [
        (table.Ended(0, 1.0, 1.0, "all went\nwell", ()), []),
        (table.Ended(1, 1.0, 1.0, "all went well", ()), ["status 1 instead of 0"]),
        (table.Ended(0, 1.0, 1.0, "nothing", ()), ["does not say 'went well'"]),
        (table.Ended(0, 1.0, 1.0, "all went well", ("2 processes left",)), ["2 processes left"]),
    ],
)
def test_a_command_that_ends_otherwise_is_a_fault(ended: table.Ended, faults: list[str]) -> None:
    command = Command("one", ("doctor",), says="went well")
    assert ended.faults(command) == faults
    shown = table.page([command], [table.Row.of(command, ended, "", 1.0)])
    assert ("| yes |" in shown) == (not faults)


def test_a_machine_is_described_as_the_driver_reads_it() -> None:
    text = Machine(exclusive=True).text()
    assert "exclusive 1" in text.splitlines()
    assert all(len(line.split(" ", 1)) == 2 for line in text.splitlines())
