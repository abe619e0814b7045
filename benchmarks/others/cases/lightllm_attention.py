"""lightllm: attention over page tables and ragged sequences, in stages and at once."""

from __future__ import annotations

from benchmarks.others.cases.case import Case, calls
from benchmarks.others.cases.lightllm import LIGHTLLM

_LLAMA = "lightllm.models.llama.triton_kernel"
_llama = calls(LIGHTLLM, "lightllm", _LLAMA)
_model = calls(LIGHTLLM, "lightllm", "lightllm.models")
# Four requests of up to 96 tokens; the places of request r's tokens in the cache stand in row r of the table.
_CACHE = (
    "torch.randn(4, 8, 64), torch.randn(512, 2, 64), torch.randn(512, 2, 64), "
    "torch.randperm(512, dtype=torch.int32)[:480].view(5, 96), torch.randperm(5, dtype=torch.int32)[:4], "
    "torch.randint(1, 97, (4,), dtype=torch.int32)"
)
_CACHED = "q, k, v, table, requests, lengths"
_DECODE = """
def decode(q, k, v, table, requests, lengths):
    places = table[requests.long()].long()
    k, v = (x[places].repeat_interleave(q.shape[1] // x.shape[1], 2) for x in (k, v))
    scores = torch.einsum("bhd,bnhd->bhn", q, k) / q.shape[-1] ** 0.5
    held = torch.arange(table.shape[1], device=q.device) < lengths[:, None]
    return torch.einsum("bhn,bnhd->bhd", scores.masked_fill(~held[:, None], float("-inf")).softmax(-1), v)
"""
_DECODE_IN_STAGES = """
def own(q, k, v, table, requests, lengths):
    partial = torch.empty(4, 8, 3, 64, device=q.device)
    logs = torch.empty(4, 8, 3, device=q.device)
    out = torch.empty_like(q)
    flash_decode_stage1(q, k, v, table, requests, lengths, 96, partial, logs, 32)
    flash_decode_stage2(partial, logs, lengths, out, 32)
    return out
"""
_DECODE_BY_SCORES = """
def own(q, k, v, table, requests, lengths):
    starts = lengths.cumsum(0, dtype=torch.int32) - lengths
    scores = torch.empty(8, 4 * 96, device=q.device)
    out = torch.empty_like(q)
    token_att_fwd(q, k, scores, table, requests, starts, lengths, 96)
    token_softmax_reducev_fwd(scores, v, out, table, requests, starts, lengths)
    return out
"""
_DECODE_AT_ONCE = """
def own(q, k, v, table, requests, lengths):
    out = torch.empty_like(q)
    gqa_decode_attention_fwd(q, k, v, out, table, requests, lengths)
    return out
"""
# Three requests of 1 to 64 new tokens behind one another, after 0 to 32 that are in the cache.
_PREFILL = (
    "torch.randn(192, 4, 32).half(), torch.randn(400, 2, 32).half(), torch.randn(400, 2, 32).half(), "
    "torch.randperm(400, dtype=torch.int32)[:384].view(4, 96), torch.randperm(4, dtype=torch.int32)[:3], "
    "torch.randint(1, 65, (3,), dtype=torch.int32), torch.randint(0, 33, (3,), dtype=torch.int32)"
)
_PREFILLED = "q, k, v, table, requests, new, cached"
_CONTEXT = """
def context(q, k, v, table, requests, new, cached):
    ends = new.cumsum(0)
    token = torch.arange(q.shape[0], device=q.device)
    held = token < ends[-1]
    request = torch.searchsorted(ends, token, right=True).clamp(max=new.shape[0] - 1)
    position = token - (ends - new)[request] + cached[request]
    places = table[requests.long()[request]].long()
    k, v = (x[places].float().repeat_interleave(2, 2) for x in (k, v))
    scores = torch.einsum("thd,tnhd->thn", q.float(), k) / q.shape[-1] ** 0.5
    later = torch.arange(table.shape[1], device=q.device) > position[:, None]
    p = scores.masked_fill(later[:, None], float("-inf")).softmax(-1)
    return torch.where(held[:, None, None], torch.einsum("thn,tnhd->thd", p, v), 0.0).to(q.dtype)
"""
_OWN_CONTEXT = """
def own(q, k, v, table, requests, new, cached):
    out = torch.zeros_like(q)
    starts = new.cumsum(0, dtype=torch.int32) - new
    context_attention_fwd(q, k, v, out, requests, starts, new + cached, cached, 64, table)
    return out
"""
_RAGGED = """
def ragged(q, k, v, new, causal):
    ends = new.cumsum(0)
    token = torch.arange(q.shape[0], device=q.device)
    request = torch.searchsorted(ends, token, right=True)
    seen = request[:, None] == request[None]
    if causal:
        seen = seen & (token[None] <= token[:, None])
    k, v = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("thd,nhd->htn", q.float(), k) / q.shape[-1] ** 0.5
    p = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    out = torch.einsum("htn,nhd->thd", p, v)
    return torch.where((token < ends[-1])[:, None, None], out, 0.0).to(q.dtype)
"""
_RAGGED_INPUTS = (
    "torch.randn(192, 4, 32).half(), torch.randn(192, 2, 32).half(), torch.randn(192, 2, 32).half(), "
    "torch.randint(1, 65, (3,), dtype=torch.int32)"
)
_OWN_RAGGED = """
def own(q, k, v, new):
    out = torch.zeros_like(q)
    starts = new.cumsum(0, dtype=torch.int32) - new
    context_attention_fwd_no_prompt_cache(q, k, v, out, starts, new, 64)
    return out
"""
_OWN_VIT = """
def own(q, k, v, new):
    out = torch.zeros_like(q)
    ends = F.pad(new.cumsum(0, dtype=torch.int32), (1, 0))
    _flash_attention_triton_fwd(q, k, v, out, ends, 64)
    return out
"""


