"""Layers of transformers: those of one model take one another's file, those of another config do not."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.domain.certificate import NAME
from tests.dropin.emitted import facts_of, imported, text_for, warnings_as_errors
from tests.dropin.test_dropin_other_layers import verified_of

pytest.importorskip("transformers")

from transformers import BertConfig, GPT2Config, LlamaConfig, T5Config
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama import modeling_llama as llama
from transformers.models.t5.modeling_t5 import T5Block, T5LayerNorm

pytestmark = pytest.mark.long

X, PLACES = torch.randn(2, 5, 32), torch.arange(5)[None]
EAGER = {"attn_implementation": "eager"}
CANDIDATE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"


def _llama(**changed: Any) -> Any:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    usual = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 50, **heads, **EAGER}
    return LlamaConfig(**(usual | changed))


def _gpt2(**changed: Any) -> Any:
    return GPT2Config(**({"n_embd": 32, "n_head": 4, **EAGER} | changed))


def _bert(**changed: Any) -> Any:
    usual = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, **EAGER}
    return BertConfig(**(usual | changed))


def _t5(**changed: Any) -> Any:
    return T5Config(**({"d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4} | changed))


def _turned() -> Any:
    return llama.LlamaRotaryEmbedding(_llama())(X, PLACES)


KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[], Any]]] = {
    "LlamaRMSNorm": (_llama, lambda c, _: llama.LlamaRMSNorm(32, c.rms_norm_eps), lambda: (X,)),
    "LlamaMLP": (_llama, lambda c, _: llama.LlamaMLP(c), lambda: (X,)),
    "LlamaAttention": (_llama, llama.LlamaAttention, lambda: (X, _turned(), None)),
    "LlamaDecoderLayer": (
        _llama,
        llama.LlamaDecoderLayer,
        lambda: (X, None, None, None, False, _turned()),
    ),
    "LlamaRotaryEmbedding": (
        _llama,
        lambda c, _: llama.LlamaRotaryEmbedding(c),
        lambda: (X, PLACES),
    ),
    "GPT2Block": (_gpt2, GPT2Block, lambda: (X,)),
    "BertLayer": (_bert, BertLayer, lambda: (X,)),
    "T5Block": (_t5, lambda c, n: T5Block(c, False, n), lambda: (X,)),
    "T5LayerNorm": (_t5, lambda c, _: T5LayerNorm(32, c.layer_norm_epsilon), lambda: (X,)),
}
OTHER_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "another eps of a norm": ("LlamaRMSNorm", {"rms_norm_eps": 1e-3}),
    "another eps of T5's norm": ("T5LayerNorm", {"layer_norm_epsilon": 1e-3}),
    "another act of an MLP": ("LlamaMLP", {"hidden_act": "gelu"}),
    "another count of heads": ("LlamaAttention", {"num_attention_heads": 8, "head_dim": 4}),
    "another attention": ("LlamaAttention", {"attn_implementation": "sdpa"}),
    "another base of the turning": (
        "LlamaRotaryEmbedding",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    ),
    "another eps in a layer": ("LlamaDecoderLayer", {"rms_norm_eps": 1e-3}),
    "another act in a layer": ("LlamaDecoderLayer", {"hidden_act": "gelu"}),
    "another act of GPT-2": ("GPT2Block", {"activation_function": "relu"}),
    "another scale of GPT-2's attention": ("GPT2Block", {"scale_attn_weights": False}),
    "other heads of GPT-2": ("GPT2Block", {"n_head": 8}),
    "other heads of BERT": ("BertLayer", {"num_attention_heads": 8}),
    "another act of BERT": ("BertLayer", {"hidden_act": "relu"}),
    "another eps of BERT": ("BertLayer", {"layer_norm_eps": 1e-5}),
}


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors(DeprecationWarning, FutureWarning):
        yield


def _text(kind: str, **without: Any) -> str:
    config, make, call = KINDS[kind]
    layer = make(config(), 0).eval()
    told = verified_of(layer, (call(), {}))
    return text_for(CANDIDATE, facts_of(layer, "()"), **told | without)


def _put_on(emitted: ModuleType, layer: Any) -> Any:
    return emitted.optimized(layer, fast=copy.deepcopy(layer))


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_of_the_same_model_takes_the_file(kind: str, tmp_path: Path) -> None:
    emitted = imported(_text(kind), tmp_path)
    config, make, call = KINDS[kind]
    # As a loaded model's: with a place it came from, another number, and calls behind it.
    known = config()
    known._name_or_path, known.id2label = "a/path", {0: "yes"}
    other = make(known, 1).eval()
    other(*call())
    assert _put_on(emitted, other)._dropin.refusal_around(eager=True) is None


@pytest.mark.parametrize("what", OTHER_CONFIGS)
def test_a_layer_of_another_config_is_refused(what: str, tmp_path: Path) -> None:
    kind, changed = OTHER_CONFIGS[what]
    emitted = imported(_text(kind), tmp_path)
    config, make, _ = KINDS[kind]
    with pytest.raises(TypeError, match="not the verified module"):
        _put_on(emitted, make(config(**changed), 0).eval())


def test_what_was_read_takes_few_lines_of_the_file() -> None:
    def lines(text: str) -> int:
        return len(text.partition("ENVELOPE_VERIFIED: ")[2].partition(f"\n{NAME}")[0].splitlines())

    kind = "LlamaDecoderLayer"
    config, make, _ = KINDS[kind]
    parts = make(config(), 0).named_modules()
    classes = {path: {"class": type(part).__qualname__} for path, part in parts}
    assert lines(_text(kind)) - lines(_text(kind, attributes=classes, reads={})) <= 10
