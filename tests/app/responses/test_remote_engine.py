"""The whole server with its model elsewhere: answers, what is told of the cluster, and what happens when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from app.accounts.models import UserRole
from engine.remote.client import RemoteEngine
from engine.remote.config import RemoteConfig
from tests.support.fake_cluster import FakeCluster, Fault
from tests.support.live_server import LiveServer, Person, eventually, eventually_equal, live_server, text_of
from tests.support.scripts import ENDLESS, text_script

TEXT = "Grüße, 世界 😀!"


@asynccontextmanager
async def remote_server(cluster: FakeCluster, data: Path, **settings: Any) -> AsyncIterator[LiveServer]:
    config = RemoteConfig(url=cluster.url, probe_every_s=0.05, away_wait_s=0.1, retries=1, folder=data / "remote")
    engine = RemoteEngine(config, sleep=lambda seconds: asyncio.sleep(0))
    async with live_server(data, engine=engine, **settings) as server:
        await engine.wait_ready()
        yield server


async def finished(person: Person, response_id: str) -> dict[str, Any]:
    """The message of an answer, at its end."""
    frames = await person.events(response_id)
    response = await person.response(response_id)
    (message,) = [
        one for one in await person.messages(response["conversation_id"]) if one["id"] == response["message_id"]
    ]
    assert message["content"] == text_of(frames)
    return {**message, "frames": frames}


async def readyz(server: LiveServer) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        answer = await client.get("/readyz")
        return answer.status_code, answer.text


async def test_a_conversation_goes_on_where_the_cluster_has_its_beginning(tmp_path: Path) -> None:
    cluster = FakeCluster(piece_bytes=3)
    async with cluster, remote_server(cluster, tmp_path) as server, server.person("ann") as ann:
        cluster.engine.queue_script(text_script(TEXT, piece_chars=1))
        conversation = await ann.conversation()
        first = await finished(ann, (await ann.say(conversation, "one two three"))["response"]["id"])
        assert (first["content"], first["status"], first["usage"]["cached_tokens"]) == (TEXT, "completed", 0)
        second = await finished(ann, (await ann.say(conversation, "four"))["response"]["id"])
        assert second["usage"]["cached_tokens"] >= first["usage"]["input_tokens"]
        assert [message["role"] for message in cluster.asked[1].body["messages"]] == ["user", "assistant", "user"]
        listed = (await ann.http.get("/api/v1/sessions")).json()["items"]
        assert [(item["id"], item["turns"], item["pages"]["device"]) for item in listed] == [(conversation, 2, 0)]
        assert (await ann.http.delete(f"/api/v1/conversations/{conversation}")).status_code == 204
        assert (await server.context.engine.snapshot()).sessions == ()


async def test_a_cancel_reaches_the_cluster_and_costs_what_was_shown(tmp_path: Path) -> None:
    async with FakeCluster() as cluster, remote_server(cluster, tmp_path) as server, server.person("ann") as ann:
        cluster.engine.queue_script(ENDLESS)
        said = await ann.say(await ann.conversation(), "go on")
        response_id = said["response"]["id"]
        await eventually(lambda: bool(server.context.engine.stats().decoded_tokens_total))
        assert (await ann.http.post(f"/api/v1/responses/{response_id}/cancel")).status_code == 200
        answer = await finished(ann, response_id)
        assert answer["status"] == "cancelled"
        assert answer["usage"]["output_tokens"] > 0
        async with asyncio.timeout(30):
            await cluster.asked[0].left.wait()


async def test_an_answer_that_breaks_off_keeps_its_words_and_says_why(tmp_path: Path) -> None:
    async with FakeCluster() as cluster, remote_server(cluster, tmp_path) as server, server.person("ann") as ann:
        cluster.misbehave(Fault(after=2))
        conversation = await ann.conversation()
        said = await ann.say(conversation, "one two three")
        broken = await finished(ann, said["response"]["id"])
        assert (broken["status"], broken["content"]) == ("failed", "You said")
        assert broken["frames"][-1]["data"]["error"]["code"] == "remote_broke_off"
        again = await ann.http.post(
            f"/api/v1/conversations/{conversation}/responses", json={"parent_id": said["message"]["id"]}
        )
        assert (await finished(ann, again.json()["response"]["id"]))["content"] == "You said: one two three."


async def test_while_the_cluster_is_away_what_is_said_is_kept_and_the_server_is_not_ready(tmp_path: Path) -> None:
    async with FakeCluster() as cluster, remote_server(cluster, tmp_path) as server, server.person("ann") as ann:
        assert await readyz(server) == (200, '{"status":"ready"}')
        conversation = await ann.conversation()
        await cluster.close()
        await eventually_equal(lambda: asyncio.sleep(0, server.context.engine.state), "loading")
        status, text = await readyz(server)
        assert status == 503
        assert f"{cluster.url}, cannot be reached" in text
        lost = await finished(ann, (await ann.say(conversation, "hello"))["response"]["id"])
        assert lost["status"] == "failed"
        assert lost["frames"][-1]["data"]["error"]["code"] == "engine_not_ready"
        await cluster.open()
        await eventually_equal(lambda: asyncio.sleep(0, server.context.engine.state), "ready")
        assert (await finished(ann, (await ann.say(conversation, "again"))["response"]["id"]))["status"] == "completed"
        said = [one["content"] for one in await ann.messages(conversation) if one["role"] == "user"]
        assert said == ["hello", "again"]


async def test_an_administrator_sees_what_is_known_and_nothing_made_up(tmp_path: Path) -> None:
    cluster = FakeCluster()
    async with cluster, remote_server(cluster, tmp_path) as server, server.person("root", UserRole.ADMIN) as root:
        await finished(root, (await root.say(await root.conversation(), "one two"))["response"]["id"])
        stats = (await root.http.get("/api/v1/admin/stats")).json()
        assert (stats["model"], stats["state"], stats["running"]) == ("fake", "ready", 0)
        assert (stats["pages"], stats["page_map"], stats["tiers"]) == ([], "", {})
        assert stats["sessions"] == {"active": 0, "device": 1}
        (session,) = (await root.http.get("/api/v1/admin/sessions")).json()["items"]
        assert (session["tokens"] > 0, session["seconds_to_timeout"]) == (True, None)
        assert (await root.http.post(f"/api/v1/admin/sessions/{session['id']}/evict")).status_code == 204
        assert (await root.http.get("/api/v1/admin/sessions")).json()["items"] == []