CASES = (
    Case("lightllm paged decoding in two stages", LIGHTLLM, f"{_LLAMA}.flash_decoding_stage1",
         ("flash_decode_stage1", f"{_LLAMA}.flash_decoding_stage2:flash_decode_stage2"), _CACHE, f"decode({_CACHED})", f"own({_CACHED})", arguments=_CACHED,
         defined=_DECODE, own_defined=_DECODE_IN_STAGES),
    Case("lightllm paged decoding by its scores", LIGHTLLM, f"{_LLAMA}.token_attention_nopad_att1",
         ("token_att_fwd", f"{_LLAMA}.token_attention_softmax_and_reducev:token_softmax_reducev_fwd"), _CACHE, f"decode({_CACHED})", f"own({_CACHED})", arguments=_CACHED,
         defined=_DECODE, own_defined=_DECODE_BY_SCORES),
    _llama("paged decoding in groups", "gqa_decode_flashattention_nopad", "gqa_decode_attention_fwd",
           _CACHE.replace("64)", "64).half()"), f"decode({_CACHED})", f"own({_CACHED})", arguments=_CACHED,
           defined=_DECODE, own_defined=_DECODE_AT_ONCE),
    _llama("ragged attention with a page table", "context_flashattention_nopad", "context_attention_fwd", _PREFILL,
           f"context({_PREFILLED})", f"own({_PREFILLED})", arguments=_PREFILLED, defined=_CONTEXT,
           own_defined=_OWN_CONTEXT),
    _llama("ragged attention, causal", "context_flashattention_nopad", "context_attention_fwd_no_prompt_cache",
           _RAGGED_INPUTS, "ragged(q, k, v, new, True)", "own(q, k, v, new)", arguments="q, k, v, new",
           defined=_RAGGED, own_defined=_OWN_RAGGED),
    _model("ragged attention of images", "vit.triton_kernel.flashattention_nopad", "_flash_attention_triton_fwd",
           "torch.randn(192, 2, 40).half(), torch.randn(192, 2, 40).half(), torch.randn(192, 2, 40).half(), "
           "torch.randint(1, 65, (3,), dtype=torch.int32)",
           "ragged(q, k, v, new, False)", "own(q, k, v, new)", arguments="q, k, v, new", defined=_RAGGED,
           own_defined=_OWN_VIT),
)  # fmt: skip
