"""Whole models with a key/value cache: what their parts take, and their answers with a part replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.loop.choosing_parts import following
from kernelagent.tools.judge.problem.bundle import save_bundle
from kernelagent.tools.judge.whole_model.scan import scan
from kernelagent.tools.judge.whole_model.submodules import Whole
from kernelagent.tools.judge.whole_model.whole import verify_whole
from kernelagent.tools.sandbox.spawn import ForkServer
from tests.tools.judge.whole_model.envelopes import taken

pytestmark = pytest.mark.long

transformers = pytest.importorskip("transformers")
NORM = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, y, eps, W: tl.constexpr):
    at = tl.program_id(0) * W + tl.arange(0, W)
    row = tl.load(x + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row) / W + eps)
    tl.store(y + at, row * scale * tl.load(weight + tl.arange(0, W)).to(tl.float32))


class ModelNew(torch.nn.Module):
    @classmethod
    def from_reference(cls, reference):
        made = cls()
        made.eps = reference.variance_epsilon
        made.weight = reference.weight
        return made

    def forward(self, x):
        y = torch.empty_like(x)
        rms_norm[(x.numel() // 64,)](x, self.weight, y, self.eps, W=64)
        return y
"""
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def llama() -> nn.Module:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    return model.to(torch.float16).eval()  # type: ignore[no-any-return]


def glm() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.Glm4Config(**SIZES, head_dim=16)
    return transformers.Glm4ForCausalLM(config).to(torch.bfloat16).eval()  # type: ignore[no-any-return]


def apertus() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.ApertusConfig(**SIZES, max_position_embeddings=64)
    return transformers.ApertusForCausalLM(config).eval()  # type: ignore[no-any-return]


def t5() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4
    )
    return transformers.T5ForConditionalGeneration(config).eval()  # type: ignore[no-any-return]


def prompts() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :5] = 0
    return {"input_ids": torch.randint(2, 64, (2, 12)), "attention_mask": mask}


def settings(folder: Path, model: nn.Module, inputs: object) -> JudgeSettings:
    save_bundle(folder / "model", model, inputs)
    spec = ProblemSpec(bundle=str(folder / "model"), module=type(model).__name__)
    return JudgeSettings(spec, device="virtual")


@pytest.mark.parametrize(
    ("make", "path", "given", "more"),
    [
        (llama, "model.layers.0.input_layernorm", taken([2, 12, 64], "float16"), {}),
        (glm, "model.layers.1.post_mlp_layernorm", taken([2, 12, 64], "bfloat16"), {}),
        (apertus, "model.norm", taken([2, 12, 64]), {}),
        (
            t5,
            "decoder.block.0.layer.1.layer_norm",
            taken([2, 4, 64]),
            {"decoder_input_ids": torch.ones(2, 4, dtype=torch.long)},
        ),
    ],
)
def test_a_part_stays_where_the_caches_hold_what_they_held_without_it(
    make: Callable[[], nn.Module],
    path: str,
    given: dict[str, object],
    more: dict[str, torch.Tensor],
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    asked = settings(tmp_path, make(), {**prompts(), **more})
    right = verify_whole(asked, [path], NORM, None, given, fork_server)
    assert right.right, right.why
    assert "on 3 fresh inputs" in right.why
    compared = {case.output for case in right.cases}
    assert any("['past_key_values']" in name and name.endswith("['keys']") for name in compared)
    errors = [case.rms_error for case in right.cases if case.output == "output['logits']"]
    assert len(set(errors)) == 3
    wrong = verify_whole(
        asked, [path], NORM.replace("/ W + eps", "/ W + 0.5"), None, given, fork_server
    )
    assert not wrong.right
    assert wrong.why.startswith("wrong_output: output")


class Kept:
    """What a model may hand back: a tensor, a number of its own, a lock, and itself."""

    made = 0

    def __init__(self, states: torch.Tensor) -> None:
        Kept.made += 1
        self.states = [states]
        self.number = Kept.made
        self.lock = threading.Lock()
        self.own = self


class Keeping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = transformers.models.llama.modeling_llama.LlamaRMSNorm(64)
        self.head = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Kept]:
        normed = self.norm(x)
        return self.head(x), Kept(normed)


def test_only_what_cannot_be_compared_in_an_object_is_left_out_and_named(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    asked = settings(tmp_path, Keeping(), (torch.randn(4, 64),))
    right = verify_whole(asked, ["norm"], NORM, None, taken([4, 64]), fork_server)
    assert right.right, right.why
    assert "not compared: " in right.why
    assert "output[1]['number']" in right.why
    assert "output[1]['lock'] (_thread.lock)" in right.why
    wrong = verify_whole(
        asked, ["norm"], NORM.replace("/ W + eps", "/ W + 0.5"), None, taken([4, 64]), fork_server
    )
    assert not wrong.right
    assert wrong.why.startswith("wrong_output: output[1]['states'][0] is wrong")


def test_a_candidate_that_fails_in_the_whole_model_is_refused_for_it(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    asked = settings(tmp_path, Keeping(), (torch.randn(4, 64),))
    failing = NORM.replace("y = torch.empty_like(x)", "raise ValueError('no such rows')")
    wrong = verify_whole(asked, ["norm"], failing, None, taken([4, 64]), fork_server)
    assert not wrong.right
    assert "no such rows" in wrong.why


def test_inputs_without_another_of_their_kind_are_not_called_fresh(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    asked = settings(tmp_path, llama(), {"input_ids": torch.full((2, 12), 7)})
    right = verify_whole(
        asked, ["model.norm"], NORM, None, taken([2, 12, 64], "float16"), fork_server
    )
    assert right.right, right.why
    assert "on 3 runs, with 1 different inputs among them" in right.why


def test_the_time_of_a_part_with_a_cache_is_that_of_its_own_call(tmp_path: Path) -> None:
    whole = Whole.open(settings(tmp_path, llama(), prompts()))
    result = scan(whole)
    rows = {row.path: row for row in result.rows}
    layer, attention = rows["model.layers.0"], rows["model.layers.0.self_attn"]
    assert layer.device_us > attention.device_us > 0
    assert layer.alike == ("model.layers.1",)
    for row in (layer, attention):
        assert row.cannot == (
            "it is called with a DynamicCache: give use_cache=False among the model's inputs, so that it gets none, or "
            "take a part inside it"
        )
    proposed = following(result, ())
    assert proposed is not None
    assert proposed.cannot is None


def test_a_part_with_a_cache_is_refused_with_what_to_take_instead(tmp_path: Path) -> None:
    whole = Whole.open(settings(tmp_path, llama(), prompts()))
    with pytest.raises(ProblemError, match=r"use_cache=False .*; inside it there are .*q_proj"):
        whole.capture("model.layers.0.self_attn", tmp_path / "part")
    without = Whole.open(settings(tmp_path / "b", llama(), {**prompts(), "use_cache": False}))
    assert without.capture("model.layers.0.self_attn", tmp_path / "part")


def test_a_given_cache_is_the_same_in_every_run(tmp_path: Path, fork_server: ForkServer) -> None:
    model = llama()
    with torch.no_grad():
        cache = model(torch.randint(2, 64, (2, 5))).past_key_values
    inputs = {"input_ids": torch.randint(2, 64, (2, 1)), "past_key_values": cache}
    asked = settings(tmp_path, model, inputs)
    right = verify_whole(
        asked, ["model.norm"], NORM, None, taken([2, 1, 64], "float16"), fork_server
    )
    assert right.right, right.why
    keys = {case.output for case in right.cases if case.output.endswith("['keys']")}
    assert keys
