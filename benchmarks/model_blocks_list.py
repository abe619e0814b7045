"""Blocks of today's models in small configurations, for `model_blocks`: how each is built and called."""

from __future__ import annotations

from dataclasses import dataclass

_T = "transformers.models."


@dataclass(frozen=True)
class Block:
    """One block as a user would have it in a file of their own."""

    name: str
    package: str
    """What must be installed; empty: torch alone."""
    imports: str
    kind: str
    """The class."""
    init: str
    """Its constructor's arguments, as a list."""
    inputs: str
    """Its example arguments: a list, or a dict with `args` and `kwargs`."""

    @property
    def source(self) -> str:
        """The file: the block for itself, and a model around it."""
        return f"""import torch
from torch import nn
{self.imports}


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {self.kind}(*get_init_inputs())

    def forward(self, *args, **kwargs):
        return self.part(*args, **kwargs)


def no_arguments():
    return []


def get_init_inputs():
    return {self.init}


def get_inputs():
    return {self.inputs}
"""


def _hf(name: str, kind: str, config: str, sizes: str, init: str, inputs: str) -> Block:
    """A block of transformers; `config` is the class, `{c}` in `init` stands for an instance."""
    stem = name.split(" ")[0]
    imports = f"from transformers import {config}\nfrom {_T}{stem}.modeling_{stem} import {kind}"
    # Of these only Gemma 2 caps its scores, which torch's own attention cannot.
    attention = "eager" if stem == "gemma2" else "sdpa"
    made = f"{config}({sizes}{', ' if sizes else ''}attn_implementation='{attention}')"
    return Block(f"{kind}", "transformers", imports, kind, init.replace("{c}", made), inputs)


_DECODER = (
    "hidden_size=64, intermediate_size=176, num_attention_heads=4, num_key_value_heads=2, "
    "num_hidden_layers=2, head_dim=16, vocab_size=128"
)
_ENCODER = (
    "hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=2, "
    "vocab_size=128"
)
_VISION = (
    "hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=2, "
    "image_size=32, patch_size=8"
)
_X = "[torch.randn(2, 32, 64)]"
_ROTATED = (
    "{'args': [torch.randn(2, 32, 64)], 'kwargs': {'position_embeddings': "
    "(torch.randn(2, 32, 16), torch.randn(2, 32, 16)), 'attention_mask': None}}"
)
_MASKED = "{'args': [torch.randn(2, 32, 64)], 'kwargs': {'attention_mask': None}}"

_OWN = '''import math
from dataclasses import dataclass

import torch.nn.functional as F


@dataclass
class Sizes:
    width: int = 64
    heads: int = 4
    vocabulary: int = 96


class CausalAttention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads = sizes.heads
        self.mixed = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.mixed(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Feed(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SmallGPTBlock(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.norm = nn.LayerNorm(sizes.width)
        self.attention = CausalAttention(sizes)
        self.norm_too = nn.LayerNorm(sizes.width)
        self.feed = Feed(sizes)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.feed(self.norm_too(x))


class LastTokenHead(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.norm(x)[:, [-1], :])


class DoubleConv(nn.Module):
    """One level of a U-Net."""

    def __init__(self, before, after):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        )

    def forward(self, x):
        return self.layers(x)


class UpAndJoin(nn.Module):
    """The way up of a U-Net: enlarge, put beside what was there, and mix."""

    def __init__(self, below, beside):
        super().__init__()
        self.mix = DoubleConv(below + beside, beside)

    def forward(self, low, skip):
        low = F.interpolate(low, scale_factor=2, mode="nearest")
        return self.mix(torch.cat([low, skip], 1))
'''


def _own(kind: str, init: str, inputs: str) -> Block:
    return Block(kind, "", _OWN, kind, init, inputs)


def _diffusers(kind: str, module: str, init: str, inputs: str) -> Block:
    return Block(
        kind, "diffusers", f"from diffusers.models.{module} import {kind}", kind, init, inputs
    )


