"""Takes each mend of first_contact.md back in a copy of this checkout: does its test fail then?

    python -m benchmarks.first_contact [--only 4] [--write benchmarks/results/first_contact.md]

A text that is no longer there exactly once is an error, and so is a test that fails already without
the edit. With `--write` the page's last section is written anew.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADING = "## Each mend taken back"
_CUDA = "tests/tools/cuda/profile"
_ON_CUDA = f"{_CUDA}/test_runner_on_cuda.py"
_CANARY = "tests/tools/judge/test_canary.py"
_SHOWN = 110


@dataclass(frozen=True)
class Mend:
    """The smallest edit that brings a fault back."""

    number: str
    """Of the fault in first_contact.md; a letter for the suspects and what came later."""
    undone: str
    file: str
    now: str
    """The text of the mend; once in the file."""
    before: str
    test: str
    """Fails with the edit, passes without."""

    def take_back(self, root: Path) -> None:
        """Edit the copy below `root`; raises ValueError where the text is not there once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.now) != 1:
            count = text.count(self.now)
            raise ValueError(f"mend {self.number}: its text stands {count} times in {self.file}")
        path.write_text(text.replace(self.now, self.before), encoding="utf-8")


MENDS = (
    Mend(
        "1",
        "a thread's entry may be read, not written",
        "tools/sandbox/file_access.py",
        "Grant(Path(_THREAD_NAMES), READ | Right.WRITE_FILE)",
        "Grant(Path(_THREAD_NAMES), READ)",
        "tests/tools/sandbox/test_gpu_files.py::test_a_process_with_a_gpu_may_name_its_threads_and_write_nothing_else_of_proc",
    ),
    Mend(
        "2",
        "the fork server does not ask for the platform's key",
        "tools/sandbox/fork_server.py",
        "    build.platform_key()\n",
        "    _ = build\n",
        f"{_ON_CUDA}::test_the_platforms_key_is_known_before_a_candidate_asks",
    ),
    Mend(
        "2",
        "`file` is not among the programs that Triton starts",
        "tools/candidate_runner/integrity/watch.py",
        'nvdisasm file"',
        'nvdisasm"',
        f"{_CUDA}/test_on_a_gpu_machine.py::test_the_programs_that_triton_starts_are_no_offence",
    ),
    Mend(
        "3",
        "the baseline stays in its scratch",
        "tools/cuda/baseline.py",
        '    os.chdir(str(settings["folder"]))\n',
        "",
        "tests/tools/judge/timing/test_baselines.py::test_a_problem_given_by_a_relative_path_is_timed_in_the_users_folder",
    ),
    Mend(
        "4",
        "preparing for the clock leaves the recorder in place",
        "tools/candidate_runner/measuring.py",
        "        self._launches.stand_aside()\n",
        "",
        f"{_ON_CUDA}::test_the_recorder_stands_aside_before_anything_is_timed",
    ),
    Mend(
        "4",
        "the recorder does not leave when it is told to",
        "tools/candidate_runner/launches.py",
        "            self._take_off()\n            self._take_off = None",
        "            self._take_off = None",
        f"{_ON_CUDA}::test_while_timing_the_recorder_costs_less_than_a_microsecond_a_launch",
    ),
    Mend(
        "5",
        "the fork server does not import `torch._dynamo`",
        "tools/judge/fork_server.py",
        '    "torch._dynamo",\n    "kernelagent.tools.candidate_runner.main",',
        '    "kernelagent.tools.candidate_runner.main",',
        f"{_ON_CUDA}::test_forbidding_torch_replaces_nothing_in_a_candidates_turn",
    ),
    Mend(
        "6",
        "the sentence divides by what is not left, however little",
        "kernelagent/prompts/feedback.py",
        "    if left >= _NEARLY_ALL_LEFT:\n",
        "    if left > 1:\n",
        "tests/prompts/test_headroom_sentence.py::test_where_all_but_everything_is_left_no_number_is_made_up",
    ),
    Mend(
        "7",
        "the outcome of the canary is ignored",
        "tools/judge/problem/context.py",
        'require_kernel(result, required=sandbox == "require")',
        "()",
        f"{_CANARY}::test_a_gpu_that_runs_no_kernel_ends_the_run_before_any_verdict",
    ),
    Mend(
        "8",
        "no call before the clock starts",
        "tools/cuda/ceilings.py",
        "    call()\n    calls = 1\n",
        "    calls = 1\n",
        f"{_CUDA}/test_ceilings.py::test_the_first_call_which_loads_libraries_does_not_shorten_the_rounds",
    ),
    Mend(
        "9",
        "a measured bound has no launch in it",
        "tools/judge/bounds/headroom.py",
        "least = max(dram, math, min(launch, time_us))",
        "least = max(dram, math)",
        "tests/prompts/test_headroom_sentence.py::test_a_measured_tiny_module_is_bound_by_its_launch",
    ),
    Mend(
        "10",
        "what torch.compile replaces at its first use is not replaced beforehand",
        "tools/candidate_runner/integrity/integrity.py",
        "    install_generation_tagging_init()\n",
        "    _ = install_generation_tagging_init\n",
        f"{_ON_CUDA}::test_torch_compile_is_no_offence_where_the_policy_permits_it",
    ),
    Mend(
        "11",
        "at most 64 sets of inputs",
        "tools/judge/timing/measuring.py",
        "_MOST_ROTATED = 256",
        "_MOST_ROTATED = 64",
        "tests/tools/judge/timing/test_rotation.py::test_inputs_of_a_quarter_of_a_megabyte_already_leave_an_h200s_cache",
    ),
    Mend(
        "11",
        "what stays in the cache is not disclosed",
        "tools/judge/timing/measuring.py",
        "    if l2_bytes is None or count * size > l2_bytes:\n",
        "    if l2_bytes is None or count >= 0:\n",
        "tests/tools/judge/timing/test_rotation.py::test_inputs_leave_the_largest_cache_or_that_is_said",
    ),
    Mend(
        "12",
        "every fixture is judged, whether asked for or not",
        "tests/gpu/test_corpora.py",
        '    if "TRIES" not in environment:\n        return sample()\n',
        "",
        "tests/gpu_first/test_stages.py::test_make_gpu_judges_a_sample_within_its_share_unless_it_is_asked_for_everything",
    ),
    Mend(
        "13",
        "what processes tell of their launchers is not compiled for the next",
        "tools/cuda/helper.py",
        "        if self._told:\n            self._compile()\n",
        "",
        f"{_CUDA}/test_compiled_helpers.py::test_a_launcher_that_one_process_needed_is_there_when_the_next_one_starts",
    ),
    Mend(
        "14",
        "a full GPU is nothing that anybody expects",
        "tools/judge/problem/devices.py",
        "    except torch.OutOfMemoryError:\n",
        "    except ZeroDivisionError:\n",
        f"{_CUDA}/test_ceilings.py::test_a_full_gpu_is_judged_by_its_data_sheet_and_that_is_said",
    ),
    Mend(
        "15",
        "the author has no temporary folder of its own",
        "kernelagent/models/compiler_model.py",
        '            "TMPDIR": self._temporary.name,\n',
        "",
        "tests/models/compiler/test_author_leaves_nothing.py::test_what_inductor_and_the_users_module_leave_there_goes_with_the_author",
    ),
    Mend(
        "a",
        "no tier is tried in turn",
        "tools/judge/canary.py",
        "[tier for tier in _LEAST_MISSED_FIRST if tier in device.tiers]",
        "list[str]()",
        f"{_CANARY}::test_the_tier_in_the_way_is_found_and_left_out",
    ),
    Mend(
        "a",
        "no tier is tried in turn",
        "tools/judge/canary.py",
        "[tier for tier in _LEAST_MISSED_FIRST if tier in device.tiers]",
        "list[str]()",
        f"{_CANARY}::test_the_doctor_tells_of_each_tier",
    ),
    Mend(
        "b",
        "both variables are dropped",
        "tools/sandbox/environment.py",
        "    CUDA_MPS_PIPE_DIRECTORY CC\n",
        "",
        "tests/tools/sandbox/test_gpu_files.py::test_a_multi_process_server_and_a_chosen_compiler_are_let_through",
    ),
    Mend(
        "c",
        "what the driver is refused in ncu's program is not looked for",
        "tools/cuda/counters.py",
        "    if _OS_REFUSED.search(printed):\n",
        "    if not printed:\n",
        f"{_CUDA}/test_counters.py::test_that_there_are_no_counters_is_said_with_its_reason",
    ),
    Mend(
        "d",
        "a profile without a trace is summed up like one with it",
        "tools/judge/timing/device_profile.py",
        "    if untraced is not None:\n",
        "    if untraced is not None and untraced[1] is not None:\n",
        f"{_CUDA}/test_tracing.py::test_without_a_trace_the_launches_and_the_compilers_word_remain_with_one_line_why",
    ),
    Mend(
        "e",
        "free memory is left as it is before a candidate's turn",
        "tools/candidate_runner/turns.py",
        "        self._overwrite_unwritten(doing, given)\n",
        "",
        f"{_ON_CUDA}::test_free_memory_is_overwritten_before_each_turn_of_a_candidate",
    ),
    Mend(
        "f",
        "it is random before every second call, the second one included",
        "tools/candidate_runner/unwritten.py",
        "    return calls > 1 and calls % 2 == 0\n",
        "    return calls % 2 == 1\n",
        f"{_CUDA}/test_unwritten.py"
        "::test_a_first_call_and_its_repetition_find_nan_and_later_ones_both_in_turn",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """How a test ended in the copy."""

    failed: bool
    message: str
    """Why, in pytest's one line."""


def copy_of(root: Path, folder: Path) -> None:
    """The files that git knows of, as they are now, and the links of the package."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        source, target = root / name, folder / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def tried(root: Path, *tests: str) -> Outcome:
    """Run tests in `root`, to the first that fails; raises RuntimeError when they cannot be run here."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [*words, *tests],
        cwd=root,
        # The copy's own modules, not those that are installed.
        env=os.environ | {"PYTHONPATH": str(root), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0 and " passed" in done.stdout and " skipped" not in done.stdout:
        return Outcome(False, "")
    reported = re.search(r"^(?:FAILED|ERROR) tests/.*?(?: - (.*))?$", done.stdout, re.MULTILINE)
    if done.returncode != 1 or reported is None:
        raise RuntimeError(f"{tests}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Outcome(True, reported[1] or _asserted(done.stdout))


def _asserted(printed: str) -> str:
    lines = [line[1:].strip() for line in printed.splitlines() if line.startswith("E ")]
    return lines[0] if lines else "failed"


def taken_back(mend: Mend) -> Outcome:
    """Run its test with the edit, in a copy that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="taken-back-") as name:
        folder = Path(name)
        copy_of(ROOT, folder)
        mend.take_back(folder)
        return tried(folder, mend.test)


def row(mend: Mend, outcome: Outcome) -> str:
    """One line of the table."""
    message = outcome.message.replace("|", "\\|").replace(str(Path.home()), "~")
    shown = message if len(message) <= _SHOWN else message[:_SHOWN] + "…"
    ended = f"fails: `{shown}`" if outcome.failed else "PASSES"
    name = mend.test.rpartition("::")[2]
    return f"| {mend.number} | `{mend.file}`: {mend.undone} | `{name}` | {ended} |"


def section(rows: Sequence[str]) -> str:
    """The last section of the page."""
    head = (
        f"{HEADING}\n\n"
        "`python -m benchmarks.first_contact --write benchmarks/results/first_contact.md` runs all these tests, which must pass,\n"
        "and then each of them in a copy of the checkout with the smallest edit that brings its fault back. a to d are the suspects\n"
        "in the order of their table; e came later: memory that nobody has written is NaN or random on `cuda`, too;\n"
        "f: an answer whose half was never written is refused as that, also where it is refused in two calls.\n\n"
        "| # | what is taken back | test | outcome |\n|--:|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> int:
    """0 when every test fails without its mend."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_contact")
    parser.add_argument("--only", help="the mends of this number")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args(arguments)
    mends = [mend for mend in MENDS if asked.only in (None, mend.number)]
    as_it_is = tried(ROOT, *dict.fromkeys(mend.test for mend in mends))
    if as_it_is.failed:
        raise RuntimeError(f"a test fails without any edit: {as_it_is.message}")
    rows, good = [], True
    for mend in mends:
        outcome = taken_back(mend)
        good = good and outcome.failed
        rows.append(row(mend, outcome))
        sys.stdout.write(rows[-1] + "\n")
        sys.stdout.flush()
    if asked.write is not None:
        page = asked.write.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
        asked.write.write_text(f"{page}\n\n{section(rows)}", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
