"""The documents' examples, run as a reader would: against a real server, with the shell and with Python.

Fences `sh` and `python` of the README and of docs/ are run, those of one page and language in order and as one program, with
`kvasir` on the PATH and the account that the README makes. What is to be read only has another fence, or none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT, documents
from tests.support.server_process import FAKE, ServerProcess, server_process

ADDRESS = "http://127.0.0.1:8080"
PASSWORD = "correct horse"
LANGUAGES = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-W", "error", "-c"]}
# What has to be in the output of a page's examples, where running to the end does not show that they work.
SHOWN = {
    ("README.md", "sh"): [
        "event: response.output_text.delta",
        "event: response.completed",
        "\nYou said: What is the capital of France?.\n",
        "\ncompleted\n",
    ],
    ("docs/openai.md", "python"): ["You said: Hello!.\n", "\ncached: ", "You said: And good night!.\n"],
    ("docs/api.md", "python"): ["You said: What is the capital of France?.\n"],
    ("docs/cookbook-administrator.md", "sh"): ["/?ticket=", ",cached_tokens,", "found it whole", "\nFalse\n"],
    ("docs/cookbook-customer-service.md", "sh"): [
        "event: response.completed",
        "\nhuman\n",
        "\nbot\n",
        "Hello, this is Carl.",
    ],
    ("docs/cookbook-history.md", "python"): ["Order 4711 2 messages, "],
    ("docs/cookbook-history.md", "sh"): ["\nOrder 4711\n", "'marked': True", "When does the blue kettle arrive?"],
}


def examples(page: str, language: str) -> str:
    """All code blocks of a page in one language, as one program."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return "\n".join(found)


RUN = [(page, language) for page in documents() for language in LANGUAGES if examples(page, language)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def environment(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A reader's shell: `kvasir` on the PATH, and its data where the server's are."""
    programs = tmp_path_factory.mktemp("bin")
    kvasir = programs / "kvasir"
    kvasir.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from app.cli import main; main()" "$@"\n')
    kvasir.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVASIR_")}
    path = f"{programs}:{Path(sys.executable).parent}:{kept['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "KVASIR_DATA": str(data), "NO_PROXY": "127.0.0.1"}


@pytest.fixture(scope="module")
def server(data: Path, environment: dict[str, str]) -> Iterator[ServerProcess]:
    """A server whose answers repeat what was said, and the account that the README makes."""
    with server_process(*FAKE, "--data", str(data), "--delay-ms", "2") as server:
        assert server.url
        make = ["kvasir", "user", "create", "ann", "--password-stdin"]
        subprocess.run(make, input=PASSWORD, text=True, check=True, cwd=data, env=environment)
        yield server
        assert server.stop() == 0


@pytest.mark.parametrize(("page", "language"), RUN, ids=[f"{page}-{language}" for page, language in RUN])
def test_the_examples_of_a_page_work(
    page: str, language: str, server: ServerProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    result = subprocess.run(
        [*LANGUAGES[language], examples(page, language).replace(ADDRESS, server.url)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert [text for text in SHOWN.get((page, language), []) if text not in result.stdout] == [], result.stdout


def test_every_page_that_is_expected_to_show_something_is_run() -> None:
    assert [wanted for wanted in SHOWN if wanted not in RUN] == []
