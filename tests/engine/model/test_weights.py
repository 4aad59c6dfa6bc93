"""A folder whose parts contradict each other, or whose weights are no numbers, is refused before anything is served."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gguf import GGUFWriter
from safetensors.torch import load_file, save_file

from engine.config import EngineConfig
from engine.errors import ModelError
from engine.model.loader import load_model
from tests.support.tiny_llama import tiny_llama, write_folder, write_gguf, write_tokenizer


@pytest.fixture(scope="module")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "model"
    write_folder(folder)
    return folder


@pytest.fixture
def folder(good_folder: Path, tmp_path: Path) -> Path:
    """A good folder, to be spoilt."""
    return Path(shutil.copytree(good_folder, tmp_path / "model"))


def load(folder: Path, weights: str = "fp32") -> None:
    load_model(EngineConfig(folder, "tiny", weights=weights))


@pytest.mark.parametrize("weights", ["fp32", "bf16"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_number_is_told_with_its_tensor(folder: Path, weights: str, value: float) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][5, 7] = value
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.down_proj\.weight has numbers that are not finite"):
        load(folder, weights)


def test_a_weight_of_a_gguf_that_is_no_number_is_told_too(tmp_path: Path) -> None:
    model = tiny_llama(vocab_size=420)
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    write_gguf(tmp_path / "model.gguf", model)
    write_tokenizer(tmp_path)
    with pytest.raises(ModelError, match=r"model\.norm\.weight has numbers that are not finite"):
        load(tmp_path)


@pytest.mark.parametrize("factor", [0.0, float("nan")])
def test_rotary_factors_that_give_no_numbers_are_refused(tmp_path: Path, factor: float) -> None:
    model = tiny_llama(vocab_size=420)
    factors = torch.ones(6)
    factors[2] = factor
    write_gguf(tmp_path / "model.gguf", model, extra={"rope_freqs.weight": factors})
    write_tokenizer(tmp_path)
    with pytest.raises(ModelError, match="rotary factors give frequencies that are not finite"):
        load(tmp_path)


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "head_dim", "intermediate_size"])
@pytest.mark.parametrize("size", [2**40, 10**30])
def test_a_size_that_no_memory_holds_is_a_wrong_shape_and_nothing_is_asked_for(
    folder: Path, key: str, size: int
) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: size}))
    with pytest.raises(ModelError, match=r"where \[.*\] was expected"):
        load(folder)


def test_a_tokenizer_with_more_ids_than_there_are_embeddings_is_refused(folder: Path) -> None:
    """Such an id in a prompt would end the step, and every answer in it."""
    write_folder(folder, vocab_size=400)
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text())
    more = {**document["added_tokens"][-1], "id": 400, "content": "<more>"}
    path.write_text(json.dumps({**document, "added_tokens": [*document["added_tokens"], more]}))
    with pytest.raises(ModelError, match="a tokenizer with 401 ids and only 400 embeddings"):
        load(folder)


@pytest.mark.parametrize(
    ("rope", "sentence"),
    [
        ({"factor": 0}, "factor = 0, where a positive number was expected"),
        ({"factor": float("inf")}, "factor = inf, where a positive number was expected"),
        ({"low_freq_factor": 4.0}, "give no frequencies"),
        ({"high_freq_factor": float("nan")}, "high_freq_factor = nan, where a positive number was expected"),
        ({"original_max_position_embeddings": 0}, "embeddings = 0, where a positive whole number was expected"),
        ({"original_max_position_embeddings": float("inf")}, "= inf, where a positive whole number was expected"),
        ({"rope_type": "yarn", "rope_theta": 1.0}, "type yarn that give no frequencies"),
        ({"rope_type": "dynamic", "factor": 0.5}, "type dynamic that give no frequencies"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5, which is not supported"),
        ({"rope_theta": float("inf")}, "rope_theta = inf, where a positive number was expected"),
    ],
)
def test_rotary_positions_that_cannot_be_computed_are_refused(
    folder: Path, rope: dict[str, float], sentence: str
) -> None:
    good = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    path = folder / "config.json"
    changed = {**good, "original_max_position_embeddings": 64, **rope}
    path.write_text(json.dumps({**json.loads(path.read_text()), "rope_parameters": changed}))
    with pytest.raises(ModelError, match=sentence):
        load(folder)


@pytest.mark.parametrize(
    "add",
    [
        lambda writer: writer.add_float32("llama.rope.scaling.factor", 4.0),
        lambda writer: writer.add_float32("llama.rope.scale_linear", 4.0),
    ],
)
def test_positions_of_a_gguf_that_are_scaled_without_a_type_are_refused(
    tmp_path: Path, add: Callable[[GGUFWriter], None]
) -> None:
    """Without a type a factor scales linearly, and an answer without it would be almost right."""
    write_gguf(tmp_path / "model.gguf", tiny_llama(vocab_size=420), also=add)
    write_tokenizer(tmp_path)
    with pytest.raises(ModelError, match=r"rope\.scal.* = 4\.0, which is not supported"):
        load(tmp_path)
