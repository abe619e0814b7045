"""Makes a tiny Llama with random weights, for a real vLLM: `python tiny_model.py FOLDER [SEED]`.

Needs torch, transformers and tokenizers, which every vLLM has; nothing is fetched. The tokenizer is
trained on Python's own standard library, so that the folder depends on no file of this checkout.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

CONTEXT = 8192
_VOCABULARY = 2048
_TEXTS = ("ast.py", "dataclasses.py", "inspect.py", "typing.py", "subprocess.py", "tarfile.py")
_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def make(folder: Path, seed: int = 0) -> None:
    """Weights (safetensors), configuration, tokenizer and chat template: 0.4 million parameters."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    library = Path(sysconfig.get_paths()["stdlib"])
    trained = ByteLevelBPETokenizer()
    texts = [library / name for name in _TEXTS]
    trained.train_from_iterator(
        (text.read_text(encoding="utf-8") for text in texts),
        vocab_size=_VOCABULARY,
        special_tokens=["<s>", "</s>"],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = _TEMPLATE
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.eos_token_id,
        )
    )
    tokenizer.save_pretrained(folder)
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
