"""lightllm: quantisation, products of what was quantised, and mixtures of experts."""

from __future__ import annotations

from benchmarks.others.cases.case import calls
from benchmarks.others.cases.lightllm import LIGHTLLM

_LLAMA = "lightllm.models.llama.triton_kernel"
_llama = calls(LIGHTLLM, "lightllm", _LLAMA)
_base = calls(LIGHTLLM, "lightllm", "lightllm.common.basemodel.triton_kernel")
_moe = calls(LIGHTLLM, "lightllm", "lightllm.common.fused_moe")
_model = calls(LIGHTLLM, "lightllm", "lightllm.models")
_fp8 = calls(LIGHTLLM, "lightllm", "lightllm.common.quantization.triton_quant.fp8")
_SLOTS = "torch.randn(48, 3, 64), torch.randperm(128, dtype=torch.int32)[:48]"
_QUANTIZED = """
def store(k, slots):
    k = k.view(48, 3, -1, {group})
    scale = k.abs().amax(-1) / 127
    cache = torch.zeros(128, 3, 64, dtype=torch.int8, device=k.device)
    scales = torch.zeros(128, 3, k.shape[2], device=k.device)
    cache[slots.long()] = (k / scale[..., None]).to(torch.int8).view(48, 3, 64)
    scales[slots.long()] = scale
    return {out}
"""
_OWN_QUANTIZED = """
def own(k, slots):
    cache = torch.zeros(128, 3, 64, dtype=torch.int8, device=k.device)
    scales = torch.zeros(128, 3, {count}, device=k.device)
    destindex_copy_quantize_kv(k, slots, cache, scales)
    return {out}
"""
_FILLED = "(cache.view(128, 3, scales.shape[2], -1) * scales[..., None]).view(128, 3, 64)"
_DEQUANTIZE = """
def dequantize(cache, scales, table, lengths, requests):
    places = table[requests.long()].long()
    x = (cache[places].float().view(2, 96, 3, 8, 8) * scales[places][..., None]).view(2, 96, 3, 64).transpose(1, 2)
    held = torch.arange(96, device=cache.device) < lengths[:, None]
    return torch.where(held[:, None, :, None], x, 0.0)
"""
_OWN_DEQUANTIZE = """
def own(cache, scales, table, lengths, requests):
    out = torch.zeros(2, 3, 96, 64, device=cache.device)
    destindex_copy_dequantize_kv(cache, scales, table, lengths, requests, 96, out)
    return out
"""
_GROUPED_TOPK = """
def grouped_topk(x, bias):
    scores = x.sigmoid()
    biased = (scores + bias).view(-1, 4, 16)
    groups = biased.topk(2, -1).values.sum(-1).topk(2, -1).indices
    kept = torch.zeros(x.shape[0], 4, dtype=torch.bool, device=x.device).scatter(1, groups, True)
    ids = biased.masked_fill(~kept[..., None], -1e7).view(-1, 64).topk(6, -1).indices
    weights = scores.gather(1, ids)
    return weights / weights.sum(-1, keepdim=True), ids
"""
_EXPERTS = """
def experts(x, w1, w2, weights, ids):
    up = torch.einsum("td,tknd->tkn", x.float(), w1.float()[ids.long()]).half().float()
    gate, up = up.chunk(2, -1)
    h = (F.silu(gate).half() * up.half()).float()
    return (torch.einsum("tkn,tkdn->tkd", h, w2.float()[ids.long()]) * weights[..., None]).sum(1).half()
"""
_EXPERT_WEIGHTS = (
    "self.w1 = nn.Parameter((torch.randn(6, 64, 64) * 0.1).half()); "
    "self.w2 = nn.Parameter((torch.randn(6, 64, 32) * 0.1).half())"
)
_QUANT = """
def quant(x):
    groups = x.view(64, 4, 64)
    scale = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
    return (groups / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(64, 256), scale
"""
_OWN_QUANT = """
def own(x):
    out = torch.empty(64, 256, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(64, 4, device=x.device)
    lightllm_per_token_group_quant_fp8(x, 64, out, scale)
    return out, scale
"""
_WEIGHT_QUANT = """
def quant(x):
    blocks = x.view(4, 32, 4, 32)
    scale = blocks.abs().amax((1, 3)) / 448.0
    return (blocks / (scale[:, None, :, None] + 1e-6)).to(torch.float8_e4m3fn).view(128, 128), scale
"""
_BLOCK_GEMM = """
def gemm(a, b, a_scale, b_scale):
    a = a.float().view(64, 4, 64) * a_scale[..., None]
    b = b.float().view(4, 64, 2, 64) * b_scale[:, None, :, None]
    return (a.view(64, 256) @ b.view(256, 128)).to(torch.bfloat16)
"""
_OWN_BLOCK_GEMM = """
def own(a, b, a_scale, b_scale):
    out = torch.empty(64, 128, dtype=torch.bfloat16, device=a.device)
    return w8a8_block_fp8_matmul(a, b, a_scale, b_scale, out, (64, 64))
"""
_INT4 = """
def int4(x, q, scales, zeros):
    bits = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    w = ((q[:, None] >> bits[:, None]) & 15).view(1024, 128)
    z = ((zeros[..., None] >> bits) & 15).view(8, 128)
    w = (w - z.repeat_interleave(128, 0)).float() * scales.float().repeat_interleave(128, 0)
    return (x.float() @ w.half().float()).half()
"""
_INT4_INPUTS = (
    "torch.randn(32, 1024).half(), torch.randint(-2**31, 2**31 - 1, (128, 128), dtype=torch.int32), "
    "torch.rand(8, 128).half() * 0.01, torch.randint(-2**31, 2**31 - 1, (8, 16), dtype=torch.int32)"
)
_INT8 = """
def int8(x, w, scale):
    x_scale = x.abs().amax(1) / 127
    x = (x / x_scale[:, None]).to(torch.int8)
    return ((x.float() @ w.float()) * x_scale[:, None].float() * scale.float()).half()
"""
_COUNTED = """
def repaired(ids, extra):
    counts = torch.bincount(ids.view(-1), minlength=32).to(torch.int32)
    new = ids // 8 * 2 + ids
    for i in range(2):
        new = torch.where(new == extra[i] // 8 * 2 + extra[i], 10 + 8 + i, new)
    return new, counts
"""
_OWN_COUNTED = """
def own(ids, extra):
    ids = ids.clone()
    counts = torch.zeros(32, dtype=torch.int32, device=ids.device)
    redundancy_topk_ids_repair(ids, extra, 8, 1, counts, True)
    return ids, counts
"""
_SUMMED = """
def own(x):
    out = torch.empty(60, 200, dtype=x.dtype, device=x.device)
    moe_sum_reduce(x, out)
    return out
"""


