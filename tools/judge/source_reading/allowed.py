"""What the text of an ordinary wrapper of kernels uses: everything else is named.

An entry is here because honest kernels need it and its answer depends on the arguments alone. No entry may lead from a
value to the process around it: no names of modules within modules, no frames, no addresses, no flags.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernelagent.domain.tables.dtypes import FLOATS
from kernelagent.tools.judge.source_reading.installed import installed_triton, missing_from_language

_TORCH = """
bartlett_window blackman_window hamming_window hann_window kaiser_window abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax any arange argmax argmin argsort
as_strided as_tensor asin asinh atan atan2 atanh atleast_1d atleast_2d baddbmm bernoulli bincount bitwise_and bitwise_not
bitwise_or bitwise_xor block_diag bmm bool broadcast_shapes broadcast_tensors broadcast_to bucketize cat cdist ceil channels_last
channels_last_3d chunk clamp clamp_max clamp_min clip clone complex complex128 complex64 concat contiguous_format conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d cos cosh count_nonzero cross cummax cummin cumprod cumsum deg2rad device diag
diag_embed diagonal diff digamma div divide dot dropout dtype e einsum embedding empty empty_like empty_strided enable_grad eq erf
erfc erfinv exp exp2 expm1 eye finfo flatten flip float floor floor_divide fmax fmin fmod frac full full_like gather ge greater gt half histc hstack hypot i0 iinfo imag
index_add index_copy index_fill index_put index_select inf inner int int16 int32 int64 int8 inverse is_complex is_floating_point
is_tensor isclose isfinite isin isinf isnan kron kthvalue layer_norm le lerp less lgamma linspace log log10 log1p log2 log_softmax
logaddexp logcumsumexp logical_and logical_not logical_or logical_xor logspace logsumexp long lt masked_fill masked_scatter masked_select
matmul max maximum mean median meshgrid min minimum mm movedim mul multiply mv nan nan_to_num nanmean nansum narrow native_layer_norm ne
neg no_grad nonzero norm normal not_equal numel ones ones_like outer permute pi polar pow preserve_format logit prod promote_types quantile
rad2deg rand rand_like randint randint_like randn randn_like randperm range ravel real reciprocal relu remainder repeat_interleave
reshape result_type rms_norm roll rot90 round rsqrt scalar_tensor scatter scatter_add scatter_reduce searchsorted select selu sgn short
sigmoid sign sin sinc sinh softmax sort split sqrt square squeeze stack std std_mean strided sub subtract sum swapaxes t take
take_along_dim tan tanh tensor tensor_split tensordot threshold tile topk trace transpose trapezoid tril tril_indices triu triu_indices
true_divide trunc uint16 uint32 uint64 uint8 unbind unflatten unique unsqueeze vander var var_mean vdot view_as_complex view_as_real
vstack where xlogy zeros zeros_like Size Tensor group_norm batch_norm instance_norm prelu bilinear pairwise_distance cosine_similarity
adaptive_avg_pool1d avg_pool1d max_pool1d max_pool2d max_pool3d softplus cfloat inference_mode
"""
_FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d
avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits celu conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d
dropout2d dropout3d elu embedding embedding_bag fold gelu glu grid_sample group_norm gumbel_softmax hardshrink hardsigmoid hardswish
hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear local_response_norm
log_softmax logsigmoid margin_ranking_loss max_pool1d max_pool2d max_pool3d mish mse_loss nll_loss normalize one_hot pad
pairwise_distance pixel_shuffle pixel_unshuffle prelu relu relu6 rms_norm rrelu scaled_dot_product_attention selu sigmoid silu
smooth_l1_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold triplet_margin_loss unfold upsample
"""
_LAYERS = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d
BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer CELU Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
CosineSimilarity CrossEntropyLoss Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag Flatten GELU GLU GRU GRUCell GroupNorm
Hardsigmoid Hardswish Hardtanh HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LSTM LSTMCell LayerNorm
LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax MSELoss MaxPool1d MaxPool2d MaxPool3d Mish Module ModuleDict ModuleList
MultiheadAttention NLLLoss PReLU Parameter ParameterDict ParameterList PixelShuffle RMSNorm RNN RNNCell ReLU ReLU6 SELU Sequential SiLU
Sigmoid SmoothL1Loss Softmax Softplus Softshrink Softsign Tanh Tanhshrink Threshold Transformer TransformerDecoder
TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss Unflatten Unfold Fold Upsample ZeroPad2d BCELoss
BCEWithLogitsLoss ChannelShuffle ConstantPad1d ConstantPad2d ConstantPad3d CTCLoss CosineEmbeddingLoss FeatureAlphaDropout AlphaDropout
Hardshrink HingeEmbeddingLoss LPPool1d LPPool2d LSTMCell MarginRankingLoss MaxUnpool2d MultiMarginLoss PairwiseDistance PixelUnshuffle
PoissonNLLLoss RReLU ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SoftMarginLoss
Softmax2d Softmin UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad3d GaussianNLLLoss MultiLabelMarginLoss
"""
_INITIALISERS = """
calculate_gain _calculate_fan_in_and_fan_out constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_ ones_ orthogonal_ sparse_ trunc_normal_ uniform_
xavier_normal_ xavier_uniform_ zeros_
"""
_LANGUAGE = """
PropagateNan abs add advance arange argmax argmin associative_scan assume atomic_add atomic_and atomic_cas atomic_load atomic_max
atomic_min atomic_or atomic_poll atomic_store atomic_xchg atomic_xor block_type broadcast broadcast_to cast cat cdiv ceil clamp constexpr
cos cumprod cumsum debug_barrier device_assert div_rn dot dot_scaled dtype erf exp exp2 expand_dims fdiv flip
float8e4b15 floor fma full gather histogram int1 int16 int32 int64 int8
interleave join load load_tensor_descriptor log log2 make_block_ptr make_tensor_descriptor map_elementwise max max_constancy
max_contiguous maximum min minimum mul multiple_of num_programs pair_uniform_to_normal permute philox philox_impl pi32_t pointer_type
program_id rand rand4x randint randint4x randn randn4x random range ravel reduce reduce_or reshape rsqrt sigmoid sin slice softmax sort
split sqrt sqrt_rn squeeze static_assert static_range store store_tensor_descriptor sub sum swizzle2d tensor
tensor_descriptor tensor_descriptor_type to_tensor topk trans tuple tuple_type uint16 uint32 uint64 uint8 uint_to_uniform_float umulhi
unsqueeze view void where xor_sum zeros zeros_like tanh pow fmod get_int_dtype
"""
_TYPING = """
Annotated Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping NamedTuple NewType NoReturn Optional
ParamSpec Protocol Self Sequence Set Tuple Type TypeAlias TypeVar Union cast final overload override Hashable Generator
"""
_OPERATORS = "add and_ eq floordiv ge getitem gt index le lt mod mul ne neg or_ pow sub truediv xor"
_LIBDEVICE = """
abs acos acosh add_rn asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi div_rn erf erfc erfcinv erfcx erfinv exp exp10
exp2 expm1 fabs fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf fast_tanhf
fdim finitef float2int_rn float_as_int floor fma fmod hypot ilogb int_as_float isfinited isinf isnan j0 j1 ldexp lgamma llrint llround
log log10 log1p log2 logb max min mul_rn mulhi nearbyint norm3d norm4d normcdf normcdfinv popc pow rcbrt remainder rhypot rint round
rsqrt rsqrt_rn scalbn signbit sin sinh sinpi sqrt sqrt_rn tan tanh tgamma trunc y0 y1 div_rz rcp_rn ffs clz brev sub_rn
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LIBDEVICE_NAMES = _names(_LIBDEVICE)
_FLOATS = {row.name for row in FLOATS}
_FLOATS_OF_TRITON = {row.triton for row in FLOATS if row.triton is not None}
_LANGUAGE_NAMES = (_names(_LANGUAGE) | _FLOATS_OF_TRITON) - missing_from_language(
    installed_triton()
)
_MATH = frozenset(name for name in dir(math) if not name.startswith("_"))

