"""torchao: quantisation, and products of what was quantised."""

from __future__ import annotations

from benchmarks.others.cases.case import Project, calls

TORCHAO = Project(
    "pytorch/ao",
    ".",
    {
        "e4m3_dtype": "e4m3_dtype = torch.float8_e4m3fn",
        "FP8_E4M3_DTYPES": "FP8_E4M3_DTYPES = {torch.float8_e4m3fn}",
        "Float8TrainingTensor": "def Float8TrainingTensor(data, scale, **more):\n    return data, scale",
        "LinearMMConfig": "LinearMMConfig = object",
        "GemmInputRole": "class GemmInputRole:\n    INPUT = 0",
        "is_ROCM": "def is_ROCM():\n    return False",
    },
    {"has_triton()": True, "_triton_kernels_available": True},
)
_ao = calls(TORCHAO, "torchao", "torchao")
_INT8 = """
def own(a, b, rows, columns):
    out = torch.empty(a.shape[0], b.shape[1], device=a.device)
    grid = lambda meta: (triton.cdiv(meta["M"], meta["BLOCK_M"]) * triton.cdiv(meta["N"], meta["BLOCK_N"]),)
    _scaled_int8_mm_kernel[grid](
        a, b, out, rows, columns, a.shape[0], b.shape[1], a.shape[1], *a.stride(), *b.stride(), *out.stride()
    )
    return out
"""
_INT8_INPUTS = (
    "torch.randint(-128, 128, (80, 200), dtype=torch.int8), torch.randint(-128, 128, (200, 120), dtype=torch.int8), "
    "torch.rand(80), torch.rand(120)"
)
_BY_ROW = """
def by_row(x, group):
    groups = x.float().view(*x.shape[:-1], -1, group)
    scale = groups.abs().amax(-1) / 448.0
    return (groups / scale[..., None]).to(torch.float8_e4m3fn).view(x.shape), scale
"""
_BLOCK_PRODUCT = """
def product(a, a_scale, b, b_scale):
    a = a.float() * a_scale.repeat_interleave(128, 1)
    b = b.float() * b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return a @ b.t()
"""
_BLOCK_INPUTS = (
    "torch.randn({m}, 256).to(torch.float8_e4m3fn), torch.rand({m}, 2), "
    "torch.randn(256, 256).to(torch.float8_e4m3fn), torch.rand(2, 2)"
)
_OWN_BLOCK_PRODUCT = """
def own(a, a_scale, b, b_scale):
    b, b_scale = b.t(), b_scale.t()
    a_scale = a_scale.t().contiguous().t()
    out = torch.empty(256, 256, device=a.device)
    grid = lambda meta: (triton.cdiv(256, meta["BLOCK_SIZE_M"]), triton.cdiv(256, meta["BLOCK_SIZE_N"]))
    triton_fp8_gemm_1x128_128x128_kernel[grid](
        a, *a.stride(), b, *b.stride(), out, *out.stride(), a_scale, *a_scale.stride(), b_scale, *b_scale.stride(),
        256, 256, 256, out_dtype=tl.float32, BLOCK_SIZE_K=128,
    )
    return out
"""
_INT4_INPUTS = (
    "torch.randn(64, 256).half(), torch.randint(0, 256, (128, 256), dtype=torch.uint8), "
    "torch.rand(4, 256).half() * 0.1, torch.rand(4, 256).half() * 15"
)
_INT4 = """
def int4(x, q, scales, zeros):
    w = torch.stack((q & 15, q >> 4), 1).view(256, 256).half()
    w = (w - zeros.repeat_interleave(64, 0)) * scales.repeat_interleave(64, 0)
    return (x.float() @ w.float()).half()
"""
_OWN_INT4 = """
def own(x, q, scales, zeros):
    out = torch.zeros(64, 256, dtype=x.dtype, device=x.device)
    grid = lambda meta: (triton.cdiv(64, meta["BLOCK_M"]) * triton.cdiv(256, meta["BLOCK_N"]), meta["SPLIT_K"])
    {kernel}[grid](
        x, q, scales, zeros, out, 64, 256, 256, *x.stride(), *q.stride(), *out.stride(), *scales.stride(),
        IS_BFLOAT16=False, QGROUP_SIZE=64, TRANSPOSED=False,
    )
    return out
"""
_INDICES = """
def indices(counts):
    starts = (counts.cumsum(0) - counts).view(2, 4)
    counts = counts.view(2, 4)
    sizes = (counts.sum(0).clamp(min=16) + 15) // 16 * 16
    ends = sizes.cumsum(0)
    place = torch.arange(256, device=counts.device)
    expert = torch.searchsorted(ends, place, right=True).clamp(max=3)
    within = place - (ends - sizes)[expert]
    first = counts[0, expert]
    second = within - first
    out = torch.where(within < first, starts[0, expert] + within, starts[1, expert] + second)
    out = torch.where((second >= counts[1, expert]) | (place >= ends[-1]), -1, out)
    return out.to(torch.int32), sizes.to(torch.int32), ends.to(torch.int32)
"""
_JAGGED = """
def jagged(x, sizes):
    ends = sizes.cumsum(0)
    column = torch.arange(x.shape[1], device=x.device)
    held = (column < ends[:, None]) & (column >= (ends - sizes)[:, None])
    amax = torch.where(held[:, None], x.abs(), 0.0).amax(-1)
    scale = (448.0 / amax.double().clamp(min=1e-12)).float()
    by_column = torch.einsum("gr,gc->rc", scale.to(x.dtype), held.to(x.dtype))
    return (x * by_column).clamp(-448, 448).to(torch.float8_e4m3fn), scale.view(-1)
"""
_OWN_JAGGED = """
def own(x, sizes):
    offsets = sizes.cumsum(0, dtype=torch.int32)
    out = torch.zeros(128, 256, dtype=torch.float8_e4m3fn, device=x.device).t().contiguous().t()
    scales = torch.empty(128 * 4, device=x.device)
    _triton_fp8_per_group_rowwise_scales_kernel[lambda meta: (triton.cdiv(128, meta["BLOCK_SIZE"]), 4)](
        x, offsets, out, scales, 128, 256, 4, x.stride(0), out.stride(1), -448.0, 448.0, tl.float32, tl.float8e4nv,
        False, EPS=EPS, STRIDE_OUTPUT_ROW=1, STRIDE_INPUT_COL=x.stride(1),
    )
    return out, scales
"""
_TRANSPOSED = """
def transposed(x):
    scale = (448.0 / x.abs().amax(-1).double().clamp(min=1e-12)).float()
    return (x * scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).transpose(1, 2).contiguous(), scale
"""
_OWN_TRANSPOSED = """
def own(x):
    out = torch.empty(3, 200, 144, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.full((3, 144), float("inf"), device=x.device)
    grid = lambda meta: (3, triton.cdiv(144, meta["BLOCK_SIZE_K"]), triton.cdiv(200, meta["BLOCK_SIZE_N"]))
    _triton_fp8_rowwise_3d_transpose_scales_rhs_kernel[grid](
        x, *x.stride(), scales, *scales.stride(), 3, 200, 144, -448.0, 448.0, tl.float32,
        round_scales_to_power_of_2=False, EPS=EPS,
    )
    _triton_fp8_rowwise_3d_transpose_cast_rhs_kernel[grid](
        x, *x.stride(), out, *out.stride(), scales, *scales.stride(), 3, 200, 144, -448.0, 448.0, tl.float32,
        tl.float8e4nv,
    )
    return out, scales
"""
_WHOLE = """
def whole(x):
    scale = (448.0 / x.abs().amax().double().clamp(min=1e-12)).float()
    y = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return y, scale, y.t().contiguous()
"""
_OWN_WHOLE = """
def own(x):
    (y, scale), (turned, _) = hp_to_fp8_row_major_t_and_non_t(x, torch.float8_e4m3fn, None{algorithm})
    return y, scale, turned
"""
_SWIZZLED = """
def swizzled(x):
    x = F.pad(x, (0, 2, 0, 56)).view(2, 4, 32, 2, 4)
    return x.permute(0, 3, 2, 1, 4).reshape(256, 8)
"""
_OWN_SWIZZLED = """
def own(x):
    out = torch.empty(256, 8, dtype=torch.uint8, device=x.device)
    triton_scale_swizzle[(2, 2)](x, 200, 6, out, *x.stride(), 128 * 4 * 2, BLOCK_ROWS=128, BLOCK_COLS=4)
    return out
"""
_MX = """
def mx(x):
    groups = x.float().view(x.shape[0], -1, 32)
    amax = groups.abs().amax(-1)
    exponent = torch.where(amax > 0, torch.frexp(amax)[1] - 1 - 8, -127).clamp(min=-127)
    return (groups * torch.exp2(-exponent.float())[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(x.shape), (
        exponent + 127).to(torch.uint8)
"""
_OWN_MX = """
def own(x):
    out = torch.empty(200, 256, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(200, 8, dtype=torch.uint8, device=x.device)
    grid = lambda meta: (triton.cdiv(200, meta["ROW_TILE_SIZE"]), triton.cdiv(256, meta["COL_TILE_SIZE"]))
    to_mxfp8_dim0_kernel[grid](
        x_ptr=x, output_ptr=out, scale_ptr=scale, n_rows=200, n_cols=256, SCALE_BLOCK_SIZE=32, SCALING_MODE="floor"
    )
    return out, scale
"""
_OWN_MX_COLUMNS = """
def own(x):
    out = torch.empty(128, 128, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(128, 4, dtype=torch.uint8, device=x.device)
    grid = lambda meta: (triton.cdiv(128, meta["ROW_TILE_SIZE"]), triton.cdiv(128, meta["COL_TILE_SIZE"]))
    to_mxfp8_dim1_kernel[grid](
        x_ptr=x, output_col_major_ptr=out, col_scale_ptr=scale, n_rows=128, n_cols=128, INNER_BLOCK_SIZE=32,
        SCALING_MODE="floor",
    )
    return out, scale
"""
_OWN_MX_READ = """
def own(x, scale):
    out = torch.empty(200, 256, device=x.device)
    grid = lambda meta: (triton.cdiv(200, meta["ROW_TILE_SIZE"]), triton.cdiv(256, meta["COL_TILE_SIZE"]))
    _dequant_mxfp8_kernel[grid](
        x, scale, out, 200, 256, 200, 8, out_dtype=tl.float32, SCALE_BLOCK_SIZE=32
    )
    return out
"""
_LEFT = """
def left(x):
    groups = x.view(2, 128, 192)
    scale = (448.0 / groups.abs().amax(1).clamp(min=1e-12).double()).float()
    y = (groups * scale[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(256, 192)
    return y.t().contiguous(), (1.0 / scale).t()
"""
_OWN_LEFT = """
def own(x):
    y = torch.empty(192, 256, dtype=torch.float8_e4m3fn, device=x.device)
    s = torch.empty(2, 192, device=x.device).t()
    triton_fp8_blockwise_act_quant_transposed_lhs_kernel[lambda meta: (2, triton.cdiv(192, meta["NUM_GROUPS"]))](
        x, *x.stride(), y, *y.stride(), s, *s.stride(), 256, K=192, BLOCK_SIZE=128, EPS=EPS, FP8_MAX=448.0
    )
    return y, s
"""
_ROPE = """
def rope(q, k, v, cos, sin):
    def turned(x):
        a, b = x.float().chunk(2, -1)
        c, s = (t[None, :, None, :32].float() for t in (cos, sin))
        return torch.cat((a * c - b * s, b * c + a * s), -1)
    def quantised(x, groups):
        x = x.transpose(1, 2)
        amax = x.abs().amax((2, 3)).view(2, 2, groups).amax(-1)
        scale = torch.where(amax > 1e-12, 448.0 / amax, 1.0).repeat_interleave(groups, 1)
        y = (x * scale[..., None, None]).to(torch.float8_e4m3fn).contiguous()
        return y, torch.where(amax > 1e-12, amax / 448.0, 1.0)
    (q, a), (k, b), (v, c) = quantised(turned(q), 2), quantised(turned(k), 1), quantised(v.float(), 1)
    return q, k, v, a, b, c
"""
_OWN_BACK = """
def own(x, places):
    out = torch.zeros(150, 100, device=x.device)
    _triton_permute_bwd_kernel[(1, 1)](x, places, out, 200, 100, 150, 100, BLOCK_ROWS=256, BLOCK_COLS=128)
    return out
"""
_BACK = """
def back(x, places):
    out = torch.zeros(151, 100, device=x.device)
    out[torch.where(places < 0, 150, places)] = x
    return out[:150].contiguous()
"""
_AROUND = "prototype.blockwise_fp8_training.kernels"
_MX_KERNELS = "prototype.mx_formats.kernels"


