"""A file of tensors gives back what was put in, or says that it is damaged, whatever happened to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.tensor_file import PIECE_BYTES, MappedTensors, TensorFileDamaged, read_table, write_tensors

TENSORS = {
    "matrix": torch.linspace(-3, 3, 5 * 7).view(5, 7),
    "odd": torch.arange(13, dtype=torch.int8),
    "narrow": torch.linspace(-1, 1, 33).to(torch.bfloat16),
    "empty": torch.empty(0, 4),
}
LARGE = {"large": torch.arange(PIECE_BYTES // 4 * 2 + 5, dtype=torch.float32)}


def read(path: Path, shares: int = 1) -> dict[str, torch.Tensor]:
    with MappedTensors(path) as file:
        for share in range(shares):
            file.check(share, shares)
        return file.tensors()


@pytest.mark.parametrize("tensors", [TENSORS, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("shares", [1, 2, 5])
def test_tensors_come_back_as_they_were(tmp_path: Path, tensors: dict[str, torch.Tensor], shares: int) -> None:
    path = tmp_path / "x"
    write_tensors(path, "key", {"note": 1}, tensors)
    found = read(path, shares)
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
        assert found[name].data_ptr() % 64 == 0
    table = read_table(path)
    assert (table.key, table.notes) == ("key", {"note": 1})


def test_every_piece_of_a_tensor_is_somebodys_share(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_tensors(path, "key", {}, LARGE)
    for place in (0, PIECE_BYTES, 2 * PIECE_BYTES + 16):
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        damaged = tmp_path / "damaged"
        damaged.write_bytes(content)
        with pytest.raises(TensorFileDamaged, match="large does not have its checksum"):
            read(damaged, 2)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("file") / "x"
    write_tensors(path, "key", {"note": 1}, TENSORS)
    return path.read_bytes()


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_noticed_or_between_the_tensors(
    content: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("changed") / "x"
    path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
    try:
        found = read(path)
    except TensorFileDamaged:
        return
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


@given(length=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_is_damaged(content: bytes, tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "x"
    path.write_bytes(content[: length % len(content)])
    with pytest.raises(TensorFileDamaged):
        read(path)


def test_a_type_that_no_kernel_reads_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="got complex64"):
        write_tensors(tmp_path / "x", "key", {}, {"odd": torch.zeros(1, dtype=torch.complex64)})
