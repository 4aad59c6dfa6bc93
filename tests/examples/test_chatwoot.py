"""The Chatwoot example, between a real application with a scripted engine and recorded shapes of Chatwoot's events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import select

from app.accounts.models import UserRole
from app.webhooks.models import WebhookDelivery, WebhookEvent
from app.webhooks.signing import new_secret, signed_headers
from examples.chatwoot.adapter import Adapter, Config, create_app
from tests.app.responses.chat import Chat, said
from tests.support.client import RunningApp, running_app
from tests.support.fake_engine import FakeEngine

TOKEN = "a-long-random-text"


def message(number: int, text: str, *, kind: str = "incoming", status: str = "pending", **more: Any) -> dict[str, Any]:
    """`message_created` as Chatwoot sends it to a bot, with the members that it documents."""
    return {
        "account": {"id": 3, "name": "Acme"},
        "additional_attributes": {},
        "content_attributes": {"in_reply_to": None},
        "content_type": "text",
        "content": text,
        "conversation": {
            "additional_attributes": {"browser": {"browser_name": "Firefox"}, "referer": "https://acme.example/"},
            "can_reply": True,
            "channel": "Channel::WebWidget",
            "contact_inbox": {
                "id": 62,
                "contact_id": 52,
                "inbox_id": 58,
                "source_id": "96e55744",
                "hmac_verified": False,
            },
            "id": 13098,
            "inbox_id": 58,
            "messages": [],
            "labels": [],
            "meta": {"sender": {"id": 52, "name": "Jane", "type": "contact"}, "assignee": None, "team": None},
            "status": status,
            "custom_attributes": {},
            "unread_count": 1,
            "timestamp": 1752161782,
        },
        "created_at": "2026-12-01T12:00:00.000Z",
        "id": number,
        "inbox": {"id": 58, "name": "Web"},
        "message_type": kind,
        "private": False,
        "sender": {"id": 52, "name": "Jane", "type": "contact"}
        if kind == "incoming"
        else {"id": 7, "name": "Sam", "type": "user"},
        "source_id": None,
        "event": "message_created",
        **more,
    }


def status_changed(status: str) -> dict[str, Any]:
    """`conversation_status_changed`: a conversation's own members, and what has changed."""
    conversation: dict[str, Any] = message(0, "")["conversation"]
    changed = [{"status": {"previous_value": "pending", "current_value": status}}]
    return {**conversation, "status": status, "changed_attributes": changed, "event": "conversation_status_changed"}


