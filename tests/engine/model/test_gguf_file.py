"""A GGUF file is read whole or refused with a sentence; no damage gets further than the header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.model.gguf_file import GgufFile, SkippedArray
from tests.support.tiny_llama import tiny_llama, write_gguf


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, tiny_llama(num_hidden_layers=1))
    return path.read_bytes()


def test_metadata_and_tensors_are_those_the_gguf_package_reads(tmp_path: Path) -> None:
    path = tmp_path / "all.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_string("a.string", "häß 😀")
    writer.add_bool("a.bool", True)
    writer.add_int64("a.negative", -5)
    writer.add_uint64("a.large", 2**63)
    writer.add_float32("a.float", 0.5)
    writer.add_array("a.strings", ["one", "two", "three"])
    writer.add_array("a.numbers", [1, 2, 3, 4])
    random = np.random.default_rng(0)
    writer.add_tensor("wide", random.standard_normal((3, 64), dtype=np.float32))
    writer.add_tensor("half", random.standard_normal((2, 3, 32), dtype=np.float32).astype(np.float16))
    writer.add_tensor("blocks", random.integers(0, 256, (4, 34), dtype=np.uint8), raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = GgufFile(path)

    assert file.metadata["a.string"] == "häß 😀"
    assert file.metadata["a.bool"] is True
    assert file.metadata["a.negative"] == -5
    assert file.metadata["a.large"] == 2**63
    assert file.metadata["a.float"] == 0.5
    assert file.metadata["a.strings"] == SkippedArray(3)
    assert len(file.metadata["a.numbers"]) == 4
    for tensor in GGUFReader(path).tensors:
        assert file.tensors[tensor.name].shape == tuple(int(size) for size in reversed(tensor.shape))
    assert file.read("half").shape == (2, 3, 32)
    assert file.read("blocks").shape == (4, 32)
    assert file.read("wide").dtype == torch.float32


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_cut_anywhere_is_refused(
    whole: bytes, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "cut.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelError, match=r"damaged|cut off|not a GGUF|cannot be read"):
        GgufFile(path)


@given(place=st.integers(0, 1500), value=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_in_the_header_is_refused_or_read_but_never_crashes(
    whole: bytes, place: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("changed") / "changed.gguf"
    path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
    try:
        file = GgufFile(path)
    except ModelError:
        return
    for name in file.tensors:
        file.read(name)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04" + bytes(100), "is not a GGUF file"),
        (b"GGUF" + (1).to_bytes(4, "little") + bytes(16), "GGUF version 1, and readable are 2 and 3"),
        (b"GGUF" + (3).to_bytes(4, "big") + bytes(16), "GGUF version"),
        (b"GGUF" + (3).to_bytes(4, "little") + (2**60).to_bytes(8, "little") * 2, "damaged or cut off"),
    ],
)
def test_what_is_no_gguf_is_told_so(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=sentence):
        GgufFile(path)


def test_an_unknown_quantisation_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("blk.0.attn_q.weight", np.zeros((4, 66), np.uint8), raw_dtype=GGMLQuantizationType.IQ2_XXS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"blk\.0\.attn_q\.weight in the quantisation type IQ2_XXS, and supported are"):
        GgufFile(path)


def test_one_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match="one part of a split GGUF"):
        GgufFile(path)
