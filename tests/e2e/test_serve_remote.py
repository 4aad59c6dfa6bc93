"""`kvasir serve` in front of a cluster: no model is fetched or loaded, and what is wrong with the setup is one sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.support.fake_cluster import FakeCluster
from tests.support.server_process import ServerProcess, server_process

AND_THEN = """
import sys
from app.cli import main
try:
    main()
finally:
    print(sorted({"torch", "transformers"} & set(sys.modules)))
"""
SERVE = ("-c", AND_THEN, "serve", "--port", "0", "--data")


def answered(server: ServerProcess) -> dict[str, object]:
    """Sign in with the printed link, ask, and wait for the whole answer."""
    with httpx.Client(base_url=server.url, trust_env=False, headers={"Origin": server.url}, timeout=60) as client:
        client.get(server.sign_in_link)
        conversation = client.post("/api/v1/conversations", json={}).json()["id"]
        said = client.post(f"/api/v1/conversations/{conversation}/messages", json={"content": "hello there"}).json()
        client.get(f"/api/v1/responses/{said['response']['id']}/events?after=0")
        answer: dict[str, object] = client.get(f"/api/v1/conversations/{conversation}/messages").json()["items"][0]
        return answer


@pytest.mark.slow
async def test_it_answers_without_a_model_of_its_own_and_keeps_its_key_to_itself(tmp_path: Path) -> None:
    settings = {"KVASIR_ENGINE": "remote", "KVASIR_ENGINE_API_KEY": "very-secret", "KVASIR_TITLES": "message"}

    def use() -> ServerProcess:
        with server_process(
            *SERVE, str(tmp_path / "data"), **settings, KVASIR_ENGINE_URL=f"{cluster.url}/v1"
        ) as server:
            server.wait_ready(60)
            assert answered(server)["content"] == "You said: hello there."
            assert server.stop() == 0
        return server

    async with FakeCluster(key="very-secret") as cluster:
        server = await asyncio.to_thread(use)
    assert server.output[-1] == "[]"
    assert not any("very-secret" in line for line in server.output + server.errors)
    assert not (tmp_path / "data" / "models").exists()


@pytest.mark.slow
async def test_a_key_that_is_not_taken_ends_the_server_with_one_sentence(tmp_path: Path) -> None:
    def use() -> tuple[int, str]:
        settings = {"KVASIR_ENGINE": "remote", "KVASIR_ENGINE_URL": cluster.url}
        with server_process(*SERVE, str(tmp_path / "data"), **settings) as server:
            return server.wait(), server.errors[-1]

    async with FakeCluster(key="another") as cluster:
        code, sentence = await asyncio.to_thread(use)
    assert code == 2
    assert "refused the request (401" in sentence
