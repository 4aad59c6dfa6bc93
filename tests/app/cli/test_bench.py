from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from tests.support.logs import restored_logging
from tests.support.tiny_llama import write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_folder(folder)
    return folder


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVASIR_KV_MEMORY_MIB", "16")
    monkeypatch.setenv("KVASIR_KERNELS", "reference")
    with restored_logging():
        yield


def kvasir(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


def test_alone_it_says_what_each_measurement_is_and_how_long_it_takes() -> None:
    result = kvasir()
    assert result.exit_code == 0
    for name in ("engine",):
        assert f"\n  {name} " in result.output
    assert "minutes" in result.output


def test_the_engine_is_measured_into_a_table_a_file_and_a_plot(model: Path, tmp_path: Path) -> None:
    small = (
        "--batches",
        "1,2",
        "--contexts",
        "16",
        "--prefill",
        "32",
        "--steps",
        "4",
        "--repeats",
        "2",
        "--threads",
        "1",
    )
    path, plots = tmp_path / "results" / "kvasir.json", tmp_path / "plots"
    result = kvasir("engine", "--model", str(model), *small, "--json", str(path), "--plots", str(plots))
    assert result.exit_code == 0, result.output
    assert "| decode, prompts of 16 |" in result.stdout
    assert "reference kernels, 1 threads," in " ".join(result.stdout.split())
    assert result.stderr.count("\n") == 2 * 3
    whole = json.loads(path.read_text())
    assert whole["settings"]["batches"] == [1, 2]
    assert whole["results"][0]["peer"] == "kvasir"
    ElementTree.parse(plots / "engine.svg")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("engine", "--batches", "1,x"), "is no list of whole numbers"),
        (("engine", "--batches", "0"), "above 0"),
        (("engine", "--batches", "64"), "at most 32 sequences"),
        (("engine", "--model", "no/such/model"), "is no model"),
        (("engine", "--json", "."), "is a directory"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = kvasir(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
