"""`kvasir persona`: straight in the database, and what a person does wrong is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.cli.test_commands import folder, kvasir, refused

__all__ = ["folder"]


def test_a_persona_is_made_changed_listed_and_deleted(folder: Path) -> None:
    (folder / "prompt.txt").write_text("You answer in one sentence,\nand never in two.\n")
    made = kvasir("persona", "set", "terse", "--prompt-file", "prompt.txt", "--params", '{"temperature": 0}')
    assert made.output == "The persona 'terse' begins with 45 characters now.\n"
    long = kvasir("persona", "set", "long", "--prompt-file", "-", stdin="word " * 40)
    assert long.exit_code == 0
    lines = kvasir("persona", "list").output.splitlines()
    assert [line.split()[0] for line in lines] == ["long", "terse"]
    assert lines[0].endswith("word word…")
    assert lines[1].endswith("You answer in one sentence, and never in two.")
    assert kvasir("persona", "set", "terse", "--prompt-file", "-", stdin="Be kind.\n").exit_code == 0
    assert "Be kind." in kvasir("persona", "list").output
    assert kvasir("persona", "delete", "terse").output == "Deleted the persona 'terse'.\n"
    assert "terse" not in kvasir("persona", "list").output
    assert refused("persona", "delete", "terse") == "Error: there is no such persona"


def test_what_cannot_be_is_one_sentence(folder: Path) -> None:
    assert "cannot be read: No such file" in refused("persona", "set", "terse", "--prompt-file", "nowhere")
    (folder / "latin").write_bytes(b"Gr\xfc\xdfe")
    assert "is not UTF-8 at byte 2" in refused("persona", "set", "terse", "--prompt-file", "latin")
    assert "Error: the persona 'Terse'" in refused("persona", "set", "Terse", "--prompt-file", "-", stdin="x")
    assert "system_prompt" in refused("persona", "set", "terse", "--prompt-file", "-", stdin="")
    assert "at least one character" in refused("persona", "set", "terse", "--prompt-file", "-", stdin="  ")


@pytest.mark.parametrize(
    "params", ["{", '{"temperature": 9}', '{"voice": "low"}', '{"min_tokens": 2, "max_tokens": 1}']
)
def test_sampling_defaults_that_cannot_be_are_one_sentence(folder: Path, params: str) -> None:
    refused("persona", "set", "terse", "--prompt-file", "-", "--params", params, stdin="x")


def test_without_a_database_there_is_nothing_to_list(folder: Path) -> None:
    assert "there is no database" in refused("persona", "list")
