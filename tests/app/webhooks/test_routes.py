"""Webhooks over the API: what administrators do with them, and that events are written with what they tell."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from app.accounts.models import UserRole
from app.identifiers import new_id
from app.settings_source import SettingsError, load_settings
from app.webhooks.models import WebhookDelivery, WebhookEvent
from tests.app.responses.chat import Chat
from tests.app.service.desk import Agent, handoff
from tests.support.client import problem
from tests.support.scripts import ENDLESS, failing_script

PATH = "/api/v1/webhooks"
URL = "https://hook.example/in"


@pytest.fixture
async def admin(chat: Chat) -> AsyncIterator[httpx.AsyncClient]:
    async with chat.running.signed_in("root", UserRole.ADMIN) as http:
        yield http


async def made(admin: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await admin.post(PATH, json={"url": URL, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def events(chat: Chat) -> list[dict[str, Any]]:
    """What has been written for webhooks, in its order."""
    async with chat.context.database.read() as session:
        statement = (
            select(WebhookEvent.payload)
            .join(WebhookDelivery, WebhookDelivery.event_id == WebhookEvent.id)
            .order_by(WebhookDelivery.number)
        )
        return [json.loads(payload) for payload in await session.scalars(statement)]


async def test_a_secret_is_shown_once_and_again_when_it_is_changed(chat: Chat, admin: httpx.AsyncClient) -> None:
    body = await made(admin, events=["message.created", "message.created"], description="our CRM")
    assert body["secret"].startswith("whsec_")
    assert (body["events"], body["enabled"], body["description"]) == (["message.created"], True, "our CRM")
    shown = (await admin.get(f"{PATH}/{body['id']}")).json()
    assert shown == {name: value for name, value in body.items() if name != "secret"}
    assert (await admin.get(PATH)).json()["items"] == [shown]
    rotated = (await admin.post(f"{PATH}/{body['id']}/rotate")).json()
    assert rotated["secret"] != body["secret"]
    assert rotated["previous_secret_until"] is not None
    audit = await admin.get("/api/v1/admin/audit", params={"target_id": body["id"]})
    assert {entry["action"] for entry in audit.json()["items"]} == {"webhook.create", "webhook.rotate"}
    assert body["secret"] not in audit.text
    keyed = await admin.post(PATH, json={"url": URL}, headers={"Idempotency-Key": "k"})
    problem(keyed, 400, "idempotency_not_supported")


async def test_an_endpoint_is_changed_tested_and_deleted(chat: Chat, admin: httpx.AsyncClient) -> None:
    body = await made(admin)
    path = f"{PATH}/{body['id']}"
    changed = await admin.patch(path, json={"url": "https://other.example/", "events": ["handoff.requested"]})
    assert (changed.json()["url"], changed.json()["events"]) == ("https://other.example/", ["handoff.requested"])
    tested = await admin.post(f"{path}/test")
    assert (tested.status_code, tested.json()["event_type"]) == (202, "webhook.test")
    (listed,) = (await admin.get(f"{path}/deliveries")).json()["items"]
    assert (listed["id"], listed["event_id"]) == (tested.json()["id"], tested.json()["event_id"])
    assert (await admin.patch(path, json={"enabled": False})).json()["enabled"] is False
    problem(await admin.post(f"{path}/test"), 409, "webhook_disabled")
    problem(await admin.patch(path, json={"url": "http://10.0.0.1/"}), 400, "address_not_allowed")
    assert (await admin.delete(path)).status_code == 204
    for method, below in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries"), ("POST", "/rotate")):
        problem(await admin.request(method, path + below), 404, "not_found")
    problem(await admin.post(f"{path}/deliveries/{new_id()}/replay"), 404, "not_found")


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.AGENT])
async def test_they_are_for_administrators(chat_on_sqlite: Chat, role: UserRole) -> None:
    async with chat_on_sqlite.running.signed_in("bob", role) as bob:
        for method, below in (("GET", ""), ("POST", ""), ("GET", f"/{new_id()}"), ("POST", f"/{new_id()}/test")):
            problem(await bob.request(method, PATH + below), 403, "forbidden")


async def test_everything_that_happens_is_told_in_its_order(chat: Chat, admin: httpx.AsyncClient) -> None:
    await made(admin)
    chat.id = (await chat.post("conversations", {"external_id": "crm-7"})).json()["id"]
    answer = await chat.turn("hello")
    chat.engine.queue_script(failing_script("half "), ENDLESS)
    await chat.ended((await chat.say("and?"))["response"]["id"])
    stopped = (await chat.say("more"))["response"]["id"]
    await chat.engine.received(3)
    await chat.shown(stopped, " tick")
    await chat.cancel(stopped)
    await handoff(chat, "my invoice")
    async with chat.running.signed_in("agnes", UserRole.AGENT) as http:
        await Agent(http, "agnes").says(chat.id, "It is paid.")
    await chat.http.put(f"/api/v1/messages/{answer['id']}/feedback", json={"rating": 1})
    told = await events(chat)
    assert [event["type"] for event in told] == [
        "conversation.created",
        "message.created",
        "response.completed",
        "message.created",
        "response.failed",
        "message.created",
        "response.cancelled",
        "conversation.status_changed",
        "handoff.requested",
        "conversation.status_changed",
        "message.created",
        "feedback.created",
    ]
    assert {event["data"]["conversation"]["external_id"] for event in told} == {"crm-7"}
    said = [event["data"]["message"]["content"] for event in told if "message" in event["data"]]
    assert said == ["hello", "You said: hello.", "and?", "half ", "more", " tick", "It is paid."]
    assert told[8]["data"]["reason"] == "my invoice"
    assert told[10]["data"]["message"]["author"]["name"] == "agnes"
    assert told[-1]["data"]["feedback"]["rating"] == 1


async def test_no_route_shows_what_was_said(chat: Chat, admin: httpx.AsyncClient) -> None:
    """open-webui/open-webui#12448: some hosts must keep their administrators from reading (case C37)."""
    body = await made(admin)
    await chat.turn("a canary sings")
    deliveries = await admin.get(f"{PATH}/{body['id']}/deliveries")
    assert len(deliveries.json()["items"]) == 2
    assert "canary" not in deliveries.text + (await admin.get(PATH)).text


async def test_without_a_webhook_nothing_is_written(chat_on_sqlite: Chat) -> None:
    await chat_on_sqlite.turn("hello")
    assert await events(chat_on_sqlite) == []


async def test_settings_that_are_no_networks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="KVASIR_WEBHOOK_PRIVATE_NETWORKS"):
        load_settings({}, {"KVASIR_WEBHOOK_PRIVATE_NETWORKS": "home"}, tmp_path / ".env")
    with pytest.raises(SettingsError, match="KVASIR_WEBHOOK_RETRY_S"):
        load_settings({}, {"KVASIR_WEBHOOK_RETRY_S": "soon"}, tmp_path / ".env")
