"""Modules of other people's packages at the sizes of models that people run, for `gallery`."""

from __future__ import annotations

from dataclasses import dataclass

_HF = "from transformers import {config}\nfrom transformers.models.{stem}.modeling_{stem} import {kind}"
_ROTATED = """{{"args": [torch.randn({batch}, {length}, {width})], "kwargs": {{
        "position_embeddings": (torch.randn({batch}, {length}, {head}), torch.randn({batch}, {length}, {head})),
        "attention_mask": None}}}}"""


@dataclass(frozen=True)
class Exhibit:
    """One module as a user would have it in a file of their own."""

    name: str
    """Of the file, without its ending."""
    title: str
    package: str
    """What must be installed."""
    kind: str
    """The class."""
    imports: str
    init: str
    """Its constructor's arguments, as a list."""
    inputs: str
    """Its example arguments: a list, or a dict with `args` and `kwargs`."""

    @property
    def source(self) -> str:
        """The file that is optimized."""
        return f"""import torch
{self.imports}


def get_init_inputs():
    return {self.init}


def get_inputs():
    return {self.inputs}
"""


def _hf(
    stem: str, kind: str, config: str, sizes: str, init: str, inputs: str, as_in: str
) -> Exhibit:
    """A module of transformers; `{c}` in `init` stands for a config with `sizes`."""
    made = f'{config}({sizes}{", " if sizes else ""}attn_implementation="sdpa")'
    imports = _HF.format(config=config, stem=stem, kind=kind)
    if "{c}" not in init:
        imports = imports.split("\n")[1]
    return Exhibit(
        f"{stem}_{kind.lower()}",
        f"`{kind}`, as in {as_in}",
        "transformers",
        kind,
        imports,
        init.replace("{c}", made),
        inputs,
    )


EXHIBITS: tuple[Exhibit, ...] = (
    _hf(
        "llama",
        "LlamaRMSNorm",
        "LlamaConfig",
        "",
        "[4096]",
        "[torch.randn(4, 512, 4096)]",
        "Llama 3 8B",
    ),
    _hf(
        "qwen2",
        "Qwen2MLP",
        "Qwen2Config",
        "hidden_size=896, intermediate_size=4864",
        "[{c}]",
        "[torch.randn(4, 512, 896)]",
        "Qwen 2.5 0.5B",
    ),
    _hf(
        "llama",
        "LlamaDecoderLayer",
        "LlamaConfig",
        "hidden_size=576, intermediate_size=1536, num_attention_heads=9, num_key_value_heads=3",
        "[{c}, 0]",
        _ROTATED.format(batch=4, length=512, width=576, head=64),
        "SmolLM2 135M",
    ),
    _hf(
        "gpt2",
        "GPT2MLP",
        "GPT2Config",
        "n_embd=768",
        "[3072, {c}]",
        "[torch.randn(4, 512, 768)]",
        "GPT-2",
    ),
    _hf(
        "t5",
        "T5LayerFF",
        "T5Config",
        'd_model=768, d_ff=2048, feed_forward_proj="gated-gelu"',
        "[{c}]",
        "[torch.randn(4, 512, 768)]",
        "Flan-T5 base",
    ),
    _hf(
        "bert",
        "BertLayer",
        "BertConfig",
        "hidden_size=768",
        "[{c}]",
        "[torch.randn(8, 256, 768)]",
        "BERT base",
    ),
    _hf(
        "whisper",
        "WhisperEncoderLayer",
        "WhisperConfig",
        "d_model=384, encoder_attention_heads=6, encoder_ffn_dim=1536",
        "[{c}]",
        '{"args": [torch.randn(1, 1500, 384)], "kwargs": {"attention_mask": None}}',
        "Whisper tiny",
    ),
    _hf(
        "dinov2",
        "Dinov2Layer",
        "Dinov2Config",
        "hidden_size=384, num_attention_heads=6",
        "[{c}]",
        "[torch.randn(8, 257, 384)]",
        "DINOv2 small",
    ),
    _hf(
        "convnext",
        "ConvNextLayer",
        "ConvNextConfig",
        "",
        "[{c}, 96]",
        "[torch.randn(8, 96, 56, 56)]",
        "ConvNeXt tiny",
    ),
    Exhibit(
        "diffusers_resnetblock2d",
        "`ResnetBlock2D`, as in Stable Diffusion 1.5",
        "diffusers",
        "ResnetBlock2D",
        "from diffusers.models.resnet import ResnetBlock2D as Original\n\n\n"
        "class ResnetBlock2D(Original):\n"
        "    def __init__(self):\n"
        "        super().__init__(in_channels=320, out_channels=320, temb_channels=1280)",
        "[]",
        "[torch.randn(2, 320, 64, 64), torch.randn(2, 1280)]",
    ),
)
