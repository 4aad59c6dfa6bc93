"""`kvasir doctor --startup`: a start that is measured stage by stage, beside whatever runs already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.startup_report import Moments, report_of, show_report
from app.file_lock import file_lock
from tests.support.logs import restored_logging
from tests.support.tiny_llama import write_folder

STAGES = [
    "starting Python",
    "importing the server",
    "reading the settings",
    "opening the database",
    "looking at the model",
    "making the sign-in link",
    "building the application",
    "opening the application",
    "importing torch",
    "importing the engine",
    "testing the threads",
    "reading the model's files",
    "reading the tokenizer",
    "mapping the weights",
    "allocating the pages",
    "reading what is kept on disk",
    "warming up",
]
"""Of a start that is not the first one of its model."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVASIR_KV_MEMORY_MIB", "16")
    # So that nothing is compiled beside the start that is measured.
    monkeypatch.setenv("KVASIR_KERNELS", "reference")
    # One, because a busy machine would have the start warn that the second does not help.
    monkeypatch.setenv("KVASIR_THREADS", "1")
    with restored_logging():
        yield tmp_path


def kvasir(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_stages_add_up_to_ready_and_the_first_one_is_pythons_own() -> None:
    moments = Moments(
        [("starting Python", 10.1), ("importing the server", 10.1), ("importing torch", 10.5), ("warming up", 11.5)],
        answers=10.7,
        ready=12.0,
        first_words=12.3,
    )
    report = report_of(moments, began=10.0, ended=12.9)
    assert [(stage.name, round(stage.seconds, 6), round(stage.share, 6)) for stage in report.stages] == [
        ("starting Python", 0.1, 0.05),
        ("importing the server", 0.4, 0.2),
        ("importing torch", 1.0, 0.5),
        ("warming up", 0.5, 0.25),
    ]
    assert sum(stage.seconds for stage in report.stages) == pytest.approx(report.ready_s)
    assert (report.answers_s, report.ready_s) == (pytest.approx(0.7), pytest.approx(2.0))
    assert (report.ready_without_torch_s, report.first_words_s) == (pytest.approx(1.0), pytest.approx(2.3))
    assert report.measured_s == pytest.approx(2.9)


def test_the_table_has_a_line_for_each_stage_and_says_what_it_adds_up_to(capsys: pytest.CaptureFixture[str]) -> None:
    moments = Moments(
        [("starting Python", 0.0), ("converting the weights", 0.5)], answers=0.6, ready=2.0, first_words=2.5
    )
    show_report(report_of(moments, 0.0, 3.0), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "stage                                    seconds  share",
        "starting Python                             0.50    25%",
        "converting the weights                      1.50    75%",
        "",
        "The port answers after 0.60 s. The model is ready after 2.00 s, of which 2.00 s are not the import of torch.",
        "The first words of an answer come after 2.50 s.",
        "This start converted the weights; where it could keep them, the next one only maps them.",
    ]


def test_a_start_is_measured_beside_a_running_server_and_changes_nothing_of_its_own(folder: Path) -> None:
    write_folder(folder / "mine")
    (folder / ".env").write_text("KVASIR_MODEL=mine\nKVASIR_PORT=1\n")
    first = kvasir("doctor", "--startup", "--data", "data")
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    expected = [*STAGES[:13], "converting the weights", "keeping the weights for the next start", *STAGES[14:]]
    assert [line[:40].rstrip() for line in lines[1 : lines.index("")]] == expected
    assert "This start converted the weights" in first.stdout
    # No database, no journal and no KV of this start: only what every start of this model needs.
    assert [path.name for path in (folder / "data").iterdir()] == ["models"]

    database = folder / "data" / "kvasir.sqlite3"
    with file_lock(Path(f"{database}.server.lock"), wait=False):
        second = kvasir("doctor", "--startup", "--json", "--data", "data")
    assert second.exit_code == 0, second.output
    report = json.loads(second.stdout)
    assert [stage["name"] for stage in report["stages"]] == STAGES
    assert sum(stage["seconds"] for stage in report["stages"]) == pytest.approx(report["ready_s"])
    assert sum(stage["share"] for stage in report["stages"]) == pytest.approx(1)
    assert 0 < report["answers_s"] < report["ready_s"] < report["first_words_s"] < report["measured_s"]
    assert report["ready_without_torch_s"] < report["ready_s"]
    assert not database.exists()


def test_a_model_that_is_not_here_or_cannot_be_served_is_one_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On the standard error of the process that was started, which is ours."""
    result = kvasir("doctor", "--startup")
    assert (result.exit_code, result.stdout) == (2, "")
    assert capfd.readouterr().err.splitlines()[-1] == (
        "Error: auto is not here yet, so its start cannot be measured; `kvasir model pull` fetches it"
    )
    write_folder(folder / "mine")
    (folder / "mine" / "model.safetensors").write_bytes(b"no weights at all")
    (folder / ".env").write_text("KVASIR_MODEL=mine\n")
    capfd.readouterr()
    result = kvasir("doctor", "--startup")
    assert (result.exit_code, result.stdout) == (2, "")
    (sentence,) = capfd.readouterr().err.splitlines()
    assert sentence.startswith("Error: ")
    assert "model.safetensors is damaged or cut off" in sentence


def test_json_goes_with_the_table(folder: Path) -> None:
    result = kvasir("doctor", "--json")
    assert result.exit_code == 2
    assert "--json goes with --startup" in result.stderr
