"""The environment variables a candidate's process may see; everything else stays behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_NAMES = frozenset(
    """PATH LANG LANGUAGE TZ LD_LIBRARY_PATH
    CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_MODULE_LOADING
    CUDA_MPS_PIPE_DIRECTORY CC
    PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
    OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS PYTHONUTF8 PYTHONHASHSEED""".split()
)
_PREFIXES = ("LC_", "NVIDIA_", "TRITON_")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
_PRIVATE_FOLDERS = {
    "TMPDIR": "",
    "TEMP": "",
    "TMP": "",
    "TRITON_HOME": "",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
}


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environment` that carry neither a secret nor a place of the user's."""
    return {name: value for name, value in environment.items() if _is_allowed(name)}


def private(scratch: Path) -> dict[str, str]:
    """Variables that send caches and temporary files into `scratch`."""
    return {name: str(scratch / folder) for name, folder in _PRIVATE_FOLDERS.items()}


def _is_allowed(name: str) -> bool:
    upper = name.upper()
    if any(word in upper for word in _SECRET_WORDS) or name in _PRIVATE_FOLDERS:
        return False
    if name.startswith("TRITON_") and "CACHE" in name:
        return False
    return name in _NAMES or name.startswith(_PREFIXES)
