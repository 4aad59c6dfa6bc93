"""Weights are converted once and mapped from then on: bit for bit the same, and never from a damaged or foreign file."""

from __future__ import annotations

import dataclasses
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.kv_cache import KVCache
from engine.model import kept_files, kept_weights, loader, tensor_file
from engine.model.kept_files import LOCK_FILE, SUFFIX
from engine.model.loader import LoadedModel, keep_weights, load_model
from kernels.dispatch import choose_kernels
from tests.support.decoding import greedy
from tests.support.kept_weights import assert_bit_equal, keeping, kept_file, tensors_in
from tests.support.tiny_families import FAMILIES, tiny_family
from tests.support.tiny_llama import tiny_llama, write_folder, write_gguf, write_tokenizer

ROOT = Path(__file__).parents[3]
PROMPT = list(range(40, 80))


@pytest.fixture(scope="module")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "model"
    write_folder(folder)
    return folder


@pytest.fixture
def folder(good_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good_folder, tmp_path / "model"))


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose weights were converted, in order."""
    found: list[Path] = []
    plan = loader.WeightPlan

    def counting(source: object, *arguments: object) -> object:
        found.append(Path(source.where))  # type: ignore[attr-defined]
        return plan(source, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(loader, "WeightPlan", counting)
    return found


def ids(loaded: LoadedModel) -> list[int]:
    cache = KVCache.for_spec(loaded.kv_spec, 8)
    return greedy(loaded.decoder, cache, [PROMPT], [range(8)], max_tokens=12)[0]


@pytest.mark.parametrize("weights", ["fp32", "bf16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_mapped_weights_are_bit_for_bit_the_converted_ones(tmp_path: Path, family: str, weights: str) -> None:
    model = tmp_path / "model"
    tiny_family(family, vocab_size=420).save_pretrained(model)
    write_tokenizer(model)
    converted = load_model(EngineConfig(model, "tiny", weights=weights))
    kept = tmp_path / "kept"
    for loaded in (
        load_model(keeping(model, kept, weights=weights)),
        load_model(keeping(model, kept, weights=weights)),
    ):
        assert_bit_equal(tensors_in(loaded), tensors_in(converted))
        assert loaded.info == converted.info
        assert (loaded.decoder.weights.head is loaded.decoder.weights.embedding) == (
            converted.decoder.weights.head is converted.decoder.weights.embedding
        )
        for rotation, expected in zip(
            loaded.decoder.weights.rotations, converted.decoder.weights.rotations, strict=True
        ):
            assert (rotation.magnitude, rotation.dynamic) == (expected.magnitude, expected.dynamic)


def test_the_second_start_converts_nothing_and_answers_alike(
    folder: Path, tmp_path: Path, conversions: list[Path]
) -> None:
    words: list[str] = []
    first = load_model(keeping(folder, tmp_path / "kept"))
    second = load_model(keeping(folder, tmp_path / "kept"), on_progress=words.append)
    assert conversions == [folder]
    assert words == ["reading the model's files", "reading the tokenizer", "mapping the weights"]
    assert ids(first) == ids(second) == ids(load_model(EngineConfig(folder, "tiny")))


def test_answering_changes_no_byte_of_the_file(folder: Path, tmp_path: Path) -> None:
    loaded = load_model(keeping(folder, tmp_path / "kept"))
    path = kept_file(tmp_path / "kept")
    before = path.read_bytes()
    ids(loaded)
    assert path.read_bytes() == before


def test_a_gguf_with_rotary_factors_is_mapped_with_them(tmp_path: Path, conversions: list[Path]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_gguf(folder / "m.gguf", tiny_llama(vocab_size=420), extra={"rope_freqs.weight": torch.linspace(1, 3, 6)})
    write_tokenizer(folder)
    converted = load_model(EngineConfig(folder, "tiny"))
    keep_weights(keeping(folder, tmp_path / "kept"))
    mapped = load_model(keeping(folder, tmp_path / "kept"))
    assert len(conversions) == 2
    assert_bit_equal(tensors_in(mapped), tensors_in(converted))


def flip_in_data(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))


def flip_in_table(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    path.write_bytes(content)


def zero_a_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit in the data": flip_in_data,
    "a bit in the table": flip_in_table,
    "a page of zeros": zero_a_page,
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
    "the last byte missing": lambda path: os.truncate(path, path.stat().st_size - 1),
    "the first bytes missing": lambda path: path.write_bytes(path.read_bytes()[64:]),
    "empty": lambda path: os.truncate(path, 0),
    "a letter": lambda path: path.write_text("Dear aunt, these are no weights." * 9),
    "longer than it was": lambda path: path.open("ab").write(b"more"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.filterwarnings("ignore:unclosed file")
def test_a_damaged_file_is_made_again_and_never_served(
    folder: Path, tmp_path: Path, conversions: list[Path], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "kept"
    expected = tensors_in(load_model(EngineConfig(folder, "tiny")))
    load_model(keeping(folder, kept))
    DAMAGE[kind](kept_file(kept))
    conversions.clear()
    assert_bit_equal(tensors_in(load_model(keeping(folder, kept))), expected)
    assert conversions == [folder]
    assert "are not served: " in caplog.text
    caplog.clear()
    assert_bit_equal(tensors_in(load_model(keeping(folder, kept))), expected)
    assert conversions == [folder]
    assert "are not served" not in caplog.text


def test_what_the_disk_cannot_read_is_damage_and_no_end_of_the_process(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load_model(keeping(folder, tmp_path / "kept"))

    def fail(*_arguments: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(tensor_file.os, "preadv", fail)
    assert ids(load_model(keeping(folder, tmp_path / "kept")))
    assert "cannot be read at byte 0: Input/output error" in caplog.text


def test_a_foreign_file_under_the_right_name_is_not_served(folder: Path, tmp_path: Path) -> None:
    """vllm-project/vllm#30931: new weights under an old name."""
    kept = tmp_path / "kept"
    load_model(keeping(folder, kept))
    path = kept_file(kept)
    other, others = tmp_path / "other", tmp_path / "others"
    write_folder(other, seed=1)
    load_model(keeping(other, others))
    shutil.copyfile(kept_file(others), path)
    assert_bit_equal(
        tensors_in(load_model(keeping(folder, kept))), tensors_in(load_model(EngineConfig(folder, "tiny")))
    )


