"""`kernelagent scan` on every causal language model of the installed transformers that can be built small.

    python -m benchmarks.scan_models [--only NAME...] [--first N] [--page]

appends each answer to `benchmarks/results/scan_models.jsonl` as it comes and writes `scan_models.md`: a model
that is there already is left out. Which models there are is the package's own list.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import kept_rows
from benchmarks.commit import head_of
from benchmarks.gpu_first.record import table

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "scan_models"
_LARGEST = 20_000_000
"""Parameters; a model that stays larger with the sizes below has others that nothing here knows."""
_BUILDING_S, _SCANNING_S = 60, 300
_LINE = 160
_SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "moe_intermediate_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim"), 128),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers"), 2),
    **dict.fromkeys(("decoder_layers", "encoder_layers", "num_key_value_heads"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions"), 128),
    **dict.fromkeys(("n_shared_experts", "n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 32),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("v_head_dim", "head_dim"), 16),
    "num_experts_per_tok": 2,
    "shared_expert_intermediate_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""What configurations call their sizes, and a small one."""
_BUILD = """
import sys, torch
space = {}
exec(open(sys.argv[1]).read(), space)
with torch.device("meta"):
    count = sum(p.numel() for p in space["Model"]().parameters())
if count > int(sys.argv[2]):
    sys.exit(f"{count} parameters with small sizes")
with torch.no_grad():
    space["Model"]()(*space["get_inputs"]())
"""


@dataclass(frozen=True)
class Scanned:
    """What came of one model."""

    name: str
    commit: str
    outcome: str
    """`proposes` a part to optimize, `no part`, `refused` with a sentence, `fails`, or `not built` by this script."""
    text: str
    seconds: float


def models() -> Iterator[tuple[str, str]]:
    """Names of the models, and a problem's file for each."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    for name, classes in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        if name in CONFIG_MAPPING:
            net = classes if isinstance(classes, str) else classes[0]
            yield name, _source(CONFIG_MAPPING[name], net)


def _source(config: type, net: str) -> str:
    known: set[str] = set()
    for kind in config.__mro__:
        known |= set(vars(kind).get("__annotations__", {}))
        if "__init__" in vars(kind):
            known |= set(inspect.signature(vars(kind)["__init__"]).parameters)
    sizes = ", ".join(f"{key}={value}" for key, value in _SIZES.items() if key in known)
    return f"""import torch
from transformers import {config.__name__}, {net}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = {net}({config.__name__}({sizes})).eval()

    def forward(self, ids):
        return self.net(input_ids=ids, use_cache=False).logits


def get_inputs():
    return [torch.randint(3, 120, (2, 16))]
"""


def scanned(name: str, source: str, commit: str) -> Scanned:
    """One model, typed as a user types it."""
    began = time.perf_counter()

    def row(outcome: str, text: str) -> Scanned:
        words = " ".join(text.split())[:_LINE]
        return Scanned(name, commit, outcome, words, time.perf_counter() - began)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.py"
        file.write_text(source, encoding="utf-8")
        built = _run([sys.executable, "-c", _BUILD, str(file), str(_LARGEST)], _BUILDING_S)
        if built is None or built.returncode:
            return row("not built", "too slow" if built is None else _last(built.stderr))
        command = [sys.executable, "-m", "kernelagent", "scan", str(file), "--device", "virtual"]
        done = _run(command, _SCANNING_S)
    if done is None:
        return row("fails", f"no answer in {_SCANNING_S} s")
    if done.returncode == 2:
        return row("refused", _last(done.stderr))
    if done.returncode or "Traceback" in done.stderr:
        return row("fails", _last(done.stderr))
    proposed = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    if not proposed:
        return row("no part", _last(done.stdout))
    return row("proposes", proposed[0].partition("--submodule ")[2].partition(" ")[0])


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def page(rows: list[Scanned]) -> str:
    """The table, its counts above it."""
    kinds = ("proposes", "no part", "refused", "fails", "not built")
    counts = ", ".join(f"{sum(r.outcome == kind for r in rows)} {kind}" for kind in kinds)
    lines = [
        "# Scanning what transformers has",
        "",
        f"`python -m benchmarks.scan_models`, transformers {version('transformers')}, torch {version('torch')}, without a GPU: "
        f"{len(rows)} causal language models with small sizes, one `kernelagent scan` each: {counts}.",
        "",
        "`proposes`: it ends with the command that optimizes this part. `not built`: with these sizes the model itself",
        "refuses or is too large, which says nothing of `scan`.",
        "",
        *table(
            ("model", "outcome", "part, or what it said", "commit", "s"),
            [(r.name, r.outcome, r.text, r.commit, f"{r.seconds:.0f}") for r in rows],
        ),
    ]
    return "\n".join(lines) + "\n"


def _kept() -> list[Scanned]:
    return kept_rows.read(RESULTS.with_suffix(".jsonl"), Scanned)


def main() -> None:
    """Scan what is not scanned yet, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="names of models")
    parser.add_argument("--first", type=int, default=None, help="at most so many of those left")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept")
    options: Any = parser.parse_args()
    known, commit = {row.name for row in _kept()}, head_of(ROOT)
    left = [] if options.page else [m for m in models() if m[0] not in known]
    left = [m for m in left if not options.only or m[0] in options.only]
    for name, source in left[: options.first]:
        row = scanned(name, source, commit)
        kept_rows.append(RESULTS.with_suffix(".jsonl"), row)
        print(f"{row.outcome:9} {row.name} {row.seconds:.0f} s: {row.text}", flush=True)
    rows = sorted(_kept(), key=lambda row: row.name)
    RESULTS.with_suffix(".md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
