from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.cli.schemas import schemas
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.evaluation import Disclosure, Estimated
from kernelagent.domain.events import (
    ProblemDescribed,
    RunFinished,
    WholeModelChecked,
    WinnerMeasured,
)
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.domain.tables.probes import PROBE
from kernelagent.domain.whole_model import WholeModel
from kernelagent.prompts.last_screen import outcome_text
from kernelagent.report.contents import document, figures
from kernelagent.report.evidence import ceilings
from kernelagent.report.files import reports, write_for
from kernelagent.report.markdown import as_markdown, line_of, plain_text
from kernelagent.report.progress import moments
from kernelagent.report.record import timing_command_of
from kernelagent.report.reproduce import recheck_command, replay_command
from kernelagent.storage.run_log import RunFolder
from kernelagent.storage.run_state import fold
from tests.lanes import examples
from tests.report.logs import RECORDED, recorded, run_on_gpu
from tests.report.parsed_page import Page

RUN = Path("runs/run-1")
VIRTUAL = reports(recorded(), RUN)
CUDA = reports(run_on_gpu(), RUN)
EVERY = {
    "virtual": VIRTUAL,
    "cuda": CUDA,
    "nothing better": reports(run_on_gpu(emitted=False), RUN),
    "begun": reports(recorded()[:1], RUN),
    "described": reports(recorded()[:2], RUN),
    "in its first turn": reports(recorded()[:3], RUN),
    "stopped in mid-run": reports(recorded()[:20], RUN),
    "empty": reports([], RUN),
}
every_report = pytest.mark.parametrize("made", EVERY.values(), ids=list(EVERY))
SECTIONS = (
    "The problem",
    "What was verified, and how",
    "What was not verified",
    "How to reproduce it",
    "The kernels",
    "Before and after",
    "Roofline",
    "History",
    "Environment",
    "The code",
)


def headings(markdown: str) -> list[str]:
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^## (.*)", outside, re.MULTILINE)


def section(markdown: str, title: str) -> str:
    return markdown.split(f"\n## {title}\n")[1].split("\n## ")[0]


@every_report
def test_the_page_is_well_made_and_fetches_nothing(made):
    page = Page.of(made["report.html"])
    assert page.problems == []
    assert "script" not in page.tags
    assert "http" not in made["report.html"].replace("http-equiv", "")


@pytest.mark.long
@every_report
def test_the_record_is_of_its_schema(made):
    jsonschema.validate(json.loads(made["report.json"]), schemas()["report.json"])


@pytest.mark.parametrize("made", [VIRTUAL, CUDA], ids=["virtual", "cuda"])
def test_both_texts_have_the_same_sections_in_the_same_order(made):
    assert tuple(headings(made["report.md"])) == SECTIONS
    assert tuple(re.findall("<h2>(.*?)</h2>", made["report.html"])) == SECTIONS


def test_an_estimate_against_torch_compile_is_told_where_there_is_one():
    low, value, high = 0.56, 0.86, 1.31
    guess = {"value": value, "low": low, "high": high, "label": "estimate"}
    winner = next(e.event for e in recorded() if isinstance(e.event, WinnerMeasured)).evaluation
    estimate = replace(
        winner.estimate,
        compile=from_data(guess | {"value": 1.1}, Estimated),
        speedup_compile=from_data(guess, Estimated),
    )
    (_, figure) = figures(replace(winner, estimate=estimate))
    assert figure.number == "0.86× (estimate)"
    assert "80 % interval 0.56 to 1.31; torch.compile is likely as fast, or faster" in figure.doubt
    (_, none) = figures(replace(winner, estimate=replace(estimate, speedup_compile=None)))
    assert (none.number, none.doubt) == ("no number", "neither timed nor estimated")


def test_without_a_gpu_no_number_stands_without_the_word_estimate():
    for name in ("report.md", "report.html"):
        text = VIRTUAL[name]
        assert "speedup" not in text.lower()
        assert "Verified, not timed:" in text
    assert "**4.17 µs (estimate)**" in VIRTUAL["report.md"]
    for line in VIRTUAL["report.md"].splitlines():
        if re.search(r"4\.17|36\.3", line) and "█" not in line:
            assert "estimate" in line.lower(), line
    assert "(estimate, not timed)" in section(VIRTUAL["report.md"], "Before and after")
    assert "ESTIMATE, not timed" in section(VIRTUAL["report.md"], "History")


