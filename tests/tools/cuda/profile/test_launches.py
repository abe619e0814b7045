from __future__ import annotations

import pytest
import triton
from triton.compiler import CompilationError

from kernelagent.domain.serialization import from_data
from kernelagent.tools.candidate_runner.launches import MOST_ROWS
from kernelagent.tools.candidate_runner.observing import machine_facts
from kernelagent.tools.judge.timing.observed import LaunchRow, NotCompiled
from tests.tools.cuda.profile.compiled_forward import LIBRARY, SM_90, SOURCE, Forward, Written


def test_a_launch_is_told_with_its_place_in_the_candidates_file(forward: Forward) -> None:
    forward()
    rows, others = forward.launches.take()
    assert others == 0
    first = from_data(rows, list[LaunchRow])[0]
    assert (first.kernel, first.compiled, first.line, first.grid) == (
        "_twice",
        "_twice",
        6,
        (4, 1, 1),
    )
    assert first.options["num_warps"] == 4
    assert [row["kernel"] for row in rows] == ["_twice", "_twice"]
    assert forward.launches.take() == ([], 0)


def test_a_kernel_from_another_file_is_not_the_candidates_own(written: Written) -> None:
    launches = written.launches
    foreign = written.compiled("_thrice", text=LIBRARY, file="library.py")
    assert launches.recording(foreign, lambda *_: "ran")(1, 1, 1) == "ran"
    assert launches.take() == ([], 1)
    assert launches.kernels == {}


def test_suppressed_launches_are_recorded_and_do_not_run(forward: Forward) -> None:
    assert float(forward()[0]) == 5.0
    forward.launches.suppressed = True
    assert float(forward()[0]) == 0.0
    assert len(forward.launches.take()[0]) == 3


def test_suppression_leaves_foreign_kernels_alone(written: Written) -> None:
    launches = written.launches
    launches.suppressed = True
    foreign = written.compiled("_thrice", text=LIBRARY, file="library.py")
    assert launches.recording(foreign, lambda *_: "ran")(1, 1, 1) == "ran"


def test_a_kernel_that_does_not_compile_is_told_of_whoever_catches_the_exception(
    written: Written,
) -> None:
    launches = written.launches
    broken = SOURCE.replace("2 * tl.load", "tl.no_such_function(x) * tl.load")
    with pytest.raises(CompilationError):
        launches.compiled(triton.compile, written.source("_twice", text=broken), target=SM_90)
    (told,) = from_data(launches.failures, list[NotCompiled])
    assert told.message.startswith("compiling `_twice` raised CompilationError")
    assert "no_such_function" in told.message


def test_what_a_library_cannot_compile_is_nothing_of_the_candidates(written: Written) -> None:
    launches = written.launches
    broken = LIBRARY.replace("2 * tl.load", "tl.no_such_function(x) * tl.load")
    source = written.source("_thrice", text=broken, file="library.py")
    with pytest.raises(CompilationError):
        launches.compiled(triton.compile, source, target=SM_90)
    assert launches.failures == []


def test_a_kernel_that_compiles_is_no_failure(written: Written) -> None:
    launches = written.launches
    made = launches.compiled(triton.compile, written.source("_twice"), target=SM_90)
    assert made.name == "_twice"
    assert launches.failures == []


def test_thousands_of_launches_of_a_tuner_are_not_all_kept(written: Written) -> None:
    launches, kernel = written.launches, written.compiled("_twice")
    launch = launches.recording(kernel, lambda *_: None)
    for _ in range(MOST_ROWS + 10):
        launch(1, 1, 1)
    assert len(launches.take()[0]) == MOST_ROWS


@pytest.mark.long
def test_compiler_facts_of_a_real_target_come_from_its_machine_code(written: Written) -> None:
    launches = written.launches
    for name in ("_twice", "_product"):
        launches.recording(written.compiled(name), lambda *_: None)(1, 1, 1)
    facts = machine_facts(launches.kernels, "sm_90")
    by_name = {row["kernel"]: facts[row["hash"]] for row in launches.take()[0]}
    twice, product = by_name["_twice"], by_name["_product"]
    assert twice["tensor_core"] is None
    assert twice["registers"] > 0
    assert twice["spills"] == 0
    assert sum(twice["load_widths"].values()) > 0
    assert product["tensor_core"] in {"wgmma", "mma.sync"}
    assert product["shared_bytes"] > 0
    assert product["barriers"] > 0
    assert 0 < twice["occupancy"] <= 1
    assert twice["occupancy"] >= product["occupancy"]