CASES = (
    _ao("int8 product", "prototype.quantized_training.int8_mm", "_scaled_int8_mm_kernel", _INT8_INPUTS,
        "(a.float() @ b.float()) * rows[:, None] * columns", "own(a, b, rows, columns)", arguments="a, b, rows, columns",
        own_defined=_INT8),
    _ao("float8 by group, built when first called", "prototype.blockwise_fp8_inference.kernels",
        "fp8_blockwise_act_quant", "torch.randn(48, 512)", "by_row(x, 128)", "fp8_blockwise_act_quant(x, 128)",
        defined=_BY_ROW),
    _ao("float8 product as an operator", "quantization.quantize_.workflows.float8.kernels", "_blockwise_fp8_gemm",
        _BLOCK_INPUTS.format(m=48), "product(a, a_scale, b, b_scale).bfloat16()",
        "_blockwise_fp8_gemm(a, a_scale, b, b_scale)", arguments="a, a_scale, b, b_scale", defined=_BLOCK_PRODUCT),
    _ao("float8 product by block", _AROUND, "triton_fp8_gemm_1x128_128x128_kernel", _BLOCK_INPUTS.format(m=256),
        "product(a, a_scale, b, b_scale)", "own(a, a_scale, b, b_scale)", arguments="a, a_scale, b, b_scale",
        defined=_BLOCK_PRODUCT, own_defined=_OWN_BLOCK_PRODUCT),
    _ao("int4 product", "prototype.hqq.kernels", "mixed_mm_kernel_compute_bound", _INT4_INPUTS,
        "int4(x, q, scales, zeros)", "own(x, q, scales, zeros)", arguments="x, q, scales, zeros", defined=_INT4,
        own_defined=_OWN_INT4.format(kernel="mixed_mm_kernel_compute_bound"),
        fault="with its own blocks of 32 along K, in groups of 64, it reads scales from the middle of a row"),
    _ao("int4 product, split along K", "prototype.hqq.kernels", "mixed_mm_kernel_max_autotune", _INT4_INPUTS,
        "int4(x, q, scales, zeros)", "own(x, q, scales, zeros)", arguments="x, q, scales, zeros", defined=_INT4,
        own_defined=_OWN_INT4.format(kernel="mixed_mm_kernel_max_autotune"),
        fault="reads scales from the middle of a row where BLOCK_K is 32; the parts of K take the scales of the first, and reach beyond the weights where they are more than K has"),
    _ao("indices of experts' tokens", "prototype.moe_training.ep.kernels", "generate_permute_indices",
        "torch.randint(0, 20, (8,))", "indices(counts)", "generate_permute_indices(counts, 4, 2, 256, 16)",
        arguments="counts", defined=_INDICES),
    _ao("float8 of jagged groups", "prototype.moe_training.kernels.jagged_float8_scales",
        "_triton_fp8_per_group_rowwise_scales_kernel", "torch.randn(128, 256), torch.randint(1, 65, (4,))",
        "jagged(x, sizes)", "own(x, sizes)", arguments="x, sizes", defined=_JAGGED, own_defined="EPS = 1e-12\n" + _OWN_JAGGED),
    _ao("float8 transposed, by an atomic minimum", "prototype.moe_training.kernels.float8_rowwise",
        ("_triton_fp8_rowwise_3d_transpose_scales_rhs_kernel", "_triton_fp8_rowwise_3d_transpose_cast_rhs_kernel"),
        "torch.randn(3, 144, 200)", "transposed(x)", "own(x)",
        defined=_TRANSPOSED, own_defined="EPS = 1e-12\n" + _OWN_TRANSPOSED,
        fault="its autotuner's key names an argument that the kernel has not, and the kernel indexes a scalar as if it were "
              "a block: Triton 3.9 refuses both"),
    _ao("float8 of a tensor, by an atomic maximum", "prototype.float8nocompile.kernels.fp8_dynamic_tensorwise",
        "hp_to_fp8_row_major_t_and_non_t", "torch.randn(150, 90)", "whole(x)", "own(x)", defined=_WHOLE,
        own_defined=_OWN_WHOLE.format(algorithm="")),
    _ao("float8 of a tensor, by partial maxima", "prototype.float8nocompile.kernels.fp8_dynamic_tensorwise",
        "hp_to_fp8_row_major_t_and_non_t", "torch.randn(150, 90)", "whole(x)", "own(x)", defined=_WHOLE,
        own_defined=_OWN_WHOLE.format(algorithm=", algo=KernelAlgorithm.REDUCTION")),
    _ao("scales in tiles", _MX_KERNELS, "triton_scale_swizzle", "torch.randint(0, 256, (200, 6), dtype=torch.uint8)",
        "swizzled(x)", "own(x)", defined=_SWIZZLED, own_defined=_OWN_SWIZZLED),
    _ao("mxfp8 of rows", _MX_KERNELS, "to_mxfp8_dim0_kernel", "torch.randn(200, 256).bfloat16()", "mx(x)", "own(x)",
        defined=_MX, own_defined=_OWN_MX),
    _ao("mxfp8 of columns", _MX_KERNELS, "to_mxfp8_dim1_kernel", "torch.randn(128, 128).bfloat16()",
        "mx(x.t().contiguous())", "own(x)", defined=_MX, own_defined=_OWN_MX_COLUMNS,
        fault="stores scales without a mask, beyond 128 x 128 for its own tiles of 256 and 512"),
    _ao("mxfp8 as floats", _MX_KERNELS, "_dequant_mxfp8_kernel",
        "torch.randn(200, 256).to(torch.float8_e4m3fn), torch.randint(120, 135, (200, 8), dtype=torch.uint8)",
        "(x.float().view(200, 8, 32) * torch.exp2(scale.float() - 127)[..., None]).view(200, 256)", "own(x, scale)",
        arguments="x, scale", own_defined=_OWN_MX_READ),
    _ao("float8 transposed, by block", _AROUND, "triton_fp8_blockwise_act_quant_transposed_lhs_kernel",
        "torch.randn(256, 192)", "left(x)", "own(x)", defined=_LEFT, own_defined="EPS = 1e-12\n" + _OWN_LEFT),
    _ao("rotary embedding and float8 in phases", "prototype.attention.quantization.triton_rope_qkv_quantization",
        "triton_fp8_rope_sdpa_quantize",
        "torch.randn(2, 80, 4, 64), torch.randn(2, 80, 2, 64), torch.randn(2, 80, 2, 64), torch.randn(80, 32).repeat(1, 2), "
        "torch.randn(80, 32).repeat(1, 2)",
        "rope(q, k, v, cos, sin)", "triton_fp8_rope_sdpa_quantize(q, k, v, cos, sin)", arguments="q, k, v, cos, sin",
        defined=_ROPE),
    _ao("rows put back", "prototype.moe_training.ep.permute", "_triton_permute_bwd_kernel",
        "torch.randn(200, 100), torch.cat((torch.randperm(150), torch.full((50,), -1)))[torch.randperm(200)]",
        "back(x, places)", "own(x, places)", arguments="x, places", defined=_BACK, own_defined=_OWN_BACK),
)  # fmt: skip