def test_without_a_gpu_it_says_that_speed_was_not_verified():
    limits = section(VIRTUAL["report.md"], "What was not verified")
    for words in (
        "Speed. Nothing ran on a GPU",
        "Races",
        "Training",
        "autocast",
        "input set default",
    ):
        assert words in limits


def test_on_a_gpu_the_number_has_its_interval_and_both_baselines():
    top = CUDA["report.md"].split("\n## ")[0]
    assert "**1.62×** the speed of eager" in top
    assert "95 % interval 1.60 to 1.64" in top
    assert "**1.11×** the speed of torch.compile" in top
    assert "95 % interval 1.08 to 1.14" in top
    assert "| `wide` |" in top, "each input set is listed"
    assert "estimate" not in CUDA["report.md"].lower()


@pytest.mark.parametrize(
    ("made", "events", "name"),
    [
        (VIRTUAL, recorded(), "rms_norm_residual_optimized"),
        (CUDA, run_on_gpu(), "norm_optimized"),
    ],
    ids=["virtual", "cuda"],
)
def test_what_to_do_next_stands_at_the_top_in_the_words_of_the_terminal(made, events, name):
    top = made["report.md"].split("\n## ")[0]
    (line,) = (line for line in top.splitlines() if line.startswith("**What to do next:**"))
    state = fold(events)
    again_there = timing_command_of(state)
    screen = outcome_text(state.winner, Path(f"{name}.py"), "", again_there)
    use = f"from {name} import optimized; model.part = optimized(model.part)"
    again = f"where there is a GPU, `{again_there}` times it"
    assert f"next: {use}\n" in screen
    assert f"`{use}`" in line
    for text in (screen, line):
        assert (again in text) == (made is VIRTUAL)
    html = Page.of(made["report.html"]).text
    assert html.index("What to do next:") < html.index("The problem")


def test_a_part_of_a_model_is_put_back_at_its_place_and_only_if_the_whole_is_right():
    log = run_on_gpu()
    part = ProblemSpec(bundle="b", submodule="h.0.mlp", whole=ProblemSpec(path="gpt.py"))
    log[0] = replace(log[0], event=replace(log[0].event, problem=part))
    text = reports(log, RUN)["report.md"].split("\n## ")[0]
    assert "model.set_submodule('h.0.mlp', optimized(model.get_submodule('h.0.mlp')))" in text
    assert "if the whole model was found right with it" in text


def test_where_nothing_was_written_nothing_is_said_to_be_put_in():
    for name in ("nothing better", "stopped in mid-run", "begun", "empty"):
        assert "What to do next" not in EVERY[name]["report.md"]


def test_the_number_is_that_of_the_second_measurement():
    assert "1.64×** the speed" not in CUDA["report.md"]
    assert "measured the same way: 1.000 [0.995, 1.006]" in CUDA["report.md"]


def test_a_baseline_that_was_not_measured_is_said_twice():
    text = reports(run_on_gpu(compiled=False), RUN)["report.md"]
    assert "**not measured** against torch.compile" in text
    assert "Speed against torch.compile" in section(text, "What was not verified")


def test_each_kernel_has_a_sentence_of_its_evidence_and_no_more():
    reported = section(CUDA["report.md"], "The kernels")
    assert (
        "- `norm` (line 12 of the candidate): launched 2 times on a grid of 8 × 4 × 1, 8 warps a "
        "program; 75% of the device time; loads 3 MB (1.50 times the distinct bytes) and stores 1 MB, "
        "4 MB of DRAM traffic; 128 registers a thread, 4 spill instructions, 50% occupancy, limited "
        "by shared memory, tensor cores by wgmma; bound by matrix products." in reported
    )
    assert "- `tail`: launched once." in reported


