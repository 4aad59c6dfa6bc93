from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.bench_start import compare_starts
from app.settings import Settings
from tests.support.logs import restored_logging
from tests.support.tiny_llama import write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_folder(folder, max_position_embeddings=2048)
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
    for name in ("engine", "ideas", "growth", "compare"):
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


def test_ideas_are_told_with_their_claims(model: Path, tmp_path: Path) -> None:
    small = (
        "--answers",
        "4",
        "--places",
        "2",
        "--history-tokens",
        "64",
        "--context-tokens",
        "512",
        "--mean-tokens",
        "160",
    )
    out = ("--json", str(tmp_path / "ideas.json"), "--plots", str(tmp_path))
    result = kvasir("ideas", "--model", str(model), "--threads", "1", "--repeats", "1", "--no-start", *small, *out)
    assert result.exit_code == 0, result.output
    for words in ("continuous batching", "KV reuse", "persona prefix", "paging", "| claim"):
        assert words in result.stdout
    assert len(json.loads((tmp_path / "ideas.json").read_text())["ideas"]) == 4
    ElementTree.parse(tmp_path / "ideas.svg")


@pytest.mark.slow
def test_the_first_start_makes_what_the_later_ones_find(model: Path, tmp_path: Path) -> None:
    measured: list[str] = []
    settings = Settings(data=tmp_path, model=str(model), threads=1)
    (tmp_path / "models").mkdir()
    found = compare_starts(settings, model, "reference", 1, measured.append)
    assert measured == ["first start", "restart"]
    assert len(found.without) == len(found.with_it) == 1
    assert found.claim is not None
    assert list((tmp_path / "models").iterdir()) == [], "the data folder is left as it was"


def test_growth_is_told_in_tables_and_plots(model: Path, tmp_path: Path) -> None:
    small = (
        "--histories",
        "64,128",
        "--sessions",
        "2,4",
        "--session-tokens",
        "64",
        "--streams",
        "1,2",
        "--repeats",
        "1",
    )
    out = ("--json", str(tmp_path / "growth.json"), "--plots", str(tmp_path))
    result = kvasir("growth", "--model", str(model), "--threads", "1", *small, *out)
    assert result.exit_code == 0, result.output
    for words in ("| history", "| streams", "| sessions"):
        assert words in result.stdout
    assert {"history", "streams", "sessions"} <= json.loads((tmp_path / "growth.json").read_text()).keys()
    for name in ("history", "streams", "inter-token", "sessions"):
        ElementTree.parse(tmp_path / f"{name}.svg")


def test_files_of_several_engines_are_set_side_by_side(tmp_path: Path) -> None:
    def write(name: str, peer: str, variant: str, rate: float) -> str:
        entry = {
            "peer": peer,
            "variant": variant,
            "versions": {"numpy": "2"},
            "ttft_s": [500 / rate],
            "decode_all": {"16": {"1": [rate], "8": [rate]}},
        }
        path = tmp_path / name
        path.write_text(json.dumps({"settings": {"prefill": 500}, "results": [entry]}))
        return str(path)

    ours = write("kvasir.json", "kvasir", "int4", 300.0)
    theirs = write("peers.json", "llama.cpp", "Q4_0", 200.0)
    result = kvasir("compare", theirs, ours)
    assert result.exit_code == 0, result.output
    assert "| kvasir int4 | 300 (0%) | 300 (0%) | 300 (0%) |" in result.stdout
    assert "| decode, 1 stream | 1.2 x llama.cpp Q4_0 | 300 | 200 | 1.50 | yes |" in result.stdout
    assert "| prefill | 2.5 x llama.cpp Q4_0 | 300 | 200 | 1.50 | **no** |" in result.stdout
    assert "| llama.cpp Q4_0 | numpy 2 |" in result.stdout
    (tmp_path / "other.json").write_text("{}")
    refused = kvasir("compare", str(tmp_path / "other.json"))
    assert refused.exit_code == 2
    assert "is no file of" in refused.output


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
