"""Joins an agent bot of Chatwoot to Kvasir: what customers write goes in, what the model answers goes out, and where a person is
asked for the conversation is opened for Chatwoot's agents. Not a part of the server: a program of its own that speaks with both.

    CHATWOOT_URL=… CHATWOOT_ACCOUNT_ID=… CHATWOOT_BOT_TOKEN=… KVASIR_URL=… KVASIR_KEY=… KVASIR_WEBHOOK_SECRET=… ADAPTER_TOKEN=… \\
        uvicorn --factory examples.chatwoot.adapter:create_app

It keeps nothing: which conversation is which is in `external_id`, and what is done twice under one id is done once.
"""

from __future__ import annotations

import hmac
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from litestar import Litestar, Request, Response, post
from litestar.datastructures import State
from litestar.params import FromPath
from standardwebhooks import Webhook, WebhookVerificationError

PREFIX = "chatwoot:"
REMEMBERED = 10_000
"""Ids of events that were done. Kvasir sends an event again only when it got no answer, which is soon."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """Where both are, and the secrets of each."""

    chatwoot_url: str
    account_id: str
    bot_token: str
    kvasir_url: str
    kvasir_key: str
    webhook_secret: str
    adapter_token: str
    persona: str | None = None

    @classmethod
    def from_environment(cls) -> Config:
        return cls(
            chatwoot_url=os.environ["CHATWOOT_URL"].rstrip("/"),
            account_id=os.environ["CHATWOOT_ACCOUNT_ID"],
            bot_token=os.environ["CHATWOOT_BOT_TOKEN"],
            kvasir_url=os.environ["KVASIR_URL"].rstrip("/"),
            kvasir_key=os.environ["KVASIR_KEY"],
            webhook_secret=os.environ["KVASIR_WEBHOOK_SECRET"],
            adapter_token=os.environ["ADAPTER_TOKEN"],
            persona=os.environ.get("KVASIR_PERSONA"),
        )


class Adapter:
    """Owns the two clients and the ids of what was done. Raises httpx.HTTPError, and then whoever called tries again."""

    def __init__(
        self,
        config: Config,
        *,
        chatwoot: httpx.AsyncBaseTransport | None = None,
        kvasir: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._config = config
        self._chatwoot = httpx.AsyncClient(
            base_url=f"{config.chatwoot_url}/api/v1/accounts/{config.account_id}/",
            headers={"api_access_token": config.bot_token},
            transport=chatwoot,
        )
        self._kvasir = httpx.AsyncClient(
            base_url=f"{config.kvasir_url}/api/v1/",
            headers={"Authorization": f"Bearer {config.kvasir_key}"},
            transport=kvasir,
        )
        self._done: OrderedDict[str, None] = OrderedDict()

    async def close(self) -> None:
        await self._chatwoot.aclose()
        await self._kvasir.aclose()

    # --- from Chatwoot -----------------------------------------------------------------------------------------------

    async def from_chatwoot(self, event: Json) -> None:
        """An event of the agent bot, or of an account's webhook."""
        if event.get("event") == "message_created" and not event.get("private"):
            number, status = event["conversation"]["id"], event["conversation"].get("status")
            if event.get("message_type") == "incoming" and event.get("content"):
                await self._say(number, event)
            elif event.get("message_type") == "outgoing" and status != "pending" and _is_person(event):
                await self._answer_as_person(number, event)
        elif event.get("event") == "conversation_status_changed":
            await self._follow_status(event["id"], event.get("status"))

    async def _say(self, number: int, event: Json) -> None:
        """What a customer writes. Also while one of Chatwoot's agents answers: the model is silent then, and knows it later."""
        conversation = await self._conversation(number, create=True)
        body = {"content": event["content"], "client_message_id": f"{PREFIX}{event['id']}"}
        await self._post(f"conversations/{conversation['id']}/messages", body)

    async def _answer_as_person(self, number: int, event: Json) -> None:
        """What one of Chatwoot's agents writes is a turn of the conversation too."""
        conversation = await self._conversation(number, create=False)
        if conversation is not None:
            await self._hand_over(conversation)
            body = {"content": event.get("content") or "(an attachment)"}
            await self._post(f"inbox/{conversation['id']}/messages", body, key=f"{PREFIX}{event['id']}")

    async def _follow_status(self, number: int, status: str | None) -> None:
        """Chatwoot's agents have opened, resolved or given back a conversation."""
        conversation = await self._conversation(number, create=False)
        if conversation is None:
            return
        if status == "open":
            await self._hand_over(conversation)
        elif status == "pending" and conversation["state"] in ("queued", "human"):
            await self._post(f"inbox/{conversation['id']}/return", None)
        elif status == "resolved" and conversation["state"] in ("queued", "human"):
            await self._post(f"inbox/{conversation['id']}/resolve", None)

    async def _hand_over(self, conversation: Json) -> None:
        if conversation["state"] in ("bot", "resolved"):
            await self._post(f"conversations/{conversation['id']}/handoff", {"reason": "opened in Chatwoot"})

    async def _conversation(self, number: int, *, create: bool) -> Any:
        """The conversation that this one of Chatwoot is; None where there is none and none is to be made."""
        external_id = f"{PREFIX}{self._config.account_id}:{number}"
        while True:
            found = await self._kvasir.get("conversations", params={"external_id": external_id})
            items = found.raise_for_status().json()["items"]
            if items or not create:
                return items[0] if items else None
            body: Json = {"external_id": external_id, "title": f"Chatwoot {number}"}
            if self._config.persona:
                body["persona"] = self._config.persona
            made = await self._kvasir.post("conversations", json=body)
            # Of two messages that come at once one makes it, and the other finds it then.
            if made.status_code != httpx.codes.CONFLICT:
                return made.raise_for_status().json()

    async def _post(self, path: str, body: Json | None, *, key: str | None = None) -> None:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = await self._kvasir.post(path, json=body, headers=headers)
        answer.raise_for_status()

    # --- from Kvasir -------------------------------------------------------------------------------------------------

    async def from_kvasir(self, event_id: str, event: Json) -> None:
        """An event of Kvasir's webhook, whose signature has been verified."""
        data = event["data"]
        external_id = (data.get("conversation") or {}).get("external_id") or ""
        owner = f"{PREFIX}{self._config.account_id}:"
        if not external_id.startswith(owner) or event_id in self._done:
            return
        number = external_id.removeprefix(owner)
        if event["type"] in ("response.completed", "response.incomplete") and data["message"]["content"].strip():
            message = {"content": data["message"]["content"].strip(), "message_type": "outgoing"}
            answer = await self._chatwoot.post(f"conversations/{number}/messages", json=message)
            answer.raise_for_status()
        elif event["type"] == "handoff.requested" or event["type"] == "response.failed":
            # `open` takes a conversation from the bot and puts it before the agents.
            answer = await self._chatwoot.post(f"conversations/{number}/toggle_status", json={"status": "open"})
            answer.raise_for_status()
        self._done[event_id] = None
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)