def test_the_table_says_what_bounds_each_kernel_and_nothing_where_nobody_knows():
    heads, _, *rows = [
        line
        for line in section(CUDA["report.md"], "The kernels").splitlines()
        if line.startswith("|")
    ]
    place = [cell.strip() for cell in heads.split("|")].index("bound by")
    bounds = {row.split("|")[1].strip(): row.split("|")[place].strip() for row in rows}
    assert bounds == {"`norm`": "matrix products", "`tail`": ""}
    page = Page.of(CUDA["report.html"])
    assert "bound by" in page.texts
    assert "matrix products" in page.texts


def test_the_roofline_is_drawn_where_operations_bytes_and_time_are_known():
    reported = section(CUDA["report.md"], "Roofline")
    assert "data sheet of NVIDIA H200" in reported
    assert "FLOP/byte, " in reported
    assert "measured" in reported
    assert "tail" not in reported


def test_no_roofline_is_drawn_under_another_devices_ceilings():
    (gpu,) = {e.event.device for e in run_on_gpu() if hasattr(e.event, "device")}
    assert ceilings(gpu) is not None
    other = ceilings(type(gpu)("cuda", "NVIDIA H100 80GB HBM3", "sm_90", "", ""))
    assert other is not None
    assert other.bytes_per_s < ceilings(gpu).bytes_per_s
    assert ceilings(type(gpu)("cuda", "NVIDIA Nobody Knows It", "sm_90", "", "")) is None
    assert ceilings(type(gpu)("cuda", "AMD", "gfx942", "", "")) is None


def test_what_could_still_be_gained_is_said_with_what_binds():
    reported = section(CUDA["report.md"], "Before and after")
    assert "is 31 µs a call (input set default; 3 MB have to move; what binds is matrix" in reported
    assert "at most 50% of its time could still be saved" in reported
    assert "least possible" in reported
    assert "The least" not in section(VIRTUAL["report.md"], "Before and after")


def test_it_says_what_was_verified_by_which_means():
    reported = section(VIRTUAL["report.md"], "What was verified, and how")
    for words in ("17 calls", "float64", "`onehot`", "replaced by poison", "landlock", "SHA-256"):
        assert words in reported
    assert "Policy `triton`" in reported


@pytest.mark.long
def test_every_kind_of_inputs_is_described_and_none_is_called_the_functions_own_without_one():
    log = recorded()
    at = next(n for n, e in enumerate(log) if isinstance(e.event, WinnerMeasured))
    winner = log[at].event.evaluation
    case = winner.correctness.cases[0]
    cases = tuple(replace(case, probe=name) for name in PROBE)
    known = replace(winner, correctness=replace(winner.correctness, cases=cases))
    constant = Disclosure("no_input_generator", "there is no input generator")
    told = []
    for disclosures in ((), (constant,)):
        evaluation = replace(known, disclosures=disclosures)
        log[at] = replace(log[at], event=replace(log[at].event, evaluation=evaluation))
        told.append(section(reports(log, RUN)["report.md"], "What was verified, and how"))
    assert re.findall(r"^\| `[^`]+` \|  \|", told[0], re.MULTILINE) == []
    assert "made by the judge" not in told[0]
    assert "| `natural` | drawn by the problem's own function |" in told[0]
    assert "| `natural` | drawn like the example tensors |" in told[1]


def test_the_name_of_an_argument_is_shown_without_backslashes():
    assert line_of(plain_text("no response to: arguments[1]['x'][0]")) == (
        "no response to: arguments[1]['x'][0]"
    )
    assert "](" not in line_of(plain_text("[x](http") + plain_text("[y]") + "(z)").replace(
        "\\](", ""
    )


def test_work_is_called_proved_only_where_it_was():
    assert "Work proved: 1 launch of 1 Triton kernel" in VIRTUAL["report.md"]
    log = recorded()
    at = next(n for n, e in enumerate(log) if isinstance(e.event, WinnerMeasured))
    anything = replace(log[at].event, evaluation=replace(log[at].event.evaluation, policy="any"))
    log[at] = replace(log[at], event=anything)
    text = reports(log, RUN)["report.md"]
    assert "Work proved" not in text
    assert "poison" not in text
    assert "torch may have done it" in section(text, "What was not verified")


