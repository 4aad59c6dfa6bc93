"""The precision that is asked for is the one that computes, or the reason why it cannot be had."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.kv_cache import KVCache
from engine.model.config_shape import shape_of_config
from engine.model.gguf_file import GgufFile
from engine.model.gguf_shape import shape_of_gguf
from engine.model.gguf_source import GgufSource
from engine.model.json_file import read_json_object
from engine.model.loader import LoadedModel, keep_weights, load_model
from engine.model.precision import choose_precision, measured_speedup
from engine.model.quantised_weights import PackedMatrices
from kernels.cpu.build import BuildFailed, library_path
from kernels.cpu.probe import speedup_over_float32
from kernels.cpu.variant import Variant, cpu_flags, variant_for
from kernels.dispatch import choose_kernels
from kernels.packed_matrix import weights_of
from tests.support.cpu_kernels import KERNELS_FOLDER, kernels_of
from tests.support.decoding import Stream, step
from tests.support.tiny_families import FAMILIES, tiny_family
from tests.support.tiny_llama import write_folder, write_gguf, write_tokenizer

TEXT = [(7 * place * place + 3 * place) % 400 for place in range(60)]
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
    "vocab_size": 420,
    "initializer_range": 0.08,
}

pytestmark = pytest.mark.skipif(variant_for(cpu_flags()) is None, reason="this CPU runs no compiled kernels")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads fill registers."""
    variant = variant_for(cpu_flags())
    assert variant is not None
    kernels_of(variant)
    path = tmp_path_factory.mktemp("model")
    write_folder(path, **SIZES)
    return path


def load(folder: Path, **changes: Any) -> LoadedModel:
    return load_model(EngineConfig(folder, "tiny", **{"kernels_folder": KERNELS_FOLDER, **changes}))


def logits(loaded: LoadedModel) -> torch.Tensor:
    cache = KVCache.for_spec(loaded.kv_spec, 20)
    return step(loaded.decoder, cache, [(Stream(list(TEXT), range(20)), len(TEXT))])[0]


def test_each_precision_is_told_and_near_the_others(folder: Path) -> None:
    wide = logits(load(folder, weights="fp32"))
    seen = set()
    for weights, name, is_compiled, most_error in (
        ("auto", "int8", True, 0.06),
        ("int8", "int8", True, 0.06),
        ("int4", "int4", True, 0.5),
        ("bf16", "bf16", False, 0.06),
    ):
        loaded = load(folder, weights=weights)
        assert loaded.info.weights == name
        assert loaded.info.kernels.startswith("cpu-" if is_compiled else "reference")
        assert loaded.kv_spec.dtype == (torch.int8 if is_compiled else torch.bfloat16)
        assert (logits(loaded) - wide).pow(2).mean().sqrt() < most_error * wide.std(), weights
        seen.add(loaded.info.fingerprint)
    assert len(seen) == 4, "no page of one precision is taken for another's"


def test_what_cannot_be_had_is_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="weights in int8 need the CPU kernels, which cannot be used: plain torch"):
        load(folder, weights="int8", kernels="reference")
    with pytest.raises(ModelError, match="the CPU kernels cannot be used: plain torch, because weights in fp32 are"):
        load(folder, weights="fp32", kernels="cpu")
    narrow = tmp_path / "narrow"
    write_folder(narrow)
    assert (load(narrow).info.weights, load(narrow).info.kernels) == ("fp32", "reference")
    with pytest.raises(ModelError, match="its heads of 12 numbers are not a multiple of 16"):
        load(narrow, weights="int4")


def test_keys_and_values_have_a_precision_of_their_own_where_kernels_are_compiled(folder: Path) -> None:
    seen = {}
    for kv_dtype, dtype in (("auto", torch.int8), ("int8", torch.int8), ("bf16", torch.bfloat16)):
        loaded = load(folder, weights="int8", kv_dtype=kv_dtype)
        assert loaded.kv_spec.dtype == dtype
        seen.setdefault(dtype, set()).add(loaded.info.fingerprint)
    narrow, wide = seen[torch.int8], seen[torch.bfloat16]
    assert len(narrow) == len(wide) == 1
    assert narrow != wide, "no page of one precision is taken for another's"
    assert load(folder, weights="bf16", kv_dtype="bf16").kv_spec.dtype == torch.bfloat16
    with pytest.raises(ModelError, match="keys and values can be auto, bf16, int8, and not 'fp8'"):
        load(folder, kv_dtype="fp8")
    for weights in ("fp32", "bf16"):
        with pytest.raises(
            ModelError, match=f"keys and values in int8 beside weights in {weights} need the CPU kernels"
        ):
            load(folder, weights=weights, kv_dtype="int8")
    with pytest.raises(
        ModelError, match=r"in bf16 beside weights in fp32 need the CPU kernels, .*as the settings ask for"
    ):
        load(folder, kv_dtype="bf16", kernels="reference")


def test_auto_never_takes_kernels_that_are_slower_and_a_fixed_setting_does(folder: Path) -> None:
    """pytorch/pytorch#180447."""
    kernels, shape = (
        choose_kernels("auto", KERNELS_FOLDER),
        shape_of_config(read_json_object(folder / "config.json"), ""),
    )
    slower = choose_precision("auto", shape, kernels, lambda _kernels: 0.5)
    assert (slower.content_name, slower.kernels.name, slower.kernels.cpu) == ("fp32", "reference", None)
    assert "slower here (0.50 times as fast as float32)" in slower.kernels.reason
    faster = choose_precision("auto", shape, kernels, lambda _kernels: 4.0)
    assert faster.kernels.cpu is not None
    assert "4.0 times as fast as float32" in faster.kernels.reason
    assert choose_precision("int8", shape, kernels, lambda _kernels: 0.5).kernels.cpu is not None


