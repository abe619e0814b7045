"""Functions that a written file has for checking what it is given."""

from __future__ import annotations

from kernelagent.models.compiler.module.limits import COUNTABLE

CONTIGUOUS, AS_IT_LIES, AS_IT_LAY = "_contiguous", "_as_it_lies", "_as_it_lay"
IN_ORDER = "_require_contiguous"
CHECKS = {
    CONTIGUOUS: f"""\
def {CONTIGUOUS}(name, tensor, shape, dtype):
    \"\"\"`tensor`, copied if not contiguous; raises on another dtype or shape (None: any size).\"\"\"
    same = len(shape) == tensor.dim() and all(
        size is None or size == has for size, has in zip(shape, tensor.shape)
    )
    if not same or tensor.dtype != dtype:
        raise ValueError(
            f"{{name}} must be {{dtype}} of shape {{shape}}, not {{tensor.dtype}} of {{tuple(tensor.shape)}}"
        )
    return tensor.contiguous()""",
    AS_IT_LIES: f"""\
def {AS_IT_LIES}(name, tensor, shape, dtype, strides):
    \"\"\"`tensor` as it is; raises on another dtype, shape or strides.\"\"\"
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.stride() != strides:
        raise ValueError(
            f"{{name}} must be {{dtype}} of shape {{shape}} and strides {{strides}}, not "
            f"{{tensor.dtype}} of {{tuple(tensor.shape)}} and {{tensor.stride()}}"
        )
    return tensor""",
    AS_IT_LAY: f"""\
def {AS_IT_LAY}(name, tensor, shape, dtype, strides):
    \"\"\"`tensor`, copied where a hook that packs what is kept for the backward has changed its strides.\"\"\"
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(f"{{name}} must be {{dtype}} of shape {{shape}}")
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(shape, strides, dtype=dtype, device=tensor.device).copy_(tensor)""",
    IN_ORDER: f"""\
def {IN_ORDER}(*weights):
    \"\"\"The kernels read weights in this order.\"\"\"
    if not all(weight.is_contiguous() for weight in weights):
        raise ValueError("a weight is not contiguous: these kernels take no other memory format")""",
    COUNTABLE: f"""\
def {COUNTABLE}(*elements):
    \"\"\"The kernels count elements in 32 bits.\"\"\"
    if any(count >= 2**31 for count in elements):
        raise ValueError(f"a tensor of {{max(elements)}} elements is too large for these kernels")""",
}
"""Their texts by name."""