BLOCKS: tuple[Block, ...] = (
    _hf("llama", "LlamaRMSNorm", "LlamaConfig", _DECODER, "[64]", _X),
    _hf("llama", "LlamaMLP", "LlamaConfig", _DECODER, "[{c}]", _X),
    _hf("llama", "LlamaAttention", "LlamaConfig", _DECODER, "[{c}, 0]", _ROTATED),
    _hf("llama", "LlamaDecoderLayer", "LlamaConfig", _DECODER, "[{c}, 0]", _ROTATED),
    _hf(
        "llama",
        "LlamaRotaryEmbedding",
        "LlamaConfig",
        _DECODER,
        "[{c}]",
        "[torch.randn(2, 32, 64), torch.arange(32)[None]]",
    ),
    _hf("qwen2", "Qwen2MLP", "Qwen2Config", _DECODER, "[{c}]", _X),
    _hf("qwen2", "Qwen2DecoderLayer", "Qwen2Config", _DECODER, "[{c}, 0]", _ROTATED),
    _hf("qwen3", "Qwen3MLP", "Qwen3Config", _DECODER, "[{c}]", _X),
    _hf("qwen3", "Qwen3Attention", "Qwen3Config", _DECODER, "[{c}, 0]", _ROTATED),
    _hf("mistral", "MistralMLP", "MistralConfig", _DECODER, "[{c}]", _X),
    _hf("mistral", "MistralDecoderLayer", "MistralConfig", _DECODER, "[{c}, 0]", _ROTATED),
    _hf("gemma", "GemmaRMSNorm", "GemmaConfig", _DECODER, "[64]", _X),
    _hf("gemma", "GemmaMLP", "GemmaConfig", _DECODER, "[{c}]", _X),
    _hf("gemma2", "Gemma2DecoderLayer", "Gemma2Config", _DECODER, "[{c}, 0]", _ROTATED),
    _hf("phi", "PhiMLP", "PhiConfig", _ENCODER, "[{c}]", _X),
    _hf(
        "phi3",
        "Phi3MLP",
        "Phi3Config",
        _DECODER.replace("head_dim=16, ", "") + ", pad_token_id=0",
        "[{c}]",
        _X,
    ),
    _hf("gpt2", "GPT2MLP", "GPT2Config", "n_embd=64, n_head=4, n_layer=2", "[128, {c}]", _X),
    _hf("gpt2", "GPT2Block", "GPT2Config", "n_embd=64, n_head=4, n_layer=2", "[{c}, 0]", _X),
    _hf("bert", "BertIntermediate", "BertConfig", _ENCODER, "[{c}]", _X),
    _hf(
        "bert",
        "BertSelfOutput",
        "BertConfig",
        _ENCODER,
        "[{c}]",
        "[torch.randn(2, 32, 64), torch.randn(2, 32, 64)]",
    ),
    _hf("bert", "BertLayer", "BertConfig", _ENCODER, "[{c}]", _X),
    _hf(
        "bert",
        "BertEmbeddings",
        "BertConfig",
        _ENCODER,
        "[{c}]",
        "[torch.randint(0, 128, (2, 32))]",
    ),
    _hf("t5", "T5LayerNorm", "T5Config", "d_model=64", "[64]", _X),
    _hf(
        "t5",
        "T5LayerFF",
        "T5Config",
        "d_model=64, d_ff=128, feed_forward_proj='gated-gelu'",
        "[{c}]",
        _X,
    ),
    _hf(
        "whisper",
        "WhisperEncoderLayer",
        "WhisperConfig",
        "d_model=64, encoder_attention_heads=4, encoder_ffn_dim=128",
        "[{c}]",
        _MASKED,
    ),
    _hf("vit", "ViTMLP", "ViTConfig", _VISION, "[{c}]", _X),
    _hf("vit", "ViTLayer", "ViTConfig", _VISION, "[{c}]", _X),
    _hf("vit", "ViTEmbeddings", "ViTConfig", _VISION, "[{c}]", "[torch.randn(2, 3, 32, 32)]"),
    _hf("clip", "CLIPMLP", "CLIPVisionConfig", _VISION, "[{c}]", _X),
    _hf("clip", "CLIPEncoderLayer", "CLIPVisionConfig", _VISION, "[{c}]", _MASKED),
    _hf(
        "dinov2", "Dinov2MLP", "Dinov2Config", "hidden_size=64, num_attention_heads=4", "[{c}]", _X
    ),
    _hf(
        "dinov2",
        "Dinov2SwiGLUFFN",
        "Dinov2Config",
        "hidden_size=64, num_attention_heads=4",
        "[{c}]",
        _X,
    ),
    _hf(
        "dinov2",
        "Dinov2Layer",
        "Dinov2Config",
        "hidden_size=64, num_attention_heads=4",
        "[{c}]",
        _X,
    ),
    _hf(
        "swin",
        "SwinLayer",
        "SwinConfig",
        "embed_dim=32, window_size=4",
        "[{c}, 32, (8, 8), 2]",
        "[torch.randn(2, 64, 32), (8, 8)]",
    ),
    _hf(
        "swin",
        "SwinPatchMerging",
        "SwinConfig",
        "",
        "[32]",
        "[torch.randn(2, 64, 32), (8, 8)]",
    ),
    _hf("mamba", "MambaRMSNorm", "MambaConfig", "", "[64]", _X),
    _hf(
        "mamba",
        "MambaMixer",
        "MambaConfig",
        "hidden_size=32, state_size=8, num_hidden_layers=1",
        "[{c}, 0]",
        "[torch.randn(2, 16, 32)]",
    ),
    _hf(
        "mixtral",
        "MixtralSparseMoeBlock",
        "MixtralConfig",
        _DECODER + ", num_local_experts=4",
        "[{c}]",
        _X,
    ),
    _hf(
        "qwen2_moe",
        "Qwen2MoeSparseMoeBlock",
        "Qwen2MoeConfig",
        _DECODER.replace("head_dim=16, ", "")
        + ", num_experts=4, moe_intermediate_size=64, shared_expert_intermediate_size=64",
        "[{c}]",
        _X,
    ),
    _hf(
        "resnet", "ResNetBasicLayer", "ResNetConfig", "", "[16, 16]", "[torch.randn(2, 16, 14, 14)]"
    ),
    _hf(
        "resnet",
        "ResNetBottleNeckLayer",
        "ResNetConfig",
        "",
        "[32, 32]",
        "[torch.randn(2, 32, 14, 14)]",
    ),
    _hf(
        "convnext",
        "ConvNextLayer",
        "ConvNextConfig",
        "",
        "[{c}, 32]",
        "[torch.randn(2, 32, 14, 14)]",
    ),
    _hf(
        "efficientnet",
        "EfficientNetBlock",
        "EfficientNetConfig",
        "",
        "[{c}, 16, 16, 1, 4, 3, 0.0, True, False]",
        "[torch.randn(2, 16, 14, 14)]",
    ),
    _diffusers(
        "BasicTransformerBlock",
        "attention",
        "[64, 4, 16]",
        "{'args': [torch.randn(2, 64, 64)], 'kwargs': {}}",
    ),
    _diffusers("FeedForward", "attention", "[64]", "[torch.randn(2, 64, 64)]"),
    Block(
        "ResnetBlock2D",
        "diffusers",
        "from functools import partial\n"
        "from diffusers.models.resnet import ResnetBlock2D as Original\n\n\n"
        "class ResnetBlock2D(Original):\n"
        "    def __init__(self):\n"
        "        super().__init__(in_channels=32, out_channels=32, temb_channels=64, groups=8)",
        "ResnetBlock2D",
        "[]",
        "[torch.randn(2, 32, 16, 16), torch.randn(2, 64)]",
    ),
    _own("SmallGPTBlock", "[Sizes()]", "[torch.randn(2, 32, 64)]"),
    _own("LastTokenHead", "[Sizes()]", "[torch.randn(2, 32, 64)]"),
    _own("DoubleConv", "[8, 16]", "[torch.randn(2, 8, 16, 16)]"),
    _own("UpAndJoin", "[16, 8]", "[torch.randn(2, 16, 8, 8), torch.randn(2, 8, 16, 16)]"),
)
"""At least forty; what is refused stays in the list, and the table says why."""