def test_one_command_reproduces_it():
    reported = section(VIRTUAL["report.md"], "How to reproduce it")
    commands = [line for line in reported.splitlines() if line.startswith("$ ")]
    assert commands == [
        "$ kernelagent evaluate rms_norm_residual.py rms_norm_residual_optimized.py --device virtual"
    ]
    failed = section(EVERY["nothing better"]["report.md"], "How to reproduce it")
    assert "--model replay:.kernelagent/runs/run-1 --device cuda" in failed


def test_a_run_without_a_better_module_says_why_and_claims_no_verdict():
    text = EVERY["nothing better"]["report.md"]
    assert "**No better module was written.** nothing was faster: norm." in text
    assert "no verdict of this run is final" in text
    assert "What was verified, and how" not in headings(text)
    assert "Figures" not in text


def test_a_run_that_has_not_ended_says_how_to_go_on():
    text = EVERY["stopped in mid-run"]["report.md"]
    assert "**The run has not ended.**" in text
    assert "--resume 20261121-113810-rms_norm_residual-8419" in text


def test_the_turns_are_there_to_be_opened_each_with_its_code_and_answer():
    page = CUDA["report.html"]
    assert page.count("<summary><strong>Turn ") == 4
    assert "<strong>Turn 3 from 2, emitted</strong>" in page
    assert "Feedback: norm" in page
    assert '<span class="k">class</span>' in page, "code is highlighted"


def test_disclosures_of_judge_problem_and_run_are_all_passed_on():
    reported = section(CUDA["report.md"], "What was not verified")
    for words in ("library_share", "insensitive_argument", "\n- norm"):
        assert words in reported


def test_the_curve_never_falls_and_counts_what_was_paid():
    result = moments(run_on_gpu())
    assert [moment.best.value for moment in result] == [1.0, 1.0, 1.0, 1.31, 1.64]
    assert [moment.turns for moment in result] == [0, 1, 2, 3, 4]
    assert [moment.tokens for moment in result] == [0, 1000, 2000, 3000, 4000]
    assert [moment.dollars for moment in result] == [0, 0.25, 0.5, 0.75, 1.0]
    assert [moment.seconds for moment in result] == sorted(moment.seconds for moment in result)


def test_a_report_depends_on_the_events_alone():
    assert reports(recorded(), RUN) == VIRTUAL


def test_the_files_are_written_beside_the_log(tmp_path):
    write_for(RunFolder(tmp_path), recorded())
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "report.md", "report.html"}


@pytest.mark.long
def test_the_command_prints_the_report_of_a_log_it_does_not_touch(tmp_path):
    log = tmp_path / "events.jsonl"
    torn = RECORDED.read_bytes() + b'{"schema": "kern'
    log.write_bytes(torn)
    message = [command(str(tmp_path)), command(str(tmp_path), "--json")]
    assert message[0] == (tmp_path / "report.md").read_text(encoding="utf-8")
    assert json.loads(message[1])["outcome"] == "better"
    assert (tmp_path / "report.html").is_file()
    assert log.read_bytes() == torn


