from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event, Thread

import pytest

from kernelagent.domain.candidate import NoCandidate, parse_reply
from kernelagent.domain.errors import ExitStatus, ModelError, PromptTooLong, UsageError
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.models import ModelQuery, ModelSettings, Reply
from kernelagent.models.kinds import load_model
from kernelagent.models.litellm_model import LitellmModel, Surroundings
from kernelagent.storage.secrets import Redactor
from tests.models.fault_server import Answer, FaultServer, Rules, failing, mid

NAME = "openai/writer-1"
KEY = "sk-of-this-test-1234567890"
CODE = "Here.\n\n```python\nclass ModelNew:\n    pass\n```\nDone.\n"
MESSAGES = (Message("system", "Be good."), Message("user", "Write."))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@dataclass
class Asked:
    """A model at a server, its waits, and what it told."""

    server: FaultServer
    name: str = NAME
    waits: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        around = Surroundings(sleep=self.waits.append, now=lambda: 0.0)
        redact = Redactor((KEY,))
        self.model = LitellmModel(
            self.name, api_base=self.server.url, redact=redact, surroundings=around
        )

    def reply(self, **changes: object) -> Reply:
        request = TurnRequest("write", self.name, temperature=0.7)
        ask = replace(
            ModelQuery(0, request, MESSAGES, History(), notify=self.told.append), **changes
        )
        self.texts: list[str] = []
        answer = self.model.reply(ask, self.texts.append)
        assert isinstance(answer, Reply)
        return answer


@pytest.mark.parametrize("name", [NAME, "hosted_vllm/writer-1", "deepseek/writer-1"])
def test_text_comes_live_and_tokens_from_the_last_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    with FaultServer([Answer(CODE)]) as server:
        asked = Asked(server, name)
        answer = asked.reply()
    assert answer.text == CODE
    assert len(asked.texts) > 5
    assert "".join(asked.texts) == CODE
    assert (answer.tokens_in, answer.tokens_out) == (100, Answer(CODE).tokens_out)
    assert answer.finish == "stop"
    assert server.asks[0].body["stream_options"] == {"include_usage": True}
    assert "n" not in server.asks[0].body


def test_an_unknown_price_is_said_once_and_a_known_one_comes_from_the_table() -> None:
    with FaultServer([Answer(CODE)] * 3, rules=Rules(models=("writer-1", "gpt-4o"))) as server:
        asked = Asked(server)
        first, second = asked.reply(), asked.reply()
        priced = Asked(server, "openai/gpt-4o").reply()
    assert first.dollars is None
    assert "price of openai/writer-1 is unknown" in (first.remark or "")
    assert second.remark is None
    assert priced.dollars is not None
    assert 0 < priced.dollars < 0.01


def test_what_a_provider_says_it_costs_wins() -> None:
    with FaultServer([Answer(CODE, dollars=0.125)]) as server:
        assert Asked(server).reply().dollars == 0.125


def test_without_usage_tokens_are_counted_here() -> None:
    with FaultServer([Answer(CODE, usage=False)], rules=Rules(stream=False)) as server:
        answer = Asked(server).reply()
    assert 10 < answer.tokens_out < 60
    assert answer.tokens_in > 3


@pytest.mark.parametrize(
    ("refused", "learnt"),
    [
        ("system_role", "no system role"),
        ("temperature", "no temperature"),
        ("stream", "does not stream"),
        ("stream_options", "no stream_options"),
        ("max_tokens", "max_completion_tokens"),
    ],
)
def test_what_an_endpoint_refuses_is_asked_once_and_never_again(refused: str, learnt: str) -> None:
    with FaultServer([Answer(CODE)] * 3, rules=Rules(**{refused: False})) as server:
        asked = Asked(server)
        answers = [asked.reply(tokens_left=50_000) for _ in range(3)]
    assert [answer.text for answer in answers] == [CODE] * 3
    assert sum(item.taught for item in server.asks) == 1
    assert len(asked.told) == 1
    assert learnt in asked.told[0]


def test_without_a_system_role_its_words_open_the_users_message() -> None:
    with FaultServer([Answer(CODE)], rules=Rules(system_role=False)) as server:
        Asked(server).reply()
    assert server.asks[-1].body["messages"] == [{"role": "user", "content": "Be good.\n\nWrite."}]


def test_an_endpoint_that_refuses_everything_and_says_nothing_is_asked_in_the_plainest_form() -> (
    None
):
    rules = Rules(False, False, False, False, False, explains=False)
    with FaultServer([Answer(CODE)] * 2, rules=rules) as server:
        asked = Asked(server)
        assert asked.reply().text == asked.reply().text == CODE
    assert sum(item.taught for item in server.asks) == 1


def test_a_request_that_stays_bad_ends_with_the_endpoints_own_words() -> None:
    with FaultServer(otherwise=failing(400, "the logprobs are wrong today")) as server:
        with pytest.raises(ModelError, match="the logprobs are wrong today"):
            Asked(server).reply()
        assert len(server.asks) == 2, "as it was, and in the plainest form"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("inside", [True, False], ids=["in the text", "of its own"])