def test_changed_weights_precision_code_or_kernels_make_another_file_and_the_old_one_goes(
    folder: Path, tmp_path: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    names = []

    def load(**changes: str) -> None:
        load_model(keeping(folder, kept, **changes))
        names.append(kept_file(kept).name)

    load()
    load(weights="bf16")
    write_folder(folder, seed=2)
    load()
    monkeypatch.setattr(kept_weights, "_conversion", lambda: "the fault in it is mended")
    load()
    load()
    faster = dataclasses.replace(choose_kernels(), name="faster")
    monkeypatch.setattr(loader, "choose_kernels", lambda *_settings: faster)
    load()
    assert len(set(names)) == 5
    assert len(conversions) == 5
    assert sorted(path.name for path in kept.iterdir()) == sorted([LOCK_FILE, names[-1]])


def test_without_room_on_the_disk_the_weights_are_served_from_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=200 << 20)
    monkeypatch.setattr(kept_weights.shutil, "disk_usage", lambda _folder: usage)
    loaded = load_model(keeping(folder, tmp_path / "kept"))
    assert ids(loaded)
    assert list((tmp_path / "kept").glob(f"*{SUFFIX}")) == []
    assert "are not kept in" in caplog.text
    assert "the disk has 209 MB free, and 268 are wanted" in caplog.text


def test_a_disk_that_gets_full_while_the_file_is_written_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_file.os, "fsync", fail)
    assert ids(load_model(keeping(folder, tmp_path / "kept")))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [LOCK_FILE]
    assert "No space left on device" in caplog.text


def test_a_folder_that_cannot_be_made_is_no_reason_not_to_serve(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert ids(load_model(keeping(folder, tmp_path / "file" / "kept")))
    assert "Not a directory" in caplog.text


def test_while_another_process_writes_the_file_this_one_serves_its_own(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kept = tmp_path / "kept"
    kept.mkdir()
    with (kept / LOCK_FILE).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert ids(load_model(keeping(folder, kept)))
        assert [path.name for path in kept.iterdir()] == [LOCK_FILE]
    assert "another process keeps the weights" in caplog.text
    load_model(keeping(folder, kept))
    assert kept_file(kept)


def test_replacing_the_file_does_not_touch_who_has_it_mapped(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    load_model(keeping(folder, kept))
    running = load_model(keeping(folder, kept))
    before = ids(running)
    load_model(keeping(folder, kept, weights="bf16"))
    assert ids(running) == before


def test_the_whole_file_is_asked_for_while_the_process_is_busy_with_other_things(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_weights(keeping(folder, tmp_path / "kept"))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(kept_files, "READ_AHEAD_BYTES", 10_000)
    monkeypatch.setattr(kept_files.os, "posix_fadvise", lambda _file, start, size, _advice: asked.append((start, size)))
    kept_files.begin_reading(tmp_path / "kept").join(10)
    size = kept_file(tmp_path / "kept").stat().st_size
    assert asked == [(start, 10_000) for start in range(0, size, 10_000)]
    kept_files.begin_reading(tmp_path / "nothing").join(10)


@pytest.mark.model
def test_the_bundled_model_is_mapped_to_the_same_bits(bundled_folder: Path, tmp_path: Path) -> None:
    """And quickly, whatever else the machine does: the check reads every byte."""
    kept = tmp_path / "kept"
    converted = load_model(EngineConfig(bundled_folder, "x"))
    keep_weights(keeping(bundled_folder, kept))
    began = time.thread_time()
    mapped = load_model(keeping(bundled_folder, kept))
    assert time.thread_time() - began < 1
    assert_bit_equal(tensors_in(mapped), tensors_in(converted))