def _is_person(event: Json) -> bool:
    """Whether an outgoing message is of an agent: those of the bot are ours."""
    return bool((event.get("sender") or {}).get("type") == "user")


AnyRequest = Request[Any, Any, State]


@post("/chatwoot/{token:str}", status_code=200)
async def chatwoot_hook(request: AnyRequest, token: FromPath[str], state: State) -> Response[None]:
    """The bot's outgoing URL. Chatwoot does not sign what it sends to bots, so the address itself is the secret."""
    if not hmac.compare_digest(token.encode(), state.config.adapter_token.encode()):
        return Response(None, status_code=404)
    await state.adapter.from_chatwoot(await request.json())
    return Response(None)


@post("/kvasir", status_code=200)
async def kvasir_hook(request: AnyRequest, state: State) -> Response[None]:
    """The endpoint of Kvasir's webhook."""
    headers = dict(request.headers)
    try:
        event = Webhook(state.config.webhook_secret).verify(await request.body(), headers)
    except WebhookVerificationError:
        return Response(None, status_code=401)
    await state.adapter.from_kvasir(headers["webhook-id"], event)
    return Response(None)


def create_app(config: Config | None = None, adapter: Adapter | None = None) -> Litestar:
    """The application. What fails answers 500, and both sides send it again or show that it failed."""
    chosen = config or Config.from_environment()

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.config = chosen
        app.state.adapter = adapter or Adapter(chosen)
        try:
            yield
        finally:
            await app.state.adapter.close()

    return Litestar([chatwoot_hook, kvasir_hook], lifespan=[lifespan], openapi_config=None)
