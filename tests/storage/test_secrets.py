from __future__ import annotations

import base64
import json
import random
from itertools import pairwise

import pytest

from kernelagent.loop.queries.live_text import LiveText
from kernelagent.storage.secrets import MARK, Redactor, is_secret_name, redactor_for, split_login

KEY = "sk-abc-0123456789"


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "X-APIKEY"]
)
def test_variables_that_hold_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret_name(name)
    assert redactor_for({name: KEY})(f"<{KEY}>") == f"<{MARK}>"


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "SECRET_PATH", "PATH", "MONKEY", "API_KEY_FILE"]
)
def test_other_variables_are_left_alone(name: str) -> None:
    assert redactor_for({name: KEY})(f"<{KEY}>") == f"<{KEY}>"


def test_short_values_are_no_keys_because_they_stand_in_every_program() -> None:
    text = "import torch  # EMPTY"
    assert redactor_for({"OPENAI_API_KEY": "EMPTY", "A_KEY": "torch"})(text) == text


def test_a_key_is_found_in_json_and_in_urls_too() -> None:
    key = 'a"quoted\\key/with+signs'
    redact = redactor_for({"A_KEY": key})
    assert redact(json.dumps({"said": key})) == json.dumps({"said": MARK})
    assert "quoted" not in redact("http://x/?k=a%22quoted%5Ckey%2Fwith%2Bsigns")


def test_the_login_of_any_url_goes_and_that_of_the_api_base_also_as_a_header() -> None:
    redact = redactor_for({}, "http://someone:password-9@host:1/v1")
    assert redact("at http://someone:password-9@host:1/v1") == f"at http://{MARK}@host:1/v1"
    assert redact("Authorization: Basic c29tZW9uZTpwYXNzd29yZC05") == f"Authorization: Basic {MARK}"
    assert redact("http://else:pw@host") == f"http://{MARK}@host"


def test_an_address_is_split_from_its_login_which_goes_as_a_header() -> None:
    address, login = split_login("https://some%40one:pass%3Aword@host:1/v1?a=b")
    assert address == "https://host:1/v1?a=b"
    assert base64.b64decode(login or "") == b"some@one:pass:word"


@pytest.mark.parametrize("address", ["http://host:1/v1", "http://host/@models", "host"])
def test_an_address_without_a_login_stays_as_it_is(address: str) -> None:
    assert split_login(address) == (address, None)


def test_addresses_without_a_login_and_decorators_stay() -> None:
    text = "see https://host/a and\n@triton.jit\ndef f(): ..."
    assert Redactor()(text) == text


@pytest.mark.parametrize("seed", range(20))
def test_a_key_that_arrives_in_pieces_never_shows(seed: int) -> None:
    rng = random.Random(seed)
    text = f"sk-ab {KEY} is the key; sk-abc-0 is not, {KEY}{KEY}"
    shown: list[str] = []
    logged: list[str] = []
    clock = iter(range(10_000))
    live = LiveText(
        lambda piece, _: logged.append(piece), shown.append, redactor_for({"A_KEY": KEY}),
        lambda: next(clock),
    )  # fmt: skip
    while text:
        size = rng.randint(1, 7)
        live(text[:size])
        text = text[size:]
    assert KEY not in "".join(shown)
    assert KEY not in "".join(logged)
    assert "".join(shown) == f"sk-ab {MARK} is the key; sk-abc-0 is not, {MARK}{MARK}"


def test_pieces_are_published_twice_a_second_at_most_and_hold_all_but_the_last() -> None:
    now, pieces = [0.0], []
    live = LiveText(
        lambda text, count: pieces.append((now[0], text, count)),
        lambda _: None,
        Redactor(),
        lambda: now[0],
    )
    for number in range(1000):
        now[0] = number * 0.005
        live("x")
    times = [time for time, _, _ in pieces]
    assert len(pieces) == 9
    assert all(after - before >= 0.5 for before, after in pairwise(times))
    assert sum(len(text) for _, text, _ in pieces) == pieces[-1][2] >= 900
