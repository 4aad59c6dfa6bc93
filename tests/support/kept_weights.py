"""A model whose converted weights are kept, and what its tests look at."""

from __future__ import annotations

from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.model.decoder import Decoder
from engine.model.kept_files import SUFFIX
from engine.model.kept_weights import tensors_of
from engine.model.loader import LoadedModel


def keeping(folder: Path, kept: Path, **changes: str) -> EngineConfig:
    return EngineConfig(folder, "tiny", kept_weights_folder=kept, **changes)  # type: ignore[arg-type]


def kept_file(kept: Path) -> Path:
    (path,) = (path for path in kept.iterdir() if path.suffix == SUFFIX)
    return path


def tensors_in(loaded: LoadedModel) -> dict[str, torch.Tensor]:
    assert isinstance(loaded.decoder, Decoder)
    return tensors_of(loaded.decoder.weights)


def assert_bit_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert (tensor.dtype, tensor.shape) == (other[name].dtype, other[name].shape), name
        assert torch.equal(tensor.view(-1).view(torch.uint8), other[name].reshape(-1).view(torch.uint8)), name
