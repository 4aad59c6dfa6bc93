"""Law L6 on real processes: kill -9 at any moment, also while the last kill is being recovered from, and nothing that anybody
was told or shown is gone.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from app.accounts.models import UserRole
from app.clock import utc_now
from app.realtime.protocol import TERMINAL_TYPES
from app.settings import Settings
from tests.support.client import PASSWORD, running_app
from tests.support.clock import SteppedClock
from tests.support.killable_server import KillableServer
from tests.support.live_server import require_whole_log, text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REPETITIONS = 100
WORDS = 40
STEP_S = 0.002
LONGEST_LIFE_S = 0.25
"""A server is killed within this time after the first message, which answers of WORDS steps need two thirds of."""

FINAL = {kind.removeprefix("response.") for kind in TERMINAL_TYPES}


@dataclass
class Memory:
    """What the clients of all lives of the server were told and shown."""

    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages of the user by id, with their conversation."""
    shown: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    """Frames by response and seq."""
    has_seen_an_end: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "message.created":
            message = {**frame["data"]["message"], "conversation_id": frame["conversation_id"]}
            self.acknowledged[message["id"]] = message
            self.shown.setdefault(frame["data"]["response_id"], {})
        elif "seq" in frame:
            known = self.shown.setdefault(frame["response_id"], {}).setdefault(frame["seq"], frame)
            assert known == frame, "two clients saw different frames under one number"
            if frame["type"] in TERMINAL_TYPES:
                self.has_seen_an_end.set()


@pytest.mark.parametrize(
    ("database", "repetitions"),
    [("sqlite_url", REPETITIONS), pytest.param("postgres_url", REPETITIONS // 5, marks=pytest.mark.postgres)],
)
async def test_whatever_was_acknowledged_or_shown_survives_every_kill(
    tmp_path: Path, request: pytest.FixtureRequest, database: str, repetitions: int
) -> None:
    chance = random.Random(time.time_ns())
    url = request.getfixturevalue(database)
    settings = Settings(data=tmp_path, database_url=url)
    token, conversations = await prepared(tmp_path, url)
    headers = {"Authorization": f"Bearer {token}"}
    interrupted = finished = 0
    server = KillableServer(settings, words=WORDS, delay_s=STEP_S)
    try:
        for repetition in range(repetitions):
            memory = Memory()
            url = await server.serves()
            life = asyncio.create_task(live_until_killed(url, headers, conversations, memory, chance))
            if repetition % 5 == 0:
                # However slow the machine is, some answers are to end before the kill.
                async with asyncio.timeout(60):
                    await memory.has_seen_an_end.wait()
            await asyncio.sleep(chance.uniform(0, LONGEST_LIFE_S))
            await asyncio.to_thread(server.kill)
            await life
            server = KillableServer(settings, words=WORDS, delay_s=STEP_S)
            if chance.random() < 0.2:
                # This time it does not even get to recover.
                await asyncio.sleep(chance.uniform(0, 0.4))
                await asyncio.to_thread(server.kill)
                server = KillableServer(settings, words=WORDS, delay_s=STEP_S)
            statuses = await require_everything(await server.serves(), headers, memory)
            interrupted += statuses.count("interrupted")
            finished += statuses.count("completed")
    finally:
        await asyncio.to_thread(server.kill)
    # Otherwise the moments were not random enough to have tested anything.
    assert interrupted > repetitions / 10
    assert finished > 0


async def prepared(data: Path, url: str) -> tuple[str, list[str]]:
    """A token and some conversations, in a database that all lives of the server share."""
    clock = SteppedClock(utc_now())
    async with running_app(data, url, clock=clock) as app, app.signed_in("ann", UserRole.USER) as client:
        made = [await client.post("/api/v1/conversations", json={}) for _ in range(3)]
        answer = await client.post("/api/v1/auth/login", json={"username": "ann", "password": PASSWORD})
        return str(answer.json()["token"]), [each.json()["id"] for each in made]


async def live_until_killed(
    url: str, headers: dict[str, str], conversations: list[str], memory: Memory, chance: random.Random
) -> None:
    """Two tabs and a bot: one tab talks, one watches, the bot uses REST. All of it ends when the server does."""
    chosen = [chance.choice(conversations) for _ in range(3)]

    async def tab(talks: bool) -> None:
        with suppress(ConnectionClosed, InvalidHandshake, OSError):
            async with connect(
                url.replace("http", "ws") + "/ws", additional_headers=headers, proxy=None, compression=None
            ) as socket:
                await socket.send(json.dumps({"type": "session.hello", "data": {}}))
                for conversation in chosen:
                    data = {"conversation_id": conversation}
                    await socket.send(json.dumps({"type": "conversation.subscribe", "data": data}))
                    if talks:
                        content = f"message {chance.random()}"
                        await socket.send(json.dumps({"type": "message.create", "data": data | {"content": content}}))
                async for text in socket:
                    memory.note(json.loads(text))

    async def bot() -> None:
        with suppress(httpx.TransportError):
            async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
                body = {"content": "from a bot", "client_message_id": str(chance.random())}
                answer = await client.post(f"/api/v1/conversations/{chosen[0]}/messages", json=body)
                assert answer.status_code == 202
                data = answer.json()
                memory.acknowledged[data["message"]["id"]] = {**data["message"], "conversation_id": chosen[0]}
                memory.shown.setdefault(data["response"]["id"], {})

    await asyncio.gather(tab(True), tab(False), bot())


async def require_everything(url: str, headers: dict[str, str], memory: Memory) -> list[str]:
    """Compare what the server has with what its clients remember; how each answer ended."""
    statuses: list[str] = []
    async with httpx.AsyncClient(base_url=url + "/api/v1/", headers=headers, trust_env=False, timeout=20) as client:
        for message in memory.acknowledged.values():
            # Any message names its branch; the path to its leaf begins at the root and goes through it.
            stored = await branch_through(client, message["conversation_id"], message["id"])
            assert stored[message["id"]]["content"] == message["content"]
            assert set(message["children"]) <= set(stored[message["id"]]["children"])
        for response_id, frames in memory.shown.items():
            log = await event_log(client, response_id)
            require_whole_log(log)
            for seq, frame in frames.items():
                assert log[seq - 1] == frame
            state = (await client.get(f"responses/{response_id}")).json()
            assert state["status"] in FINAL
            assert log[-1]["type"] == f"response.{state['status']}"
            stored = await branch_through(client, state["conversation_id"], state["message_id"])
            message = stored[state["message_id"]]
            assert message["content"] == text_of(log)
            assert (message["status"], message["last_seq"]) == (state["status"], len(log))
            assert text_of(log).startswith(text_of([frames[seq] for seq in sorted(frames)])) or not frames
            statuses.append(state["status"])
    return statuses


async def branch_through(client: httpx.AsyncClient, conversation_id: str, message_id: str) -> dict[str, dict[str, Any]]:
    """The messages of the newest branch through one, from the leaf up to that one."""
    found: dict[str, dict[str, Any]] = {}
    cursor: dict[str, str] = {}
    while message_id not in found:
        answer = await client.get(
            f"conversations/{conversation_id}/messages", params={"leaf": message_id, "limit": "200", **cursor}
        )
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found |= {item["id"]: item for item in page["items"]}
        cursor = {"cursor": page["next_cursor"]}
        assert page["next_cursor"] or message_id in found
    return found


async def event_log(client: httpx.AsyncClient, response_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"responses/{response_id}/events")
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