def command(*words: str) -> str:
    code = (
        "import sys; from kernelagent.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: assert not {'torch', 'triton', 'numpy', 'resvg_py'} & set(sys.modules)"
    )
    line = [sys.executable, "-c", code, "report", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


HOSTILE = (
    "</script><script>alert(1)</script>",
    "</code></pre><img src=x onerror=alert(1)>",
    "]]></style></title></svg><iframe src=http://x.test>",
    "| a | b |\n|---|---|\n| [x](http://x.test) | ![y](http://x.test/y.png) |",
    "```\n# not a heading\n~~~\n````",
    "``` ` `` `````",
    "# heading\n## What was verified, and how\n- **bold**",
    "<b>&lt;&amp;</b> {title} %s {0}",
    "\x00\x1b[31m\x9b\u2028\u2029\u202e",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_structure(text):
    made = reports(run_on_gpu(text), RUN)
    page, calm = Page.of(made["report.html"]), Page.of(CUDA["report.html"])
    assert page.problems == []
    assert structure(page) == structure(calm)
    assert headings(made["report.md"]) == headings(CUDA["report.md"])
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", made["report.md"], flags=re.MULTILINE | re.DOTALL)
    unquoted = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", outside.replace("\\`", ""))
    assert re.findall(r"(?<!\\)\]\(|(?<!\\)<(?:script|img|iframe|/)|://", unquoted) == []
    for control in "\x00\x1b\x9b\u202e":
        assert control not in made["report.md"] + made["report.html"]


def structure(page: Page) -> list[str]:
    """The page's elements without what highlighting makes of the code."""
    return [tag for tag in page.tags if tag != "span"]


@pytest.mark.long
@settings(max_examples=examples(15))
@given(st.text(max_size=60))
def test_whatever_was_written_the_page_stays_whole(text):
    made = reports(run_on_gpu(f"x{text}"), RUN)
    page = Page.of(made["report.html"])
    assert page.problems == []
    assert structure(page) == structure(Page.of(CUDA["report.html"]))
    assert headings(made["report.md"]) == headings(CUDA["report.md"])


def test_a_very_long_run_shows_its_ends_and_what_led_to_the_best():
    log = run_on_gpu()
    assert isinstance(log[-1].event, RunFinished)
    long = reports(long_run(300), RUN)
    assert Page.of(long["report.html"]).problems == []
    (drawn,) = re.findall(
        r"^(\d+) of 300 turns: the first, the last", long["report.md"], re.MULTILINE
    )
    assert 110 <= int(drawn) <= 120
    assert 35 <= long["report.html"].count("<summary><strong>Turn ") <= 40
    for turn in ("Turn 3 from 2, emitted", "Turn 0<", "Turn 299 "):
        assert turn in long["report.html"]
    assert len(long["report.html"]) < 2_000_000


def long_run(turns: int):
    log = run_on_gpu()
    block = [e for e in log if getattr(e.event, "turn", None) == 2 and not hasattr(e.event, "path")]
    more = [
        replace(e, event=replace(e.event, turn=turn)) for turn in range(4, turns) for e in block
    ]
    return [*log[:-3], *more, *log[-3:]]


def test_replies_are_judged_again_as_they_were_with_gradients_and_in_their_model():
    whole = ProblemSpec(path="model.py", init="config")
    part = ProblemSpec(bundle="b/mlp", module="mlp", submodule="layers.0.mlp", whole=whole)
    command = replay_command(part, RunConfig(mode="train", turns=2, device="virtual"), "run-7")
    assert command == (
        "kernelagent optimize model.py --submodule layers.0.mlp --model replay:.kernelagent/runs/run-7 --init config "
        "--turns 2 --device virtual --mode train"
    )


def test_a_run_over_a_part_tells_of_the_whole_model_and_one_that_is_wrong_there_is_no_success():
    begun = list(recorded())
    device = next(e.event.device for e in begun if isinstance(e.event, ProblemDescribed))
    right = WholeModel("m", ("norm",), True, "it stayed right on 3 inputs", 3, 3, device)
    end = begun[-1]
    told = fold([*begun, replace(end, event=WholeModelChecked(right))])
    assert told.finished == fold(begun).finished
    top = as_markdown(document(told, begun)).split("\n## ")[0]
    assert "In the whole model:** it stayed right on 3 inputs" in top
    wrong = replace(right, right=False, why="wrong_output: further than allowed")
    state = fold([*begun, replace(end, event=WholeModelChecked(wrong))])
    assert state.emitted is None
    assert state.finished is not None
    assert (state.finished.outcome, state.finished.exit_status) == ("none", 1)
    assert "wrong in the whole model" in state.finished.why


def test_a_part_of_a_live_model_is_rechecked_against_the_copy_that_was_kept_of_it():
    whole = ProblemSpec(bundle="b/Net", module="Net")
    part = ProblemSpec(bundle="b/norm", module="norm", submodule="norm", whole=whole)
    command = recheck_command(part, RunConfig(device="virtual"), Path("out.py"))
    assert command == "kernelagent recheck out.py b/norm"
