"""KV on disk, with a real server: it is there after a restart, and gone with its conversation, also when the server was killed
right after the rows were deleted. What is deleted is looked for in the files themselves.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config import PAGE_TOKENS
from engine.packed_tokens import count_tokens
from engine.tiers.disk_store import UNFINISHED_SUFFIX
from engine.tiers.segment_file import PREAMBLE_BYTES, decode_header, decode_preamble
from tests.support.models import bundled_model_folder
from tests.support.server_process import REAL, ServerProcess, server_process

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(300)]

SECRET = "The password of the safe in the cellar is violet elephants under the bridge, and nobody knows it. " * 5
PATIENCE_S = 60
SETTINGS = {
    "KVASIR_SESSION_DEVICE_S": "0.1",
    "KVASIR_SESSION_HOST_S": "0.2",
    "KVASIR_KV_MEMORY_MIB": "128",
    "KVASIR_KV_HOST_MIB": "64",
    "KVASIR_KV_DISK_MIB": "256",
    "KVASIR_KV_PREFIX_MIB": "48",
    "KVASIR_MAX_ANSWER_TOKENS": "8",
}
"""Sessions go to disk as soon as nobody talks."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A fresh data folder with the bundled model: a smaller one would compute a page sooner than read it, and would do so."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "models").symlink_to(bundled_model_folder().parent)
    return folder


def arguments(data: Path) -> list[str]:
    return [*REAL, "--data", str(data), "--port", "0"]


