"""The exported folder, by itself and as Hugging Face's `kernels` loads it."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.util
import json
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

from kernelagent.domain.certificate import certificate_in
from kernelagent.domain.errors import UsageError
from kernelagent.dropin.hf_kernels import BUILT, DROPIN, Kernel, files_of, kernel_from, write
from tests.dropin.emitted import CANDIDATE, Block, text_for

REFERENCE = """
class Block(nn.Module):
    def forward(self, x: Tensor, scale: float = SCALE) -> Tensor: ...
"""


def exported(folder: Path, text: str | None = None, source: str = REFERENCE) -> Kernel:
    """The toy, written into `folder`."""
    text = text or text_for()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.parent / "emitted.py"
    beside.write_text(text, encoding="utf-8")
    kernel = kernel_from(text, certificate_in(beside), folder, source, "Block")
    write(kernel, folder)
    return kernel


def test_the_source_and_its_build_hold_the_emitted_file_word_for_word(tmp_path: Path) -> None:
    kernel = exported(tmp_path / "Toy Block")
    assert kernel.name == "toy-block"
    for place in (BUILT, "torch-ext/toy_block"):
        assert (tmp_path / "Toy Block" / place / DROPIN).read_text() == text_for()
    build = tomllib.loads((tmp_path / "Toy Block" / "build.toml").read_text())
    assert build["general"]["name"] == "toy-block"


def test_each_file_of_the_build_has_its_digest_in_the_metadata(tmp_path: Path) -> None:
    exported(tmp_path / "toy")
    built = tmp_path / "toy" / BUILT
    digests = json.loads((built / "metadata.json").read_text())["digest"]["files"]
    found = {str(path.relative_to(built)) for path in built.rglob("*.py")}
    assert digests.keys() == found
    for name, digest in digests.items():
        content = hashlib.sha256((built / name).read_bytes()).digest()
        assert base64.b64decode(digest) == content


def test_the_card_holds_the_certificate_and_what_was_not_verified(tmp_path: Path) -> None:
    exported(tmp_path / "toy")
    card = (tmp_path / "toy" / "README.md").read_text()
    assert ast.get_docstring(ast.parse(text_for())) in card
    assert "Not verified:" in card


@pytest.mark.long
def test_a_file_that_asks_a_package_for_its_drop_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--runtime package"):
        exported(tmp_path / "toy", text_for() + "\nimport kernelagent_runtime\n")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        exported(tmp_path / "toy")


def test_the_layer_has_the_parameters_of_the_references_forward() -> None:
    source = "class Block:\n    def forward(self, x, /, *rest, scale=FAR, **more): ..."
    text = text_for()
    record = None
    kernel = kernel_from(text, record, Path("toy"), source, "Block")  # type: ignore[arg-type]
    shown = _layers_of(kernel)
    assert "lambda self, x, /, *rest, scale=None, **more: None" in shown


def _layers_of(kernel: Kernel) -> str:
    from dataclasses import replace

    from kernelagent.domain.certificate import Asked, certified
    from tests.dropin.emitted import estimated, text_for

    record = certified(estimated(), "run", "2026-01-01", "0", Asked())
    return files_of(replace(kernel, emitted=text_for(), record=record))[f"{BUILT}/layers.py"]


@pytest.mark.long
def test_kernelize_maps_the_layer_and_the_kernels_answer(tmp_path: Path) -> None:
    if importlib.util.find_spec("kernels") is None:
        pytest.skip("the package kernels is not installed")
    from kernels import (
        LocalLayerRepository,
        Mode,
        get_local_kernel,
        kernelize,
        replace_kernel_forward_from_hub,
        use_kernel_mapping,
    )

    exported(tmp_path / "toy")
    # Without a GPU no build fits, so the one there is is named.
    built = tmp_path / "toy" / BUILT
    kernel = get_local_kernel(built)
    replace_kernel_forward_from_hub(Block, "Block")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Block(), torch.nn.ReLU()).eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        expected = model(x)
        layer = LocalLayerRepository(built, layer_name="Block")
        with use_kernel_mapping({"Block": {"cpu": layer}}, inherit_mapping=False):
            model = kernelize(model, mode=Mode.INFERENCE, device="cpu")
        calls = kernel.dropin.CALLS
        before = calls[0]
        for _ in range(2):
            torch.testing.assert_close(model(x), expected)
        assert calls[0] == before + 2
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model(torch.randn(5, 8))
        assert calls[0] == before + 2
        assert any("outside what was verified (shape)" in str(item.message) for item in seen)
        model[1].eps = 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(x)
        assert calls[0] == before + 2


@pytest.mark.long
def test_the_exported_text_is_what_import_reads_back(tmp_path: Path) -> None:
    from kernelagent.loop.emitted.imported import source_in

    exported(tmp_path / "toy")
    source = source_in(tmp_path / "toy", None)
    assert source.strip().endswith(CANDIDATE.strip().splitlines()[-1].strip())
    assert "def optimized" not in source
    assert "CERTIFICATE" not in source
