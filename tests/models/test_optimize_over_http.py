"""A whole `optimize` through an HTTP server: to the emitted module, and with keys lying about everywhere."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_main_job import KERNEL, PROBLEM, reply
from tests.models.fault_server import Answer, FaultServer, Rules, failing

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PLANTED = {
    "OPENAI_API_KEY": "sk-planted-0123456789-openai",
    "ANTHROPIC_API_KEY": "sk-ant-planted-9876543210",
    "GEMINI_API_KEY": 'AIza-planted-"quoted"-5550001',
    "AWS_SECRET_ACCESS_KEY": "planted/aws+secret/key/4242",
    "HF_TOKEN": "hf_planted_token_777777",
    "HTTPS_PROXY_LOGIN_URL": "http://proxyuser:plantedproxypass@127.0.0.1:9",
}
LOGIN = "someone:planted-login-password"
SECRETS = [
    *(value for name, value in PLANTED.items() if not name.endswith("URL")),
    "plantedproxypass",
    "planted-login-password",
    base64.b64encode(LOGIN.encode()).decode(),
]


def optimize(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelagent", "optimize", *words, "--yes"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        stdin=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text(PROBLEM, encoding="utf-8")
    return tmp_path


def found_in(folder: Path, texts: list[str]) -> list[str]:
    """Where any of the secrets stands: files of whatever kind, git objects unpacked, and `texts`."""
    places = []
    for path in (p for p in folder.rglob("*") if p.is_file()):
        raw = path.read_bytes()
        places += [f"{path}: {s}" for s in SECRETS if s.encode() in raw]
    for git in folder.rglob(".git"):
        words = ["git", "-C", str(git.parent), "log", "-p", "--all", "--format=fuller"]
        texts = [*texts, subprocess.run(words, capture_output=True, text=True, check=True).stdout]
    in_json = [json.dumps(s)[1:-1] for s in SECRETS]
    return places + [s for text in texts for s in [*SECRETS, *in_json] if s in text]


@pytest.mark.timeout(900)
def test_no_key_stands_in_any_file_or_word_of_a_run_in_which_everything_echoes_them(
    folder: Path,
) -> None:
    echo = " ".join(SECRETS)
    comment = "".join(f"# {secret}\n" for secret in SECRETS)
    talk = Answer(f"The key is {echo}. No code, sorry.", thinking=f"I saw {echo}")
    plan = [
        failing(500, f"failed for {echo}"),
        failing(429, f"slow down, {echo}", retry_after="0.01"),
        talk,
        Answer(reply(comment + KERNEL, echo), thinking=echo),
    ]
    with FaultServer(plan, otherwise=Answer(f"nothing more, {echo}")) as server:
        base = server.url.replace("http://", f"http://{LOGIN}@")
        words = ("scale.py", "--model", "openai/writer-1", "--api-base", base, "--turns", "2")
        done = optimize(folder, *words, **PLANTED)
        sent = json.dumps([item.body for item in server.asks])
        assert {item.authorization for item in server.asks} == {f"Basic {SECRETS[-1]}"}
    assert done.returncode == 0, done.stderr
    assert (folder / "scale_optimized.py").is_file()
    assert "[redacted]" in (folder / "scale_optimized.py").read_text(encoding="utf-8")
    assert found_in(folder, [done.stdout, done.stderr, sent]) == []
    assert "price of openai/writer-1 is unknown" in done.stderr


@pytest.mark.timeout(1800)
def test_a_wrong_key_stops_the_run_with_one_sentence_and_the_run_goes_on_with_the_right_one(
    folder: Path,
) -> None:
    right, wrong = "sk-the-right-key-11111", PLANTED["OPENAI_API_KEY"]
    with FaultServer([Answer(reply(KERNEL, "Here."))], rules=Rules(key=right)) as server:
        words = ("--model", "openai/writer-1", "--api-base", server.url, "--turns", "1")
        refused = optimize(folder, "scale.py", *words, OPENAI_API_KEY=wrong)
        assert refused.returncode == 3, refused.stderr
        assert "Traceback" not in refused.stderr
        last = refused.stderr.strip().splitlines()[-1]
        assert "refuses the key" in last
        assert "OPENAI_API_KEY" in last
        assert len(server.asks) == 1, "a wrong key is not tried twice"
        assert found_in(folder, [refused.stdout, refused.stderr]) == []
        run = next((folder / ".kernelagent" / "runs").iterdir())
        gone_on = optimize(folder, "--resume", run.name, OPENAI_API_KEY=right)
    assert gone_on.returncode == 0, gone_on.stderr
    assert (folder / "scale_optimized.py").is_file()
