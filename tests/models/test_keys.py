from __future__ import annotations

from collections.abc import Iterator

import keyring
import keyring.backend
import pytest

from kernelagent.domain.errors import ModelError
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.models import ModelQuery, Reply
from kernelagent.models.litellm_model import LitellmModel
from kernelagent.storage.secrets import MARK, Redactor
from tests.models.fault_server import Answer, FaultServer, Rules

NAME = "openai/writer-1"
KEY = "sk-from-the-keyring-4711"
ASK = ModelQuery(0, TurnRequest("write", NAME), (Message("user", "Write."),), History())


class InMemory(keyring.backend.KeyringBackend):
    """A keyring as the operating system keeps it, in memory."""

    priority = 1.0

    def __init__(self, entries: dict[tuple[str, str], str], broken: bool = False) -> None:
        super().__init__()
        self.entries = entries
        self.broken = broken

    def get_password(self, service: str, username: str) -> str | None:
        if self.broken:
            raise RuntimeError("the keyring is locked")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(InMemory({("kernelagent", "OPENAI_API_KEY"): KEY}))
    yield
    keyring.set_keyring(before)


def reply_of(model: LitellmModel) -> Reply:
    answer = model.reply(ASK, lambda _: None)
    assert isinstance(answer, Reply)
    return answer


@pytest.mark.long
def test_a_key_that_the_environment_lacks_comes_from_the_keyring_and_is_redacted_from_then_on() -> (
    None
):
    redact = Redactor()
    with FaultServer([Answer(f"your key is {KEY}")], rules=Rules(key=KEY)) as server:
        answer = reply_of(LitellmModel(NAME, api_base=server.url, redact=redact))
    assert answer.text == f"your key is {MARK}"
    assert redact(KEY) == MARK


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    rules = Rules(key="sk-from-the-environment")
    with FaultServer([Answer("hello")], rules=rules) as server:
        assert reply_of(LitellmModel(NAME, api_base=server.url)).text == "hello"


def test_a_server_of_ones_own_needs_no_key_and_a_locked_keyring_is_no_crash() -> None:
    keyring.set_keyring(InMemory({}, broken=True))
    with FaultServer([Answer("hello")]) as server:
        assert reply_of(LitellmModel(NAME, api_base=server.url)).text == "hello"


def test_without_any_key_the_sentence_names_the_variable() -> None:
    keyring.set_keyring(InMemory({}))
    with FaultServer(rules=Rules(key=KEY)) as server, pytest.raises(ModelError) as raised:
        reply_of(LitellmModel(NAME, api_base=server.url))
    assert "set OPENAI_API_KEY in the environment" in str(raised.value)
