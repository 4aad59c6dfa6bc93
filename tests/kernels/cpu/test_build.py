"""The kernels are compiled once, never in anybody's way, and a build that fails leaves nothing behind and says why."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kernels.cpu import build as builder
from kernels.cpu.build import BuildFailed, build, build_in_background, library_path
from kernels.cpu.variant import AVX2, AVX512

COMPILER = """#!/bin/sh
# Writes an empty file where the last -o says.
echo "$@" >> "{log}"
while [ $# -gt 1 ]; do [ "$1" = -o ] && : > "$2"; shift; done
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that compiles nothing; each line of the log is one call."""
    compiler = tmp_path / "fake-c++"
    compiler.write_text(COMPILER.format(log=tmp_path / "log"))
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return tmp_path / "log"


def test_every_source_is_compiled_once_with_progress(tmp_path: Path, log: Path) -> None:
    folder, words = tmp_path / "kernels", list[str]()
    path = build(folder, AVX2, on_progress=words.append)
    sources = len(list(builder.SOURCES_FOLDER.glob("*.cpp")))
    assert words == [f"compiling the CPU kernels, {number} of {sources} done" for number in range(1, sources + 1)]
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    calls = log.read_text().splitlines()
    assert len(calls) == sources + 1
    assert all("-mavx2" in call and "-mavx512f" not in call for call in calls[:-1])
    assert build(folder, AVX2) == path
    assert log.read_text().splitlines() == calls


def test_the_name_changes_with_the_variant_torch_and_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {library_path(tmp_path, AVX2).name, library_path(tmp_path, AVX512).name}
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.99.0")
    names.add(library_path(tmp_path, AVX2).name)
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "rows.cpp").write_text("int one;")
    monkeypatch.setattr(builder, "SOURCES_FOLDER", sources)
    names.add(library_path(tmp_path, AVX2).name)
    (sources / "rows.cpp").write_text("int two;")
    names.add(library_path(tmp_path, AVX2).name)
    assert len(names) == 5


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, folder = tmp_path / "broken", tmp_path / "kernels"
    compiler.write_text("#!/bin/sh\necho 'note: so' >&2\necho 'vectors.h:1: error: no such instruction' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(BuildFailed, match=r"the compiler failed: vectors\.h:1: error: no such instruction"):
        build(folder, AVX2)
    assert list(folder.iterdir()) == []


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"there is no C\+\+ compiler \(icpx\)"):
        build(tmp_path, AVX2, environment={"PATH": str(tmp_path), "CXX": "icpx"})


def test_a_build_in_the_background_tells_how_it_ended(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kernels.cpu.build")
    build_in_background(tmp_path / "kernels", AVX2).join()
    assert library_path(tmp_path / "kernels", AVX2).is_file()
    monkeypatch.setenv("CXX", str(tmp_path / "missing"))
    build_in_background(tmp_path / "others", AVX2).join()
    assert [record.message.partition(" (")[0] for record in caplog.records] == [
        "the CPU kernels are built and will be used from the next start on",
        "the CPU kernels could not be built: there is no C++ compiler",
    ]