CASES = (
    _base("rows stored as int8", "destindex_copy_kv", "destindex_copy_quantize_kv", _SLOTS, "store(k, slots)",
          "own(k, slots)", arguments="k, slots", defined=_QUANTIZED.format(group=64, out="cache, scales"),
          own_defined=_OWN_QUANTIZED.format(count=1, out="cache, scales")),
    _llama("rows stored as int8 in groups", "ppl_quant_copy_kv", "destindex_copy_quantize_kv", _SLOTS,
           "store(k, slots)", "own(k, slots)", arguments="k, slots",
           defined=_QUANTIZED.format(group=8, out=_FILLED), own_defined=_OWN_QUANTIZED.format(count=8, out=_FILLED)),
    _llama("paged int8 as floats", "ppl_quant_copy_kv", "destindex_copy_dequantize_kv",
           "torch.randint(-127, 128, (256, 3, 64), dtype=torch.int8), torch.rand(256, 3, 8), "
           "torch.randperm(256, dtype=torch.int32)[:192].view(2, 96), torch.randint(1, 97, (2,), dtype=torch.int32), "
           "torch.randperm(2, dtype=torch.int32)",
           "dequantize(cache, scales, table, lengths, requests)", "own(cache, scales, table, lengths, requests)",
           arguments="cache, scales, table, lengths, requests", defined=_DEQUANTIZE, own_defined=_OWN_DEQUANTIZE),
    _moe("experts by groups", "grouped_topk", "triton_grouped_topk", "torch.randn(48, 64), torch.randn(64) * 0.1",
         "grouped_topk(x, bias)", 'triton_grouped_topk(None, x, bias, 6, True, 4, 2, "sigmoid")', arguments="x, bias",
         defined=_GROUPED_TOPK,
         fault="loads from its buffer what other lanes of the program stored, with no barrier between: the order within its one "
               "warp hides that, and PTX's memory model does not promise it"),
    _moe("experts by softmax", "softmax_topk", "softmax_topk", "torch.randn(48, 60)",
         "tuple(a.to(b) for a, b in zip(x.softmax(-1).topk(4, -1), (torch.float32, torch.int32)))", "softmax_topk(x, 4)"),
    _moe("sum over experts", "moe_sum_reduce", "moe_sum_reduce", "torch.randn(60, 6, 200).half()",
         "x.float().sum(1).half()", "own(x)", own_defined=_SUMMED),
    _moe("mixture of experts", "grouped_fused_moe", "fused_experts_impl",
         "torch.randn(40, 64).half(), torch.rand(40, 2), torch.rand(40, 6).argsort(1)[:, :2].to(torch.int32)",
         "experts(x, self.w1, self.w2, weights, ids)",
         "fused_experts_impl(x, self.w1, self.w2, weights, ids.contiguous())",
         state=_EXPERT_WEIGHTS, arguments="x, weights, ids", defined=_EXPERTS),
    _fp8("float8 by token and group", "fp8act_quant_kernel", "lightllm_per_token_group_quant_fp8",
         "torch.randn(64, 256)", "quant(x)", "own(x)", defined=_QUANT, own_defined=_OWN_QUANT),
    _fp8("float8 by block", "fp8w8a8_block_quant_kernel", "mm_weight_quant", "torch.randn(128, 128)", "quant(x)",
         "mm_weight_quant(x, 32)", defined=_WEIGHT_QUANT),
    _model("float8 by block as floats", "deepseek2.triton_kernel.weight_dequant", "weight_dequant",
           "torch.randn(128, 96).to(torch.float8_e4m3fn), torch.rand(4, 3)",
           "(x.float().view(4, 32, 3, 32) * s[:, None, :, None]).view(128, 96).to(torch.bfloat16)",
           "weight_dequant(x, s, 32)", arguments="x, s"),
    _fp8("float8 product by block", "fp8w8a8_block_gemm_kernel", "w8a8_block_fp8_matmul",
         "torch.randn(64, 256).to(torch.float8_e4m3fn), torch.randn(256, 128).to(torch.float8_e4m3fn), "
         "torch.rand(64, 4), torch.rand(4, 2)",
         "gemm(a, b, a_scale, b_scale)", "own(a, b, a_scale, b_scale)", arguments="a, b, a_scale, b_scale",
         defined=_BLOCK_GEMM, own_defined=_OWN_BLOCK_GEMM),
    _base("int8 product, split along K", "quantize_gemm_int8", "matmul_quantize_int8",
          "torch.randn(48, 256), torch.randint(-127, 128, (256, 96), dtype=torch.int8), torch.rand(96) * 0.01",
          "int8(x, w, scale)", "matmul_quantize_int8(x, w, scale)", arguments="x, w, scale", defined=_INT8),
    _base("int4 product, split along K", "dequantize_gemm_int4", "matmul_dequantize_int4_s2", _INT4_INPUTS,
          "int4(x, q, scales, zeros)", "matmul_dequantize_int4_s2(x, q, scales, zeros)",
          arguments="x, q, scales, zeros", defined=_INT4),
    _base("counts of experts by atomics", "redundancy_topk_ids_repair", "redundancy_topk_ids_repair",
          "torch.randint(0, 32, (90, 4)), torch.randperm(32)[:2]", "repaired(ids, extra)", "own(ids, extra)",
          arguments="ids, extra", defined=_COUNTED, own_defined=_OWN_COUNTED),
)  # fmt: skip