MEMBERS: Mapping[str, frozenset[str]] = {
    "torch": _names(_TORCH) | _FLOATS,
    "torch.nn": _names(_LAYERS),
    "torch.nn.functional": _names(_FUNCTIONAL),
    "torch.nn.init": _names(_INITIALISERS),
    "torch.nn.parameter": _names("Parameter Buffer"),
    "torch.nn.modules": frozenset(),
    "torch.nn.modules.utils": _names("_single _pair _triple"),
    "torch.autograd": _names("Function"),
    "torch.autograd.function": _names("Function once_differentiable FunctionCtx"),
    "torch.cuda": _names("current_stream device device_of"),
    "torch.cuda.amp": _names("custom_fwd custom_bwd"),
    "torch.amp": _names("custom_fwd custom_bwd"),
    "torch.ops": frozenset(),
    "torch.ops.aten": _names("convolution_backward"),
    "torch.linalg": _names("vector_norm matrix_norm norm solve inv det cholesky qr svd eigh"),
    "torch.fft": _names("fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn"),
    "torch.return_types": _names("aminmax cummax cummin kthvalue max median min mode sort topk"),
    "torch.special": _names(
        "erf erfc expit exp2 expm1 log1p logsumexp softmax log_softmax gammaln"
    ),
    "triton": _names("Config autotune cdiv constexpr_function heuristics jit next_power_of_2"),
    "triton.language": _LANGUAGE_NAMES,
    "triton.language.math": _LIBDEVICE_NAMES | _LANGUAGE_NAMES,
    "triton.language.core": _LANGUAGE_NAMES,
    "triton.language.standard": _LANGUAGE_NAMES,
    "triton.language.extra": frozenset(),
    "triton.language.extra.libdevice": _LIBDEVICE_NAMES,
    "triton.language.extra.cuda": frozenset(),
    "triton.language.extra.cuda.libdevice": _LIBDEVICE_NAMES,
    "triton.tools": frozenset(),
    "triton.tools.tensor_descriptor": _names("TensorDescriptor"),
    "triton.runtime": frozenset(),
    "triton.runtime.driver": frozenset(),
    "triton.runtime.driver.active": _names("get_active_torch_device"),
    "torch.compiler": frozenset(),
    "torch.jit": _names("ignore unused"),
    "torch.library": _names("wrap_triton"),
    "torch.profiler": _names("record_function"),
    "math": _MATH,
    "typing": _names(_TYPING),
    "collections": _names("OrderedDict defaultdict deque namedtuple"),
    "collections.abc": _names("Callable Iterable Iterator Mapping Sequence"),
    "contextlib": _names("ExitStack contextmanager nullcontext"),
    "dataclasses": _names("asdict dataclass field replace"),
    "enum": _names("Enum IntEnum StrEnum auto"),
    "functools": _names("partial reduce wraps"),
    "itertools": _names("accumulate chain islice pairwise permutations product repeat zip_longest"),
    "numbers": _names("Integral Number Real"),
    "numpy": _names("ceil float16 float32 float64 floor int32 int64 log2 pi prod sqrt"),
    "operator": _names(_OPERATORS),
    "__future__": _names("annotations"),
}
"""Modules by path, with the members that need no word."""