def test_the_kernels_are_measured_against_float32(folder: Path) -> None:
    kernels = choose_kernels("auto", KERNELS_FOLDER).cpu
    assert kernels is not None
    assert measured_speedup(kernels) > 0
    ticks = itertools.count()
    assert speedup_over_float32(kernels, lambda: float(next(ticks))) == 1.0


def test_without_built_kernels_auto_serves_in_float32_and_builds_them_meanwhile(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr("engine.model.loader.build_in_background", lambda *arguments: begun.append(arguments))
    kept = tmp_path / "kept"
    loaded = load(folder, kernels_folder=tmp_path, kept_weights_folder=kept)
    assert (loaded.info.weights, loaded.info.kernels) == ("fp32", "reference")
    assert begun == [(tmp_path, variant_for(cpu_flags()))]
    assert not kept.exists(), "the next start has no use for weights in float32"
    load(folder, weights="fp32", kernels_folder=tmp_path, kept_weights_folder=kept)
    assert len(begun) == 1, "float32 has no use for the kernels"
    assert kept.exists()


def test_kernels_that_are_asked_for_are_waited_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_like_before(target: Path, variant: Variant, *, on_progress: Callable[[str], None]) -> None:
        on_progress("compiling")
        target.mkdir()
        shutil.copy(library_path(KERNELS_FOLDER, variant), library_path(target, variant))

    monkeypatch.setattr("engine.model.loader.build", build_like_before)
    for index, changes in enumerate(({"weights": "int8"}, {"kernels": "cpu"})):
        words: list[str] = []
        config = EngineConfig(folder, "tiny", kernels_folder=tmp_path / str(index), **changes)
        assert load_model(config, on_progress=words.append).info.weights == "int8"
        assert "compiling" in words


def test_a_model_that_is_fetched_has_its_kernels_built_and_a_build_that_fails_keeps_the_weights_instead(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[str] = []
    kept = tmp_path / "kept"
    config = EngineConfig(folder, "tiny", kernels_folder=tmp_path / "kernels", kept_weights_folder=kept)

    def fail(*arguments: object, on_progress: Callable[[str], None]) -> None:
        on_progress("compiling")
        raise BuildFailed("no")

    monkeypatch.setattr("engine.model.loader.build", fail)
    keep_weights(config, on_progress=words.append)
    assert words[0] == "compiling"
    assert not kept.exists(), "a start may still build them"
    monkeypatch.setattr("kernels.dispatch.compiler", lambda: None)
    keep_weights(config)
    assert len(list(kept.glob("*"))) > 0
    keep_weights(dataclasses.replace(config, kernels_folder=KERNELS_FOLDER, kept_weights_folder=tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
@pytest.mark.parametrize(("kind", "bits"), [(Kind.Q4_0, 4), (Kind.Q4_1, 4), (Kind.Q8_0, 8), (Kind.Q5_0, 8)])
def test_blocks_of_a_gguf_are_computed_with_as_they_are(family: str, kind: Kind, bits: int, tmp_path: Path) -> None:
    """Nothing is rounded twice, and rows of queries and keys are where they belong (ggml-org/llama.cpp#3364)."""
    path = tmp_path / "model.gguf"
    model = tiny_family(family, **SIZES)
    write_gguf(path, model, kinds=lambda name: Kind.Q8_0 if name == "token_embd.weight" else kind)
    write_tokenizer(tmp_path)
    file = GgufFile(path)
    source = GgufSource(file, shape_of_gguf(file.metadata, frozenset(file.tensors), str(path)))
    matrices = PackedMatrices(source, None)
    names = ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"]
    packed, read = matrices.make(names, [64, 32], 64, apart=False)
    read()
    expected = torch.cat([source.read(name) for name in names])
    if kind is Kind.Q5_0:
        torch.testing.assert_close(weights_of(packed), expected, atol=5e-3, rtol=0.0)
    else:
        torch.testing.assert_close(weights_of(packed), expected, atol=1e-7, rtol=1e-6)
    assert packed.bits == bits
    loaded = load(tmp_path)
    assert loaded.info.weights == f"int{bits}"
    wide = logits(load(tmp_path, weights="fp32"))
    assert (logits(loaded) - wide).pow(2).mean().sqrt() < 0.06 * wide.std()


def test_parts_of_one_matrix_with_different_bits_get_eight(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    kinds = {"attn_v.weight": Kind.Q8_0, "token_embd.weight": Kind.Q8_0}
    write_gguf(
        path,
        tiny_family("Llama", **SIZES),
        kinds=lambda name: next((kind for part, kind in kinds.items() if name.endswith(part)), Kind.Q4_1),
    )
    write_tokenizer(tmp_path)
    loaded = load(tmp_path)
    assert loaded.info.weights == "int4"
    layer = loaded.decoder.weights.layers[0]  # type: ignore[attr-defined]
    assert (layer.qkv.bits, layer.attention_output.bits, layer.gate_up.bits) == (8, 4, 4)


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_number_is_told_with_its_tensor(
    folder: Path, tmp_path: Path, weights: str, value: float
) -> None:
    from safetensors.torch import load_file, save_file

    spoilt = Path(shutil.copytree(folder, tmp_path / "model"))
    tensors = load_file(spoilt / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][5, 7] = value
    save_file(tensors, spoilt / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.down_proj\.weight has numbers that are not finite"):
        load(spoilt, weights=weights)


def test_every_family_loads_from_its_folder(tmp_path: Path) -> None:
    for index, name in enumerate(FAMILIES):
        path = tmp_path / str(index)
        tiny_family(name, **{**SIZES, "head_dim": 16}).save_pretrained(path)
        write_tokenizer(path)
        assert load(path).info.weights == "int8", name
