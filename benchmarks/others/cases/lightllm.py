"""lightllm: serving kernels that write their results where they are told to."""

from __future__ import annotations

from benchmarks.others.cases.case import RMS, SEQUENCES, WEIGHT, Case, Project, calls

_CONFIG = "class {0}:\n    @classmethod\n    def try_to_get_best_config(cls, *args, **more):\n        return {1}"
LIGHTLLM = Project(
    "ModelTC/lightllm",
    ".",
    {
        "is_tesla": "def is_tesla():\n    return True",
        "HAS_SGL_KERNEL": "HAS_SGL_KERNEL = False",
        "sgl_ops": "sgl_ops = None",
        "vllm_ops": "vllm_ops = None",
        "logger": "",
        "ReqSamplingParamsManager": "ReqSamplingParamsManager = object",
        "MoeSumReduceKernelConfig": _CONFIG.format(
            "MoeSumReduceKernelConfig",
            '{"BLOCK_M": 4, "BLOCK_DIM": 128, "NUM_STAGE": 1, "num_warps": 2}',
        ),
        "MoeSiluAndMulKernelConfig": _CONFIG.format(
            "MoeSiluAndMulKernelConfig", '{"BLOCK_M": 32, "BLOCK_N": 64, "num_warps": 4}'
        ),
        "MoeGroupedGemmKernelConfig": _CONFIG.format(
            "MoeGroupedGemmKernelConfig",
            '{"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 4, '
            '"num_warps": 4, "num_stages": 2}',
        ),
        "Fp8BlockMMKernelConfig": _CONFIG.format(
            "Fp8BlockMMKernelConfig",
            '{"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 2}',
        ),
    },
)
_LLAMA = "lightllm.models.llama.triton_kernel"
_llama = calls(LIGHTLLM, "lightllm", _LLAMA)
_base = calls(LIGHTLLM, "lightllm", "lightllm.common.basemodel.triton_kernel")
_model = calls(LIGHTLLM, "lightllm", "lightllm.models")
_SLOTS = "torch.randn(48, 3, 64), torch.randperm(128, dtype=torch.int32)[:48]"
_STORE = """
def store(k, slots, cache):
    cache[slots.long()] = k
    return cache
"""
_PENALTY = """
def penalized(logits, ids, counts, presence, frequency, repetition):
    logits = logits.clone()
    for row in range(4):
        places = ids[row].long()
        x = logits[row, places]
        x = torch.where(x > 0, x / repetition[row], x * repetition[row]) - counts[row] * frequency[row] - presence[row]
        logits[row, places] = x
    return logits
"""
_OWN_PENALTY = """
class Params:
    def __init__(self, presence, frequency, repetition):
        self.req_to_presence_penalty = presence
        self.req_to_frequency_penalty = frequency
        self.req_to_repetition_penalty = repetition
        self.req_to_exponential_decay_length_penalty = torch.ones_like(presence)
        self.vocab_size = 500


def own(logits, ids, counts, presence, frequency, repetition):
    logits = logits.clone()
    rows = torch.arange(4, device=logits.device, dtype=torch.int32)
    apply_penalty(
        logits, rows, torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool), ids.view(-1), counts.view(-1),
        torch.arange(0, 81, 20, device=logits.device, dtype=torch.int32), torch.zeros_like(rows)[:1],
        Params(presence, frequency, repetition),
    )
    return logits
"""
_TURNED = """
def turned(q, k, cos, sin):
    def one(x):
        a, b = x.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((a * c - b * s, a * s + b * c), -1)
    q.copy_(one(q))
    k.copy_(one(k))
    return q, k
"""
_OWN_TURNED = """
def own(q, k, cos, sin):
    rotary_emb_fwd(q, k, cos, sin)
    return q, k
"""
_MROPE = """
def mrope(q, k, cos, sin, axes):
    places = torch.arange(64, device=q.device)
    c, s = (x[axes.long(), 0, :, places].t()[None, None] for x in (cos, sin))
    def one(x):
        a, b = x.chunk(2, -1)
        return x * c + torch.cat((-b, a), -1) * s
    return one(q), one(k)
"""
_EMBEDDED = """
def own(ids, weight):
    out = torch.empty(100, 48, device=ids.device)
    embedding(ids, weight, 200, 800, out)
    return out
"""
_EMBEDDING = """
def embedded(ids, weight):
    inside = (ids >= 200) & (ids < 800)
    return torch.where(inside[:, None], weight[(ids - 200).clamp(0, 599)], 0.0)
"""
_GATED = """
def own(x):
    out = torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=x.device)
    silu_and_mul_fwd(x, out)
    return out
"""
_MOVED = """
def moved(x, source, cache, target):
    cache[target.long()] = x[source.long()]
    return cache
"""
_OWN_MOVED = """
def own(x, source, cache, target):
    kv_trans(x, source, cache, target)
    return cache
"""
_REPACK = """
def repacked(table, requests, lengths):
    ends = lengths.cumsum(0)
    token = torch.arange(300, device=table.device)
    request = torch.searchsorted(ends, token, right=True).clamp(max=3)
    column = (token - (ends - lengths)[request]).clamp(max=69)
    return torch.where(token < ends[-1], table[requests.long()[request], column], 0)
"""
_OWN_REPACK = """
def own(table, requests, lengths):
    out = torch.empty(300, dtype=torch.int32, device=table.device)
    repack_kv_index(table, requests, lengths, lengths.cumsum(0, dtype=torch.int32) - lengths, 70, out)
    return out
"""