MODULES: frozenset[str] = frozenset(MEMBERS)

BUILTINS: frozenset[str] = _names("""
abs all any bool bytearray bytes callable complex dict divmod enumerate filter float format frozenset int isinstance iter len list map max min
object pow property range repr reversed round set slice sorted staticmethod str sum super tuple zip classmethod
None True False Ellipsis NotImplemented
ArithmeticError AssertionError AttributeError Exception ImportError IndexError KeyError ModuleNotFoundError NotImplementedError
OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError
DeprecationWarning FutureWarning RuntimeWarning UserWarning Warning
""")

_OF_TENSORS = """
H T abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv all amax amin aminmax any argmax argmin argsort as_strided asin asinh
atan atan2 atanh baddbmm bfloat16 bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm bool broadcast_to byte ceil char chunk
clamp clamp_max clamp_min clip clone conj conj_physical contiguous cos cosh count_nonzero cross cuda cummax cummin cumprod cumsum data deg2rad dense_dim
detach device diag diag_embed diagonal diff dim div divide dot double dtype element_size eq erf erfc erfinv exp exp2 expand
expand_as expm1 flatten flip float floor floor_divide fmax fmin fmod frac gather ge greater gt half histc imag index_add index_copy
index_fill index_put index_select inner int inverse is_complex is_contiguous is_cpu is_cuda is_floating_point is_signed isclose isfinite isinf isnan
itemsize kthvalue le lerp less lgamma log log10 log1p log2 log_softmax logaddexp logcumsumexp logical_and logical_not logical_or
logical_xor logsumexp long lt mH mT masked_fill masked_scatter masked_select matmul max maximum mean median min minimum mm movedim mul
multiply mv nan_to_num nanmean nansum narrow nbytes ndim ndimension ne neg negative nelement new_empty new_full new_ones new_tensor
new_zeros nonzero norm not_equal numel outer permute pow prod quantile ravel real reciprocal relu remainder repeat repeat_interleave
reshape reshape_as resolve_conj resolve_neg roll rot90 round rsqrt scatter scatter_add scatter_reduce select sgn shape short sigmoid sign sin sinc sinh size
softmax sort split split_with_sizes sqrt square squeeze std stride sub subtract sum sum_to_size swapaxes swapdims t take take_along_dim
tan tanh tensor_split tile to topk trace transpose tril triu true_divide trunc type_as unbind unflatten unfold unique unsafe_chunk
unsqueeze var vdot view view_as where xlogy
abs_ add_ addcdiv_ addcmul_ addmm_ baddbmm_ bernoulli_ bitwise_and_ bitwise_or_ bitwise_xor_ ceil_ clamp_ clamp_max_ clamp_min_ copy_ cos_
cumsum_ div_ erf_ exp_ exp2_ expm1_ fill_ fill_diagonal_ floor_ index_add_ index_copy_ index_fill_ index_put_ lerp_ log_ log1p_
masked_fill_ masked_scatter_ mul_ neg_ normal_ pow_ random_ reciprocal_ relu_ round_ rsqrt_ scatter_ scatter_add_ scatter_reduce_ sigmoid_
sin_ sqrt_ square_ squeeze_ sub_ t_ tanh_ transpose_ tril_ triu_ trunc_ uniform_ unsqueeze_ zero_
bits eps is_complex max min smallest_normal tiny
"""
_OF_KERNELS = """
T abs argmax argmin associative_scan atomic_add atomic_max atomic_min cast cdiv dtype element_ty expand_dims is_bf16 is_block is_floating
is_fp16 is_fp32 is_fp64 is_fp8 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_ptr is_uint8 load primitive_bitwidth store trans
scalar int_bitwidth is_int_signed is_int_unsigned is_uint16 is_uint32 is_uint64 is_standard_floating
value from_tensor descriptor block_shape
"""
_OF_MODULES = """
affine batch_first bias buffers dilation embedding_dim end_dim eps forward groups in_channels in_features inplace kernel_size momentum
negative_slope normalized_shape num_embeddings num_features num_groups out_channels out_features output_padding padding padding_idx
padding_mode parameters register_buffer register_parameter running_mean running_var start_dim stride training track_running_stats weight
children modules named_children named_modules named_parameters named_buffers in_proj_weight in_proj_bias out_proj num_heads head_dim
num_batches_tracked elementwise_affine get_submodule hidden_size input_size num_layers approximate reset_parameters normalized p register_module
add_module apply ceil_mode count_include_pad output_size get_parameter get_buffer layers reduction weight_ih_l0 weight_hh_l0 bias_ih_l0
bias_hh_l0 requires_grad_ min_val max_val alpha beta threshold lambd divisor_override return_indices upscale_factor scale_factor mode
align_corners ignore_index label_smoothing margin delta log_target bidirectional proj_size dropout flatten_parameters num_parameters
embed_dim kdim vdim lower upper value end_dim unflattened_size self_attn linear1 linear2 norm1 norm2 dropout1 dropout2 activation
blank dim downscale_factor full in1_features in2_features include_last_offset k keepdim log_input max_norm nonlinearity norm norm_first
norm_type num_channels num_classes output_ratio recompute_scale_factor scale_grad_by_freq sparse swap
"""
_OF_FUNCTIONS = """
apply mark_dirty mark_non_differentiable needs_input_grad save_for_backward saved_tensors set_materialize_grads
"""
_OF_CONTAINERS = """
append appendleft capitalize clear copy count endswith extend find fromkeys get index insert intersection isdigit issubset items join
keys lower lstrip pop popitem popleft remove replace reverse rstrip setdefault sort split startswith strip title union update upper values
add discard difference bit_length real enter_context register_autograd register_fake ALL NONE kwargs num_warps num_stages name args start stop step __init__
"""
ATTRIBUTES: frozenset[str] = _names(
    _OF_TENSORS + _OF_KERNELS + _OF_MODULES + _OF_FUNCTIONS + _OF_CONTAINERS
) - {"requires_grad_"}
"""What may be asked of a value whose kind the reading does not know."""

DUNDERS: frozenset[str] = _names("""
__init__ __post_init__ __call__ __len__ __getitem__ __iter__ __contains__ __eq__ __hash__ __enter__ __exit__ __add__ __mul__ __sub__
""")
"""Special methods that a class of the candidate's own may have."""