@dataclass
class Chatwoot:
    """Its API as far as bots use it."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    fails: bool = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["api_access_token"] == "bot-token"
        assert request.url.path.startswith("/api/v1/accounts/3/conversations/13098/")
        if self.fails:
            return httpx.Response(503)
        self.calls.append((request.url.path.rpartition("/")[2], json.loads(request.content)))
        return httpx.Response(200, json={})


@dataclass
class Bridge:
    """The adapter, what is on both sides of it, and the webhook in between."""

    kvasir: RunningApp
    chatwoot: Chatwoot
    http: httpx.AsyncClient
    secret: str
    chat: Chat

    async def hears(self, event: dict[str, Any]) -> None:
        answer = await self.http.post(f"/chatwoot/{TOKEN}", json=event)
        assert answer.status_code == 200, answer.text

    async def answered(self) -> None:
        """The model has said all it was asked for."""
        for answer in self.kvasir.context.responses.dispatcher.every_answer():
            await self.chat.ended(answer.response_id)

    async def deliver(self) -> list[int]:
        """Every event of Kvasir, once more; what the adapter answered."""
        async with self.kvasir.context.database.read() as session:
            rows = (
                await session.execute(
                    select(WebhookEvent.id, WebhookEvent.payload)
                    .join(WebhookDelivery, WebhookDelivery.event_id == WebhookEvent.id)
                    .order_by(WebhookDelivery.number)
                )
            ).all()
        statuses = []
        for event_id, payload in rows:
            headers = signed_headers(event_id, int(datetime.now(UTC).timestamp()), payload, [self.secret])
            statuses.append((await self.http.post("/kvasir", content=payload, headers=headers)).status_code)
        return statuses

    async def state(self) -> str:
        (item,) = (await self.chat.http.get("/api/v1/conversations")).json()["items"]
        return str(item["state"])


@asynccontextmanager
async def bridge(data: Path, database_url: str, **settings: Any) -> AsyncIterator[Bridge]:
    async with (
        running_app(data, database_url, engine=FakeEngine(), delta_window_ms=0, **settings) as kvasir,
        kvasir.signed_in("root", UserRole.ADMIN) as admin,
        kvasir.signed_in("chatwoot", UserRole.AGENT) as bot,
    ):
        made = await admin.post("/api/v1/webhooks", json={"url": "https://adapter.example/kvasir"})
        secret = made.json()["secret"]
        key = (await bot.post("/api/v1/keys", json={"name": "adapter"})).json()["key"]
        chatwoot = Chatwoot()
        config = Config(
            chatwoot_url="https://chatwoot.example",
            account_id="3",
            bot_token="bot-token",
            kvasir_url="http://kvasir.test",
            kvasir_key=key,
            webhook_secret=secret,
            adapter_token=TOKEN,
        )
        adapter = Adapter(config, chatwoot=httpx.MockTransport(chatwoot), kvasir=httpx.ASGITransport(kvasir.app))
        app = create_app(config, adapter)
        app.state.config, app.state.adapter = config, adapter
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://adapter.example") as http:
            yield Bridge(kvasir, chatwoot, http, secret, Chat(kvasir, bot, ""))
        await adapter.close()


async def test_a_customer_is_answered_and_whatever_comes_twice_is_done_once(tmp_path: Path, sqlite_url: str) -> None:
    async with bridge(tmp_path, sqlite_url) as between:
        for _ in range(2):
            await between.hears(message(1, "hello"))
        await between.answered()
        for _ in range(2):
            assert set(await between.deliver()) == {200}
        assert between.chatwoot.calls == [("messages", {"content": "You said: hello.", "message_type": "outgoing"})]
        (item,) = (await between.chat.http.get("/api/v1/conversations")).json()["items"]
        assert item["external_id"] == "chatwoot:3:13098"


async def test_who_asks_for_a_person_is_put_before_the_agents_and_the_model_is_silent(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with bridge(tmp_path, sqlite_url, handoff_keywords="human") as between:
        await between.hears(message(1, "a human, please"))
        await between.deliver()
        assert between.chatwoot.calls == [("toggle_status", {"status": "open"})]
        await between.hears(message(2, "It is paid.", kind="outgoing", status="open"))
        await between.hears(message(3, "thank you", status="open"))
        assert await between.state() == "human"
        await between.hears(status_changed("pending"))
        assert await between.state() == "bot"
        await between.hears(message(4, "what was that?"))
        await between.answered()
        engine = between.kvasir.engine
        assert isinstance(engine, FakeEngine)
        (request,) = engine.requests
        assert said(request.turns) == [
            ("user", "a human, please"),
            ("assistant", "It is paid."),
            ("user", "thank you"),
            ("user", "what was that?"),
        ]
        await between.hears(status_changed("open"))
        assert await between.state() == "queued"
        await between.hears(status_changed("resolved"))
        assert await between.state() == "resolved"


async def test_what_is_not_said_to_the_bot_is_left_alone(tmp_path: Path, sqlite_url: str) -> None:
    async with bridge(tmp_path, sqlite_url) as between:
        await between.hears(message(1, "a note", private=True))
        await between.hears(message(2, "You said: hello.", kind="outgoing", sender={"id": 1, "type": "agent_bot"}))
        await between.hears(message(3, "Jane was assigned", kind="activity"))
        await between.hears({**message(4, "hello"), "event": "message_updated"})
        await between.hears(status_changed("resolved"))
        assert (await between.chat.http.get("/api/v1/conversations")).json()["items"] == []


async def test_nobody_gets_in_who_does_not_know_the_secrets(tmp_path: Path, sqlite_url: str) -> None:
    async with bridge(tmp_path, sqlite_url) as between:
        assert (await between.http.post("/chatwoot/guess", json=message(1, "hello"))).status_code == 404
        between.secret = new_secret()
        await between.hears(message(1, "hello"))
        await between.answered()
        assert set(await between.deliver()) == {401}
        assert between.chatwoot.calls == []


async def test_where_chatwoot_is_away_kvasir_tries_again(tmp_path: Path, sqlite_url: str) -> None:
    async with bridge(tmp_path, sqlite_url) as between:
        await between.hears(message(1, "hello"))
        await between.answered()
        between.chatwoot.fails = True
        assert 500 in await between.deliver()
        between.chatwoot.fails = False
        assert set(await between.deliver()) == {200}
        assert [path for path, _ in between.chatwoot.calls] == ["messages"]