class Person:
    """A signed-in browser without a browser."""

    def __init__(self, server: ServerProcess) -> None:
        self.http = httpx.Client(base_url=server.url, trust_env=False, headers={"Origin": server.url}, timeout=30)
        self.http.get(server.sign_in_link)
        assert self.http.cookies["kvasir_session"]
        server.wait_ready(PATIENCE_S)

    def conversation(self) -> str:
        made: str = self.http.post("/api/v1/conversations", json={}).json()["id"]
        return made

    def turn(self, conversation_id: str, content: str) -> dict[str, Any]:
        """Say something; the ended response."""
        path = f"/api/v1/conversations/{conversation_id}/messages"
        said = self.http.post(path, json={"content": content})
        assert said.status_code == 202, said.text
        response: dict[str, Any] = said.json()["response"]
        until(lambda: self.response(response["id"])["ended_at"] is not None, "the answer's end")
        return self.response(response["id"])

    def response(self, response_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/v1/responses/{response_id}").json()
        return found

    def close(self) -> None:
        self.http.close()


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"{what} took over {PATIENCE_S} s"
        # Another process is waited for, and it cannot call us.
        time.sleep(0.02)


def contents(data: Path, *, without: str | None = None) -> list[bytes]:
    """Every byte below the disk tier's folder, but of files that end so; a file or folder that goes meanwhile is none."""
    found = []
    for folder, _, names in os.walk(data / "kv"):
        for name in names:
            if without is not None and name.endswith(without):
                continue
            with suppress(FileNotFoundError):
                found.append(Path(folder, name).read_bytes())
    return found


def is_on_disk(data: Path, text: str) -> bool:
    return any(text.encode() in content for content in contents(data))


def is_kept_on_disk(data: Path, text: str) -> bool:
    """In a file that is whole: another one is thrown away at the next start."""
    return any(text.encode() in content for content in contents(data, without=UNFINISHED_SUFFIX))


def pages_on_disk(data: Path, conversation_id: str) -> list[bytes]:
    """The tokens of each page of a conversation, as they lie in its files that are whole."""
    pages: list[bytes] = []
    for content in contents(data, without=UNFINISHED_SUFFIX):
        if conversation_id.encode() in content:
            preamble = decode_preamble(content[:PREAMBLE_BYTES])
            header = decode_header(preamble, content[PREAMBLE_BYTES : PREAMBLE_BYTES + preamble.header_bytes])
            pages += [page.packed for page in header.pages]
    return pages


def token_runs(data: Path, conversation_id: str) -> set[bytes]:
    """The same of whole pages alone."""
    return {tokens for tokens in pages_on_disk(data, conversation_id) if count_tokens(tokens) == PAGE_TOKENS}


def test_what_is_deleted_is_in_no_file_when_the_deletion_is_answered(data: Path) -> None:
    with server_process(*arguments(data), **SETTINGS) as server, closing(Person(server)) as person:
        secret, other = person.conversation(), person.conversation()
        person.turn(secret, SECRET)
        person.turn(other, "Something that may stay where it is, however long the text about it becomes in the end.")
        until(lambda: is_kept_on_disk(data, secret) and is_kept_on_disk(data, other), "the way to the disk")
        runs = token_runs(data, secret) - token_runs(data, other)
        assert len(runs) > 3
        assert person.http.delete(f"/api/v1/conversations/{secret}").status_code == 204
        left = contents(data)
        assert not any(secret.encode() in content for content in left)
        assert not any(run in content for content in left for run in runs)
        assert is_on_disk(data, other)
        assert server.stop() == 0
        assert not is_on_disk(data, secret), "nor does the end of the server write it again"
        assert is_on_disk(data, other)


def test_a_server_killed_right_after_the_rows_were_deleted_forgets_at_its_next_start(data: Path) -> None:
    with server_process(*arguments(data), **SETTINGS) as server, closing(Person(server)) as person:
        secret, other = person.conversation(), person.conversation()
        person.turn(secret, SECRET)
        history = person.turn(other, "A conversation that goes on after the restart as if nothing had happened. " * 20)
        # All of the other one but its first page, which everybody shares.
        least_tokens = history["usage"]["input_tokens"] - PAGE_TOKENS
        until(
            lambda: (
                is_kept_on_disk(data, secret) and sum(map(count_tokens, pages_on_disk(data, other))) >= least_tokens
            ),
            "the way to the disk",
        )
        runs = token_runs(data, secret) - token_runs(data, other)
        server.stop(signal.SIGKILL)
    with sqlite3.connect(data / "kvasir.sqlite3") as rows:
        rows.execute("PRAGMA foreign_keys=ON")
        rows.execute("DELETE FROM conversations WHERE id = ?", (secret,))
    rows.close()
    assert is_on_disk(data, secret)
    with server_process(*arguments(data), **SETTINGS) as server, closing(Person(server)) as person:
        until(lambda: not is_on_disk(data, secret), "forgetting")
        assert not any(run in content for content in contents(data) for run in runs)
        usage = person.turn(other, "And on?")["usage"]
        kept = history["usage"]["input_tokens"]
        assert usage["cached_from"]["disk"] > 0, usage
        assert usage["cached_tokens"] >= 0.98 * kept
        assert server.stop() == 0
    assert any("forgotten_sessions_dropped" in line for line in server.errors + server.output)


def test_a_personas_prompt_is_computed_once_and_read_at_the_next_start(data: Path) -> None:
    def prefix(person: Person) -> dict[str, Any]:
        found: dict[str, Any] = person.http.get("/api/v1/personas/terse").json()["prefix"]
        return found

    prompt = "You answer in one sentence, and you never say what was not asked for. " * 24
    with server_process(*arguments(data), **SETTINGS) as server, closing(Person(server)) as person:
        made = person.http.post("/api/v1/personas", json={"name": "terse", "system_prompt": prompt})
        assert made.status_code == 201, made.text
        until(lambda: prefix(person)["state"] == "ready", "the persona's prompt")
        assert prefix(person)["source"] == "computed"
        assert server.stop() == 0
    with server_process(*arguments(data), **SETTINGS) as server, closing(Person(server)) as person:
        until(lambda: prefix(person)["state"] == "ready", "the persona's prompt")
        shown = prefix(person)
        assert shown["source"] == "disk"
        conversation = person.http.post("/api/v1/conversations", json={"persona": "terse"}).json()["id"]
        usage = person.turn(conversation, "Hello.")["usage"]
        assert 0.98 * shown["tokens"] - 16 <= usage["cached_from"]["prefix"] <= shown["tokens"]
        assert usage["cached_tokens"] == usage["cached_from"]["prefix"]
        assert server.stop() == 0


def test_with_the_disk_switched_off_there_is_no_file(data: Path) -> None:
    off = {**SETTINGS, "KVASIR_KV_DISK_MIB": "0"}
    with server_process(*arguments(data), **off) as server, closing(Person(server)) as person:
        conversation = person.conversation()
        person.turn(conversation, SECRET)
        assert person.turn(conversation, "And?")["usage"]["cached_tokens"] > 0
        assert server.stop() == 0
    assert contents(data) == []
    assert any(
        "kv_reuse" in line and "disk=off" in line.replace('": "', "=").replace('"', "") for line in server.errors
    )
