"""tritonbench: the kernels that its operators compare, in many ways of writing one computation."""

from __future__ import annotations

from benchmarks.others.cases.case import AFFINE, ROWS, SEQUENCES, Case, Project, calls

TRITONBENCH = Project(
    "meta-pytorch/tritonbench",
    ".",
    {
        "triton": "import triton",
        "is_cuda": "def is_cuda():\n    return True",
        "is_hip": "def is_hip():\n    return False",
        "is_hip_mi300": "def is_hip_mi300():\n    return False",
        "HAS_APEX": "HAS_APEX = False",
        "profile_mem_pre_hook": "def profile_mem_pre_hook(arguments, reset_only=False):\n    pass",
        "compiled_reduction": "compiled_reduction = None",
    },
    {
        "os.environ.get('FULL_AUTOTUNING_AMD', '0') == '1' and torch.version.hip is not None": False,
        "torch.version.hip is not None": False,
        "include_small_configs": False,
    },
)
_bench = calls(TRITONBENCH, "tritonbench", "tritonbench.operators")
_SOFTMAX = """
def own(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.stride(0), out.stride(0), x.shape[1], BLOCK_SIZE=1024, num_warps=4)
    return out
"""
_PRODUCT = "torch.randn({m}, {k}).half(), torch.randn({k}, {n}).half()"
_MATMUL = "(x.float() @ y.float()).half()"
_STREAMED = """
def own(x, y):
    out = torch.zeros(256, 384, dtype=x.dtype, device=x.device)
    streamk_amd_gemm{tuned}[(5,)](
        x, y, out, None, 256, 384, 512, *x.stride(), *y.stride(), 0, 0, *out.stride(), HAS_BIAS=False, NUM_SMS=5,
        STREAMK_TILES=1, NUM_XCDS=1, ENABLE_BUFFER_OPS_ASSUMES=True{sizes},
    )
    return out
"""
_SCALAR = "indexes a scalar as if it were a block, which Triton 3.9 refuses"
_PARTS = """
def own(x):
    out = torch.empty(64, 32, device=x.device)
    _reduce[(2,)](out, x, 64, 32, *out.stride(), *x.stride(), 32, 32, 32)
    return out
"""
_GATHERED = """
def own(w, i, x):
    out = torch.empty(2 * {size}, dtype=torch.bfloat16, device=x.device)
    grid = lambda meta: (triton.cdiv(2 * {size}, meta["XBLOCK"]),)
    triton_red_fused_mv_0[grid](i, w, x, out, 2 * {size}, {size})
    return out.view(2, {size})
"""
_GATHERED_INPUTS = "torch.randn(8, {size}, {size}).bfloat16(), torch.randint(0, 8, (2,)), torch.randn({size}).bfloat16()"
# Six sequences of 0 to 40 rows behind one another.
_JAGGED_INPUTS = "torch.randn(240, 50), torch.randint(1, 41, (6,))"
_JAGGED = """
def own(x, lengths):
    out = torch.{kind}({shape}, device=x.device)
    offsets = F.pad(lengths.cumsum(0), (1, 0))
    grid = lambda meta: (6 * triton.cdiv(50, meta["BLOCK_SIZE_M"]),)
    {kernel}[grid](x, offsets, out, 50{more})
    return out
"""
_ROWS_OF = """
def rows_of(x, lengths):
    ends = lengths.cumsum(0)
    row = torch.arange(x.shape[0], device=x.device)
    return (row < ends[:, None]) & (row >= (ends - lengths)[:, None])


def jagged_softmax(x, lengths):
    held = rows_of(x, lengths)
    scores = x[None].masked_fill(~held[..., None], float("-inf")).softmax(1)
    return torch.where(held[..., None], scores, 0.0).sum(0)
"""
_LAYER_NORM = """
def own(x, weight, bias):
    mean, rstd = (torch.empty(300, 1, device=x.device) for _ in range(2))
    out = torch.empty(300, 1000, dtype=torch.bfloat16, device=x.device)
    triton_red_fused_native_layer_norm_0[lambda meta: (triton.cdiv(300, meta["XBLOCK"]),)](
        rstd, x, weight, bias, mean, out, 300, 1000
    )
    return out, mean, rstd
"""
_NORMED = """
def normed(x, weight, bias):
    x = x.float()
    mean = x.mean(1, keepdim=True)
    rstd = torch.rsqrt(x.var(1, keepdim=True, correction=0) + 1e-5)
    return ((x - mean) * rstd * weight.float() + bias.float()).to(torch.bfloat16), mean, rstd
"""
_GROUP = "torch.randn(128, 64).half(), torch.randn(64, 128).half(), torch.randn(256, 96).half(), torch.randn(96, 128).half()"
_INT2 = """
def packed(x):
    q = torch.where(x == -2, 0, torch.where(x == -1, 1, torch.where(x == 0, 2, 3))).view(60, 32, 4)
    return (q << torch.tensor([0, 2, 4, 6], device=x.device)).sum(-1).to(torch.uint8).view(torch.int8)


def unpacked(x):
    q = (x.to(torch.int32)[..., None] >> torch.tensor([0, 2, 4, 6], device=x.device)) & 3
    return (q - 2).to(torch.bfloat16).view(60, 128)
"""
_SUM = """
def own(x):
    out = torch.zeros({shape}, device=x.device)
    {kernel}
    return out
"""
_EXP = """
def own(x):
    out = torch.empty_like(x)
    triton_exp_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK_SIZE=512)
    return out
"""


