"""What is wrong with a command is said at once, in a sentence, and no run is left behind."""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

import kernelagent
from kernelagent.cli.main import main
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import ModelError, ProblemError, UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.preflight import check_before_start, check_reachable
from kernelagent.models.endpoint.faults import fault_of

MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def refused(*words: str) -> tuple[int, float]:
    """Exit status and seconds of a command that must end at once."""
    began = time.perf_counter()
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(str(ended.value.code)), time.perf_counter() - began


WRONG = {
    "--strategy nope": "there is no strategy 'nope'",
    "--strategy window --set nope=1": "has no option 'nope'",
    "--target sm_12": "sm_12",
    "--device gpu": "--device gpu",
    "--policy nope": "--policy nope",
    "--baseline nope": "--baseline: Invalid enum value 'nope'",
    "--module Nope": "no nn.Module named 'Nope'; found: Model",
    "--inputs nope": "no function 'nope' (from --inputs); functions found: get_inputs",
    "--model gpt5": "there is no model 'gpt5'",
    "--model opnai/gpt-5 --yes": "no provider 'opnai'",
    "--model openai/gpt-5 --yes": "set OPENAI_API_KEY in the environment",
    "--model replay:gone.jsonl": "there is no recording gone.jsonl",
    "--model replay:gone.jsonl,match=hash": "there is no recording gone.jsonl (",
    "--model m/x --api-base localhost:8000 --yes": "write it whole",
    "--out gone/x.py": "the folder gone does not exist",
    "--runs model.py/runs": "name another with --runs",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_option_is_said_before_a_run_is_made(
    here: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    status, seconds = refused("optimize", "model.py", *words.split())
    message = capsys.readouterr().err
    assert WRONG[words] in message
    assert "Traceback" not in message
    assert status in {2, 3}
    assert not list(here.glob(".kernelagent/runs/*"))
    assert seconds < 5.0  # under 1 s on a quiet machine: benchmarks/results/wrong_inputs.md


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("optimize .", ". is a folder; name a Python file in it"),
        ("optimize notes.txt", "notes.txt is not a Python file"),
        ("optimize model.py:Modle", "no nn.Module named 'Modle'; found: Model"),
        ("optimize gone.py:Model", "there is no file gone.py"),
        ("scan model.py --module Modle", "no nn.Module named 'Modle'; found: Model"),
        ("optimize model.py --module Modle", "no nn.Module named 'Modle'; found: Model"),
        ("evaluate model.py model.py --module Modle", "no nn.Module named 'Modle'"),
        ("profile model.py --module Modle", "no nn.Module named 'Modle'"),
    ],
)
def test_a_slip_in_the_problem_is_said_at_once_and_leaves_no_run(
    here: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    (here / "notes.txt").write_text("notes\n", encoding="utf-8")
    status, _ = refused(*words.split())
    assert said in capsys.readouterr().err
    assert status == 2
    assert not list(here.glob(".kernelagent/runs/*"))


def test_a_recording_with_an_option_is_looked_for_without_it(here: Path) -> None:
    (here / "talk.jsonl").write_text("", encoding="utf-8")
    check_before_start(
        ProblemSpec(path="model.py"), RunConfig(model=("replay:talk.jsonl,match=hash",))
    )


def test_a_class_of_a_library_called_model_is_left_to_the_judge(here: Path) -> None:
    text = "from transformers import Qwen3Model\nModel = Qwen3Model\ndef get_inputs(): ...\n"
    (here / "model.py").write_text(text, encoding="utf-8")
    check_before_start(ProblemSpec(path="model.py"), RunConfig())


def test_going_on_with_a_run_says_so_before_anything_else(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = refused("optimize", "--resume", "20260101-000000-model-0000")
    assert "going on with run 20260101-000000-model-0000: its log is read" in (
        capsys.readouterr().err
    )
    assert status == 2


def test_a_missing_key_is_found_without_litellm_and_without_a_judge(here: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        check_before_start(ProblemSpec(path="model.py"), RunConfig(model=("openai/gpt-5",)))
    assert "litellm" not in set(sys.modules) - before


def test_a_client_that_says_it_has_no_key_is_not_waited_for() -> None:
    class Unhelpful(Exception):
        status_code = 500

    message = "The api_key client option must be set either by passing api_key or by OPENAI_API_KEY"
    assert fault_of(Unhelpful(message), now_s=0.0).kind == "key"


def test_a_syntax_error_is_said_with_its_line(here: Path) -> None:
    (here / "model.py").write_text("import torch\ndef x(:\n", encoding="utf-8")
    with pytest.raises(ProblemError, match="line 2: invalid syntax: def x"):
        check_before_start(ProblemSpec(path="model.py"), RunConfig())


@pytest.mark.parametrize(
    "text",
    [
        "from somewhere import *\n",
        "globals().update(Model=1)\n",
        "import torch\nModel = make()\ndef get_inputs(): ...\n",
        "try:\n    from a import Model\nexcept ImportError:\n    Model = None\ndef get_inputs(): ...\n",
    ],
)
def test_what_only_running_the_file_can_tell_is_left_to_the_judge(here: Path, text: str) -> None:
    (here / "model.py").write_text(text, encoding="utf-8")
    check_before_start(ProblemSpec(path="model.py"), RunConfig())


@pytest.mark.long
def test_nothing_is_sent_where_nobody_can_be_asked(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0")
    status, _ = refused("optimize", "model.py", "--model", "openai/gpt-5")
    assert status == 2
    assert "nothing was sent: there is no terminal to ask on; agree with --yes" in (
        capsys.readouterr().err
    )


@pytest.fixture
def refusing_server() -> str:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Refuses)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def test_a_key_that_the_endpoint_refuses_is_said_at_once(refusing_server: str) -> None:
    config = RunConfig(model=("openai/gpt-5",), api_base=refusing_server)
    with pytest.raises(ModelError, match=r"refuses the key \(HTTP 401\); set OPENAI_API_KEY"):
        check_reachable(config)


def test_an_address_where_nothing_listens_is_said_at_once() -> None:
    config = RunConfig(model=("openai/gpt-5",), api_base="http://127.0.0.1:9/v1")
    began = time.perf_counter()
    with pytest.raises(ModelError, match=r"nothing answers at http://127\.0\.0\.1:9/v1"):
        check_reachable(config)
    assert time.perf_counter() - began < 2.0


def test_a_model_that_stays_here_needs_no_key_and_no_address(here: Path) -> None:
    check_before_start(ProblemSpec(path="model.py"), RunConfig(model=("files:answers",)))
    check_reachable(RunConfig(model=("vllm:somewhere/some-model",)))


def test_a_folder_that_cannot_be_written_is_said_before_the_work(here: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        check_before_start(ProblemSpec(path="model.py"), RunConfig(out="/proc/optimized.py"))


def test_a_misspelled_option_of_the_library_call_is_refused_with_the_right_one() -> None:
    with pytest.raises(UsageError, match=r"no option 'turn'.*turns"):
        kernelagent.optimize(torch.nn.LayerNorm(64), torch.randn(8, 64), turn=1)


def test_the_library_call_refuses_the_numbers_that_the_command_refuses() -> None:
    with pytest.raises(UsageError, match="--turns: 0 is less than 1"):
        kernelagent.optimize(torch.nn.LayerNorm(64), torch.randn(8, 64), turns=0)


def test_the_library_call_takes_the_commands_short_flags() -> None:
    with pytest.raises(UsageError, match=r"no option 'trian'"):
        kernelagent.optimize(torch.nn.LayerNorm(64), torch.randn(8, 64), trian=True, train=True)


def test_the_package_names_what_it_offers() -> None:
    assert {"optimize", "evaluate", "Result"} <= set(dir(kernelagent))
