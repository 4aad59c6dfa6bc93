"""What is not kept for ever: temporary conversations, and those that are older than is kept.

The cases: open-webui/open-webui#29034 (temporary chats were lost without a word), and open-webui/open-webui#20680, #16564, #13000
and chatwoot/chatwoot#12526 (nothing was ever deleted).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.accounts.models import User, UserRole
from app.conversations.models import Conversation, Message, SearchDocument
from app.responses.models import Response, ResponseLog
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import RunningApp, problem
from tests.support.clock import SteppedClock
from tests.support.live_server import eventually
from tests.support.scripts import ENDLESS

PATH = "/api/v1/conversations"
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


async def rows(chat: Chat) -> list[int]:
    """How many of everything that belongs to conversations is stored."""
    async with chat.context.database.read() as session:
        tables = (Conversation, Message, Response, ResponseLog, SearchDocument)
        return [await session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


async def sessions(chat: Chat) -> set[str]:
    return {status.key.name for status in (await chat.engine.snapshot()).sessions}


def counted(running: RunningApp, name: str, **labels: str) -> float:
    return running.context.metrics.registry.get_sample_value(f"kvasir_retention_{name}_total", labels) or 0.0


class Watcher:
    """A reader of a conversation's events."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def deliver(self, frame: bytes) -> None:
        self.frames.append(frame)

    def follow(self, log: Any) -> None:
        pass


async def test_a_temporary_conversation_says_how_long_it_lives_and_then_is_gone_everywhere(chat: Chat) -> None:
    kept = chat.id
    made = (await chat.post("conversations", {"temporary": True, "title": "walnut"})).json()
    assert (made["temporary"], made["expires_at"]) == (True, "2026-12-02T12:00:00Z")
    chat.id = made["id"]
    await chat.turn("say walnut")
    # It survives reloads, and is in no list and no search.
    body = (await chat.http.get(f"{PATH}/{chat.id}")).json()
    assert body["expires_at"] == made["expires_at"]
    assert len(await chat.messages()) == 2
    assert [item["id"] for item in (await chat.http.get(PATH)).json()["items"]] == [kept]
    for query in ({"q": "walnut"}, {"external_id": "x"}, {"archived": "false"}):
        items = (await chat.http.get(PATH, params=query)).json()["items"]
        assert chat.id not in [item["id"] for item in items]
    watcher = Watcher()
    chat.context.hub.subscribe(chat.id, watcher)

    chat.running.clock.advance(DAY_S - 1)
    await chat.context.retention.remove_expired()
    assert (await chat.http.get(f"{PATH}/{chat.id}")).status_code == 200
    chat.running.clock.advance(1)
    await chat.context.retention.remove_expired()
    problem(await chat.http.get(f"{PATH}/{chat.id}"), 404, "not_found")
    assert await rows(chat) == [1, 0, 0, 0, 0]
    assert await sessions(chat) == set()
    (frame,) = watcher.frames
    assert b'"type":"conversation.updated"' in frame
    assert b'"deleted":true,"reason":"expired"' in frame
    assert counted(chat.running, "conversations", reason="expired") == 1
    assert counted(chat.running, "messages") == 2
    assert counted(chat.running, "text_characters") > len("say walnut")
    assert counted(chat.running, "log_bytes") > 0
    assert counted(chat.running, "kv_pages", tier="device") > 0


async def test_a_temporary_conversation_is_kept_with_one_call_and_made_temporary_with_one(chat: Chat) -> None:
    made = (await chat.post("conversations", {"temporary": True})).json()
    path = f"{PATH}/{made['id']}"
    kept = (await chat.http.patch(path, json={"temporary": False}, headers={"If-Match": '"1"'})).json()
    assert (kept["temporary"], kept["expires_at"], kept["version"]) == (False, None, 2)
    chat.running.clock.advance(2 * DAY_S)
    await chat.context.retention.remove_expired()
    again = (await chat.http.patch(path, json={"temporary": True})).json()
    assert again["expires_at"] == "2026-12-04T12:00:00Z"
    # Asking for what it is already changes nothing.
    assert (await chat.http.patch(path, json={"temporary": True})).json() == again


async def test_a_conversation_is_not_cut_in_mid_answer(chat: Chat) -> None:
    chat.id = (await chat.post("conversations", {"temporary": True})).json()["id"]
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    await chat.engine.received(1)
    chat.running.clock.advance(2 * DAY_S)
    await chat.context.retention.remove_expired()
    assert (await chat.http.get(f"{PATH}/{chat.id}")).status_code == 200
    await chat.cancel(body["response"]["id"])
    await eventually(lambda: not chat.context.responses.dispatcher.alive)
    await chat.context.retention.remove_expired()
    problem(await chat.http.get(f"{PATH}/{chat.id}"), 404, "not_found")