CASES = (
    _llama("RMS norm", "rmsnorm", "rmsnorm_forward", SEQUENCES, RMS, "rmsnorm_forward(x, self.weight, 1e-6)",
           state=WEIGHT),
    _llama("rotary embedding in place", "rotary_emb", "rotary_emb_fwd",
           "torch.randn(60, 8, 64), torch.randn(60, 2, 64), torch.randn(60, 32), torch.randn(60, 32)",
           "turned(q, k, cos, sin)", "own(q, k, cos, sin)", arguments="q, k, cos, sin", defined=_TURNED,
           own_defined=_OWN_TURNED),
    _llama("SwiGLU into a buffer", "silu_and_mul", "silu_and_mul_fwd", "torch.randn(200, 600).half()",
           "F.silu(x[:, :300].float()).half() * x[:, 300:]", "own(x)", own_defined=_GATED),
    _llama("embedding of a part of a vocabulary", "embedding", "embedding", "torch.randint(0, 1000, (100,))",
           "embedded(ids, self.weight)", "own(ids, self.weight)", arguments="ids", defined=_EMBEDDING,
           own_defined=_EMBEDDED, state="self.weight = nn.Parameter(torch.randn(600, 48))"),
    _base("rows stored to slots", "destindex_copy_kv", "destindex_copy_kv",
          _SLOTS + ", torch.randn(128, 3, 64)", "store(k, slots, cache)", "own(k, slots, cache)",
          arguments="k, slots, cache", defined=_STORE,
          own_defined="def own(k, slots, cache):\n    destindex_copy_kv(k, slots, cache)\n    return cache\n"),
    _base("penalties of logits in place", "apply_penalty", "apply_penalty",
          "torch.randn(4, 500), torch.stack([torch.randperm(500, dtype=torch.int32)[:20] for _ in range(4)]), "
          "torch.randint(1, 5, (4, 20), dtype=torch.int32), torch.rand(4), torch.rand(4), torch.rand(4) + 1",
          "penalized(logits, ids, counts, presence, frequency, repetition)",
          "own(logits, ids, counts, presence, frequency, repetition)",
          arguments="logits, ids, counts, presence, frequency, repetition", defined=_PENALTY, own_defined=_OWN_PENALTY,
          fault="loads the logit of the end of a sequence, which another thread of the program may not have stored yet"),
    _model("rotary embedding of three axes", "qwen2_vl.triton_kernel.mrope", "mrope_triton",
           "torch.randn(2, 4, 20, 64), torch.randn(2, 2, 20, 64), torch.randn(3, 1, 20, 64), torch.randn(3, 1, 20, 64), "
           "torch.randint(0, 3, (64,), dtype=torch.int32)",
           "mrope(q, k, cos, sin, axes)", "mrope_triton(q, k, cos, sin, axes)", arguments="q, k, cos, sin, axes",
           defined=_MROPE),
    _model("layer norm by head", "cohere.triton_kernels.layernorm", "layernorm_forward", "torch.randn(80, 6, 200)",
           "F.layer_norm(x, (200,), eps=1e-5) * self.weight", "layernorm_forward(x, self.weight, 1e-5)",
           state="self.weight = nn.Parameter(torch.rand(6, 200) + 0.5)"),
    Case("lightllm rows moved between caches", LIGHTLLM, "lightllm.common.kv_trans_kernel.kv_trans", ("kv_trans",),
         "torch.randn(64, 3, 100), torch.randperm(64, dtype=torch.int32)[:30], torch.randn(80, 3, 100), "
         "torch.randperm(80, dtype=torch.int32)[:30]",
         "moved(x, source, cache, target)", "own(x, source, cache, target)", arguments="x, source, cache, target",
         defined=_MOVED, own_defined=_OWN_MOVED),
    _model("a page table packed", "deepseek2.triton_kernel.repack_kv_index", "repack_kv_index",
           "torch.randint(0, 10000, (6, 70), dtype=torch.int32), torch.randperm(6, dtype=torch.int32)[:4], "
           "torch.randint(1, 71, (4,), dtype=torch.int32)",
           "repacked(table, requests, lengths)", "own(table, requests, lengths)", arguments="table, requests, lengths",
           defined=_REPACK, own_defined=_OWN_REPACK),
    _base("lengths summed", "gen_prefill_params", "gen_cumsum_pad0_tensor",
          "torch.randint(1, 90, (50,), dtype=torch.int32), torch.randint(1, 90, (50,), dtype=torch.int32)",
          "tuple(F.pad(t.cumsum(0), (1, 0)).to(torch.int32) for t in (x, y))", "gen_cumsum_pad0_tensor(x, y)",
          arguments="x, y"),
)  # fmt: skip