def test_thinking_is_kept_apart_and_never_parsed_as_code(stream: bool, inside: bool) -> None:
    thought = "Maybe\n```python\nclass ModelNew: 'a draft'\n```\nor not."
    answer = Answer(f"<think>{thought}</think>\nNo code.") if inside else Answer(
        "No code.", thinking=thought
    )  # fmt: skip
    with FaultServer([answer], rules=Rules(stream=stream)) as server:
        got = Asked(server).reply()
    assert got.text == "No code."
    assert got.thinking == thought
    assert isinstance(parse_reply(got.text), NoCandidate)


def test_waits_double_and_retry_after_is_obeyed() -> None:
    plan = [failing(503, "busy")] * 3 + [failing(429, "slow", retry_after="11"), Answer(CODE)]
    with FaultServer(plan) as server:
        asked = Asked(server)
        assert asked.reply().text == CODE
    assert asked.waits == [1.0, 2.0, 4.0, 11.0]
    assert "waiting 11 s" in asked.told[0]


def test_retry_after_may_be_a_date() -> None:
    plan = [failing(429, "slow", retry_after="Thu, 01 Jan 1970 00:00:33 GMT"), Answer(CODE)]
    with FaultServer(plan) as server:
        asked = Asked(server)
        asked.reply()
    assert asked.waits == [33.0]


@pytest.mark.long
def test_patience_ends_with_one_sentence_and_status_3() -> None:
    with FaultServer(otherwise=failing(503, "overloaded")) as server:
        asked = Asked(server)
        with pytest.raises(ModelError, match=r"overloaded.*waited \d+ s") as raised:
            asked.reply()
    assert raised.value.exit_status == ExitStatus.ENVIRONMENT
    assert 500 < sum(asked.waits) <= 600
    assert "\n" not in str(raised.value)


def test_where_nothing_listens_the_address_is_named_soon() -> None:
    with FaultServer() as server:
        asked = Asked(server)
    with pytest.raises(ModelError, match=r"nothing answers at http://127\.0\.0\.1:\d+/v1"):
        asked.reply()
    assert sum(asked.waits) <= 15


def test_a_wrong_key_is_tried_once_and_echoed_nowhere() -> None:
    with FaultServer(rules=Rules(key="sk-another")) as server:
        with pytest.raises(ModelError, match="refuses the key") as raised:
            Asked(server).reply()
        assert len(server.asks) == 1
    error: BaseException | None = raised.value
    assert error is not None
    assert KEY not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None, "a traceback would show the endpoint's own words"


def test_a_wrong_name_lists_what_the_endpoint_offers() -> None:
    with FaultServer() as server, pytest.raises(ModelError, match="it offers writer-1, writer-1-m"):
        Asked(server, "openai/wirter-1").reply()


def test_any_name_goes_to_an_address_of_ones_own() -> None:
    with FaultServer([Answer(CODE)], rules=Rules(models=("my-team/llama-9",))) as server:
        assert Asked(server, "my-team/llama-9").reply().text == CODE


def test_a_prompt_that_is_too_long_is_told_from_other_refusals() -> None:
    with (
        FaultServer(rules=Rules(window=5)) as server,
        pytest.raises(PromptTooLong, match="context"),
    ):
        Asked(server).reply()


def test_a_refusal_is_a_reply_without_code() -> None:
    plan = [
        failing(400, "blocked", "content_policy_violation"),
        Answer("", finish="content_filter"),
    ]
    with FaultServer(plan) as server:
        asked = Asked(server)
        assert [asked.reply().finish, asked.reply().finish] == ["refused", "refused"]


@pytest.mark.parametrize("then", ["drop", "fade", "garbage", "error_chunk"])
def test_what_had_arrived_when_the_connection_broke_is_the_reply(then: str) -> None:
    with FaultServer([mid(Answer(CODE), then, 0.5)]) as server:
        asked = Asked(server)
        answer = asked.reply()
    assert answer.finish == "lost"
    assert answer.text == CODE[: int(len(CODE) * 0.5)]
    assert answer.tokens_out > 0
    assert "broke off" in (answer.remark or "")
    assert asked.waits == []


def test_a_reply_is_stopped_in_its_middle_when_it_has_spent_the_budget() -> None:
    long = Answer("x = 1\n" * 20_000, piece=60)
    with FaultServer([long, long], rules=Rules(models=("writer-1", "gpt-4o"))) as server:
        by_tokens = Asked(server).reply(tokens_left=2_000)
        by_dollars = Asked(server, "openai/gpt-4o").reply(dollars_left=0.02)
        assert server.chunks_sent < 2 * len(long.text) / long.piece
    assert by_tokens.finish == by_dollars.finish == "budget"
    assert 1_500 < by_tokens.tokens_out < 2_300
    assert by_dollars.dollars is not None
    assert 0.018 < by_dollars.dollars < 0.024


def test_asks_side_by_side_learn_together_and_keep_what_is_theirs() -> None:
    plan = [Answer(CODE), failing(500, "oops"), Answer(CODE), Answer(CODE), Answer(CODE)]
    with FaultServer(plan, rules=Rules(temperature=False)) as server:
        asked = Asked(server)
        answers: list[str] = []
        go = Event()

        def ask() -> None:
            go.wait()
            answers.append(asked.reply().text)

        threads = [Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        go.set()
        for thread in threads:
            thread.join()
    assert answers == [CODE] * 4
    assert len(asked.told) == 1


def test_a_run_whose_login_was_not_kept_asks_for_it_again() -> None:
    settings = ModelSettings(None, None, "", "", "http://[redacted]@host/v1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give --api-base again"):
        load_model(NAME, settings)