def _jagged(name: str, folder: str, kernel: str, forward: str, kind: str, *, longest: bool) -> Case:
    """Sums and the like of sequences that lie behind one another."""
    text = _JAGGED.format(
        kernel=kernel, more=", 40" if longest else "", kind=kind,
        shape="240, 50" if "softmax" in name else "6, 50",
    )  # fmt: skip
    case: Case = _bench(
        name, f"{folder}.kernels", kernel, _JAGGED_INPUTS, forward, "own(x, lengths)",
        arguments="x, lengths", defined=_ROWS_OF, own_defined=text,
    )  # fmt: skip
    return case


CASES = (
    _bench("softmax of a class", "softmax.operator", "Operator.softmax_kernel", ROWS, "torch.softmax(x, -1)", "own(x)",
           own_defined=_SOFTMAX),
    _bench("layer norm with locks", "layer_norm.tutorial", "LayerNorm", SEQUENCES,
           "F.layer_norm(x, (768,), self.weight, self.bias, 1e-5)",
           "LayerNorm.apply(x, (768,), self.weight, self.bias, 1e-5)", state=AFFINE, train=True,
           fault="reads the upstream gradient as if it lay like the input: what y.sum().backward() sends is expanded"),
    _bench("product", "gemm.triton_matmul", "matmul", _PRODUCT.format(m=200, k=144, n=160), _MATMUL, "matmul(x, y)",
           arguments="x, y"),
    _bench("product in parts of K", "gemm.partition_k", "matmul_partition_k", _PRODUCT.format(m=64, k=2048, n=64),
           _MATMUL, "matmul_partition_k(x, y, True)", arguments="x, y",
           fault=f"{_SCALAR}; and its configurations with BLOCK_SIZE_K 128 add parts of K twice where K is 32 * 64"),
    _bench("sum of parts", "gemm.partition_k", "_reduce", "torch.randn(64, 32, 32)", "x.sum(2)", "own(x)",
           own_defined=_PARTS, fault="divides by the number of rows of tiles, not of columns: rows from 32 on are never written"),
    _bench("stream-K product", "gemm.stream_k", "streamk_amd_gemm", _PRODUCT.format(m=256, k=512, n=384), _MATMUL,
           "own(x, y)", arguments="x, y", own_defined=_STREAMED.format(tuned="", sizes=""),
           fault="its autotuner names no reset_to_zero: what is tried while Triton tunes is added to the result"),
    _bench("stream-K product, not tuned", "gemm.stream_k", "streamk_amd_gemm", _PRODUCT.format(m=256, k=512, n=384),
           _MATMUL, "own(x, y)", arguments="x, y",
           own_defined=_STREAMED.format(tuned=".fn", sizes=", BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, GROUP_M=8")),
    _bench("persistent product", "gemm.persistent_matmul", "matmul_persistent", _PRODUCT.format(m=300, k=192, n=272),
           _MATMUL, "matmul_persistent(x, y)", arguments="x, y"),
    _bench("persistent product of fp8_gemm", "fp8_gemm.persistent", "matmul_persistent",
           _PRODUCT.format(m=256, k=128, n=256), _MATMUL, "matmul_persistent(x, y)", arguments="x, y",
           fault="never adds the tile's first row to its offsets: rows from 128 on are those from 0 on"),
    _bench("product by tensor descriptors", "gemm.warp_spec_persistent_matmul", "blackwell_matmul_tma",
           _PRODUCT.format(m=200, k=144, n=304), _MATMUL, "blackwell_matmul_tma(x, y, False)", arguments="x, y"),
    _bench("persistent product by tensor descriptors", "gemm.warp_spec_persistent_matmul",
           "blackwell_matmul_tma_persistent", _PRODUCT.format(m=200, k=144, n=304), _MATMUL,
           "blackwell_matmul_tma_persistent(x, y, False)", arguments="x, y"),
    _bench("gathered matrix times vector", "gather_gemv.triton_gather_gemv", "triton_red_fused_mv_0",
           _GATHERED_INPUTS.format(size=256), "(w[i].float() @ x.float()).bfloat16()", "own(w, i, x)",
           arguments="w, i, x", own_defined=_GATHERED.format(size=256),
           fault="loads blocks of up to 2048 without a mask, beyond a vector of 256"),
    _jagged("jagged mean", "jagged_mean", "triton_jagged_mean_kernel_variable_length_loop_buffer_then_sum",
            "rows_of(x, lengths).to(x.dtype) @ x / lengths[:, None]", "empty", longest=False),
    _jagged("jagged sum up to the longest", "jagged_sum", "triton_jagged_sum_kernel_simple_fused_sum_then_buffer",
            "rows_of(x, lengths).to(x.dtype) @ x", "empty", longest=True),
    _jagged("jagged sum with a profile", "jagged_sum", "triton_jagged_sum_kernel_variable_length_loop_buffer_then_sum",
            "rows_of(x, lengths).to(x.dtype) @ x", "empty", longest=False),
    _jagged("jagged softmax", "jagged_softmax", "triton_jagged_softmax_kernel_variable_length_loop_buffer_then_sum",
            "jagged_softmax(x, lengths)", "zeros", longest=False),
    _bench("layer norm of inductor, Welford", "welford.triton_welford", "triton_red_fused_native_layer_norm_0",
           "torch.randn(300, 1000).bfloat16()", "normed(x, self.weight, self.bias)", "own(x, self.weight, self.bias)",
           state="self.weight = nn.Parameter(torch.rand(1000).bfloat16()); "
                 "self.bias = nn.Parameter(torch.randn(1000).bfloat16())",
           defined=_NORMED, own_defined=_LAYER_NORM,
           limit="calls kernels' functions of torch._inductor, which do not stand in the candidate's text"),
    _bench("products by a table of pointers", "grouped_gemm.kernels", "triton_group_gemm_fn", _GROUP,
           "[(x.float() @ y.float()).half() for x, y in ((a, b), (c, d))]", "triton_group_gemm_fn([a, c], [b, d])",
           arguments="a, b, c, d"),
    _bench("int4 product", "int4_gemm.kernel", "matmul",
           "torch.randn(48, 512).bfloat16(), torch.randint(-128, 128, (256, 256), dtype=torch.int8)",
           "(x.float() @ torch.stack(((y << 4) >> 4, y >> 4), 1).view(512, 256).float()).bfloat16()", "matmul(x, y)",
           arguments="x, y"),
    _bench("bf16 times int16", "bf16xint16_gemm.kernel", "bf16xint16_matmul",
           "torch.randn(96, 160).bfloat16(), torch.randint(-1000, 1000, (160, 80), dtype=torch.int16)",
           "(x.float() @ y.bfloat16().float()).bfloat16()", "bf16xint16_matmul(x, y)", arguments="x, y"),
    _bench("bf16 packed to int2", "mixed_gemm.quantize", "quantize_bf16_to_int2",
           "torch.randint(-2, 2, (60, 128)).bfloat16()", "packed(x)", "quantize_bf16_to_int2(x)", defined=_INT2),
    _bench("int2 unpacked to bf16", "mixed_gemm.quantize", "dequantize_int2_to_bf16",
           "torch.randint(-128, 128, (60, 32), dtype=torch.int8)", "unpacked(x)", "dequantize_int2_to_bf16(x)",
           defined=_INT2),
    _bench("sum by atomics", "sum.kernels", "triton_sum_kernel_scalar_result", "torch.randn(5000)", "x.sum()[None]",
           "own(x)", own_defined=_SUM.format(shape=1, kernel=(
               "triton_sum_kernel_scalar_result[(triton.cdiv(5000, 256),)](x, out, 5000, BLOCK_SIZE_M=256)"))),
    _bench("sum over rows", "sum.kernels", "triton_sum_kernel_1D_result_buffer_then_sum", "torch.randn(100, 70)",
           "x.sum(0)", "own(x)", own_defined=_SUM.format(shape=70, kernel=(
               'triton_sum_kernel_1D_result_buffer_then_sum[lambda meta: (triton.cdiv(70, meta["BLOCK_SIZE_NON_REDUCE_DIM"]),)]'
               "(x, out, 100, 70, dim=0)"))),
    _bench("exponential", "vector_exp.kernels", "triton_exp_kernel", "torch.randn(9000)", "x.exp()", "own(x)",
           own_defined=_EXP),
)  # fmt: skip
