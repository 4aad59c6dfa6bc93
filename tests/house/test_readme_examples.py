"""The README's examples, run as a reader would: against a real server, with the shell and with Python."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.support.server_process import FAKE, ServerProcess, server_process

ADDRESS = "http://127.0.0.1:8080"
PASSWORD = "correct horse"


def blocks(language: str) -> list[str]:
    """The code blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose answers repeat what was said, and the account that the README makes."""
    data = tmp_path_factory.mktemp("data")
    with server_process(*FAKE, "--data", str(data), "--delay-ms", "2") as server:
        assert server.url
        make = "from app.cli import main; main()"
        subprocess.run(
            [sys.executable, "-c", make, "user", "create", "ann", "--password-stdin", "--data", str(data)],
            input=PASSWORD,
            text=True,
            check=True,
            cwd=data,
        )
        yield server
        assert server.stop() == 0


def run(command: list[str], code: str, server: ServerProcess, folder: Path) -> str:
    result = subprocess.run(
        [*command, code.replace(ADDRESS, server.url)], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_shell_example_works(server: ServerProcess, tmp_path: Path) -> None:
    (code,) = blocks("sh")
    output = run(["bash", "-euo", "pipefail", "-c"], code, server, tmp_path)
    assert "event: response.output_text.delta" in output
    assert "event: response.completed" in output
    print(output)
    assert output.count("You said: What is the capital of France?") >= 2
    assert "\ncompleted\n" in output


def test_the_python_example_works(server: ServerProcess, tmp_path: Path) -> None:
    (code,) = blocks("python")
    output = run([sys.executable, "-W", "error", "-c"], code, server, tmp_path)
    assert output == "You said: What is the capital of France?.\n"
