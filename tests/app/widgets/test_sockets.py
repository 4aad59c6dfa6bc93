"""A visitor's socket: opened by a ticket from a page the widget is for, and by nothing else; what it may say there."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from app.accounts.models import UserRole
from tests.app.widgets.site import ELSEWHERE, SHOP
from tests.support.live_server import PATIENCE_S, LiveServer, live_server


async def ticket_for(client: httpx.AsyncClient, path: str) -> str:
    answer = await client.post(f"{path}/tickets")
    assert answer.status_code == 201, answer.text
    ticket: str = answer.json()["ticket"]
    return ticket


async def made_widget(live: LiveServer, admin: httpx.AsyncClient, **fields: object) -> str:
    wanted = {"name": "shop", "allowed_origins": [SHOP], "anonymous": True, **fields}
    answer = await admin.post("/api/v1/widgets", json=wanted)
    assert answer.status_code == 201, answer.text
    return f"/api/v1/widgets/{answer.json()['id']}"


async def test_a_visitor_chats_from_the_widgets_page_and_from_no_other(tmp_path: Path) -> None:
    """open-webui/open-webui#18410: no check of the page's origin."""
    async with live_server(tmp_path) as live, live.person("root", UserRole.ADMIN) as root:
        persona = {"name": "clerk", "system_prompt": "Be brief."}
        assert (await root.http.post("/api/v1/personas", json=persona)).status_code == 201
        path = await made_widget(live, root.http, persona="clerk")
        async with httpx.AsyncClient(
            base_url=live.url, trust_env=False, timeout=PATIENCE_S, headers={"Origin": SHOP}
        ) as page:
            token = (await page.post(f"{path}/visitors", json={})).json()["token"]
            page.headers["Authorization"] = f"Bearer {token}"
            conversation = (await page.post(f"{path}/conversations")).json()
            assert conversation["persona"] == "clerk"
            for origin in (ELSEWHERE, "null", live.url):
                query = f"?ticket={await ticket_for(page, path)}"
                with pytest.raises(InvalidStatus, match="403"):
                    async with live.connect(query, origin=origin):
                        pass
            async with live.connect(f"?ticket={await ticket_for(page, path)}", origin=SHOP) as socket:
                await socket.hello()
                said = await socket.say(conversation["id"], "Where is my parcel?")
                assert (await socket.end_of(said["response"]["id"]))["type"] == "response.completed"
                theirs = await root.conversation()
                refused = await socket.ask("message.create", conversation_id=theirs, content="let me in")
                assert refused["data"]["code"] == "not_found"
                # A deleted widget's sockets close.
                assert (await root.http.delete(path)).status_code == 204
                assert await socket.close_code() == 4001
