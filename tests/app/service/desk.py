"""A person in a conversation, and agents beside them. For tests of customer service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.app.responses.chat import Body, Chat

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@dataclass
class Agent:
    """Somebody who answers people."""

    http: httpx.AsyncClient
    name: str

    async def tries(self, act: str, conversation_id: str, body: Body | None = None, **headers: str) -> httpx.Response:
        return await self.http.post(f"/api/v1/inbox/{conversation_id}/{act}", json=body, headers=headers)

    async def does(self, act: str, conversation_id: str, body: Body | None = None) -> Body:
        answer = await self.tries(act, conversation_id, body)
        assert answer.is_success, answer.text
        found: Body = answer.json() if answer.content else {}
        return found

    async def says(self, conversation_id: str, content: str) -> Body:
        return await self.does("messages", conversation_id, {"content": content})

    async def sees(self, state: str = "queued", **query: Any) -> list[str]:
        """The ids of what is in the inbox."""
        answer = await self.http.get("/api/v1/inbox", params={"state": state, **query})
        assert answer.status_code == 200, answer.text
        return [item["conversation"]["id"] for item in answer.json()["items"]]

    async def reads(self, conversation_id: str) -> list[str]:
        answer = await self.http.get(f"/api/v1/inbox/{conversation_id}/messages")
        assert answer.status_code == 200, answer.text
        return [message["content"] for message in reversed(answer.json()["items"])]


async def handoff(chat: Chat, reason: str | None = None) -> Body:
    """The person asks for a person."""
    answer = await chat.post(f"conversations/{chat.id}/handoff", {"reason": reason})
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return body


async def conversation(chat: Chat) -> Body:
    answer = await chat.http.get(f"/api/v1/conversations/{chat.id}")
    body: Body = answer.json()
    return body
