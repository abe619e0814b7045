from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelagent.cli.doctor import Finding, in_range, keys_finding, vllm_finding


def interpreter(folder: Path, status: int) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_the_interpreter_that_a_run_would_start_is_the_one_asked(tmp_path):
    result = vllm_finding({"KERNELAGENT_VLLM_PYTHON": interpreter(tmp_path, 0)})
    assert (result.status, result.found) == ("ok", f"installed for {tmp_path}/python")


@pytest.mark.parametrize("status", [1, None])
def test_an_interpreter_without_vllm_or_none_at_all_is_named(tmp_path, status):
    python = interpreter(tmp_path, status) if status else str(tmp_path / "nothing")
    result = vllm_finding({"KERNELAGENT_VLLM_PYTHON": python})
    assert result.status == "optional"
    assert python in result.found


def test_without_a_name_it_is_this_interpreter():
    assert sys.executable in vllm_finding({}).found


def test_a_version_that_runs_refuse_is_no_good_here_either():
    finding = Finding("torch", "ok", "2.10.0")
    assert in_range("torch", "2.11.0", finding) is finding
    refused = in_range("torch", "2.10.0", finding)
    assert (refused.status, refused.found) == ("missing", "2.10.0")
    assert "torch 2.11" in refused.advice


def test_keys_are_known_as_the_redactor_knows_them_and_none_is_shown():
    environment = {"OPENAI_API_KEY": "sk-1", "HF_TOKEN": "hf-2", "TOKENIZERS_PARALLELISM": "true"}
    result = keys_finding(environment)
    assert (result.status, result.found) == ("ok", "HF_TOKEN, OPENAI_API_KEY")


def test_a_variable_that_is_set_to_nothing_is_no_key():
    assert keys_finding({"OPENAI_API_KEY": ""}).status == "optional"