async def test_old_conversations_go_after_the_days_of_the_server_or_of_their_owner(
    tmp_path: Path, database_url: str, clock: SteppedClock
) -> None:
    async with open_chat(tmp_path, database_url, clock=clock, retention_days=30, session_days=365) as chat:
        running = chat.running
        async with (
            running.signed_in("root", UserRole.ADMIN) as admin,
            running.signed_in("bob") as bob,
            running.signed_in("cleo") as cleo,
        ):
            ids = {}
            for name, client in (("ann", chat.http), ("bob", bob), ("cleo", cleo)):
                ids[name] = (await client.get("/api/v1/me")).json()["id"]
                if name != "ann":
                    await client.post(PATH, json={"title": name})
            assert (await bob.get("/api/v1/retention")).json() == {"days": 30, "source": "server"}
            for name, days in (("bob", 7), ("cleo", 0)):
                put = await admin.put(f"/api/v1/admin/users/{ids[name]}/retention", json={"days": days})
                assert put.json() == {"days": days, "source": "user"}
            assert (await bob.get("/api/v1/retention")).json() == {"days": 7, "source": "user"}

            async def left() -> list[bool]:
                await running.context.retention.remove_old()
                return [bool((await client.get(PATH)).json()["items"]) for client in (chat.http, bob, cleo)]

            clock.advance(7 * DAY_S - 1)
            assert await left() == [True, True, True]
            clock.advance(1)
            assert await left() == [True, False, True]
            clock.advance(22 * DAY_S)
            # Something is said in it: that is a change.
            await chat.turn("hello")
            clock.advance(29 * DAY_S)
            assert await left() == [True, False, True]
            clock.advance(DAY_S)
            assert await left() == [False, False, True]
            assert counted(running, "conversations", reason="retention") == 2
            # Back to what holds for everybody.
            await admin.put(f"/api/v1/admin/users/{ids['cleo']}/retention", json={"days": None})
            assert await left() == [False, False, False]
            logged = (await admin.get("/api/v1/admin/audit", params={"action": "retention.change"})).json()["items"]
            assert sorted(entry["target_id"] for entry in logged) == sorted([ids["cleo"], ids["cleo"], ids["bob"]])


async def test_without_a_number_of_days_everything_is_kept(chat: Chat) -> None:
    chat.running.clock.advance(29 * DAY_S)
    await chat.context.retention.remove_old()
    assert (await chat.http.get(f"{PATH}/{chat.id}")).status_code == 200
    assert (await chat.http.get("/api/v1/retention")).json() == {"days": 0, "source": "server"}


async def test_only_administrators_decide_how_long_others_are_kept(running_on_sqlite: RunningApp) -> None:
    async with (
        running_on_sqlite.signed_in("ann") as ann,
        running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin,
    ):
        ann_id = (await ann.get("/api/v1/me")).json()["id"]
        path = f"/api/v1/admin/users/{ann_id}/retention"
        problem(await ann.get(path), 403, "forbidden")
        problem(await ann.put(path, json={"days": 1}), 403, "forbidden")
        assert (await admin.get(path)).json() == {"days": 0, "source": "server"}
        for unknown in ("x", "%00", "8a0c0a0a-0000-4000-8000-000000000000"):
            problem(await admin.get(f"/api/v1/admin/users/{unknown}/retention"), 404, "not_found")
            problem(await admin.put(f"/api/v1/admin/users/{unknown}/retention", json={"days": 1}), 404, "not_found")
        for body in ({"days": -1}, {"days": 36501}, {"days": "1"}, {}, {"days": 1, "who": "x"}):
            problem(await admin.put(path, json=body), 400, "invalid_input")


async def test_what_changed_since_it_was_found_due_stays(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    made = (await chat.post("conversations", {"temporary": True})).json()
    chat.running.clock.advance(2 * DAY_S)
    pages = chat.context.retention._pages

    async def kept_meanwhile() -> Any:
        async with chat.context.database.write() as session:
            await session.execute(update(Conversation).values(expires_at=None))
        return await pages()

    monkeypatch.setattr(chat.context.retention, "_pages", kept_meanwhile)
    await chat.context.retention.remove_expired()
    assert (await chat.http.get(f"{PATH}/{made['id']}")).status_code == 200


async def test_a_policy_goes_with_its_person(running_on_sqlite: RunningApp) -> None:
    async with (
        running_on_sqlite.signed_in("ann") as ann,
        running_on_sqlite.signed_in("root", UserRole.ADMIN) as admin,
    ):
        ann_id = (await ann.get("/api/v1/me")).json()["id"]
        await admin.put(f"/api/v1/admin/users/{ann_id}/retention", json={"days": 3})
        async with running_on_sqlite.context.database.write() as session:
            await session.delete(await session.get_one(User, ann_id))
        problem(await admin.get(f"/api/v1/admin/users/{ann_id}/retention"), 404, "not_found")
