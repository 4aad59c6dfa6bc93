"""What answers have cost is counted once, for every way in which they end, and adds up whichever way it is summed."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from app.accounts.models import UserRole
from app.responses import dispatcher, queries
from tests.app.responses.chat import Chat, open_chat
from tests.support.client import problem
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually, live_server
from tests.support.scripts import ENDLESS, failing_script

USAGE = "/api/v1/admin/usage"
NAMES = ("answers", "input_tokens", "cached_tokens", "output_tokens")


async def listed(client: Any, path: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def end_in_every_way(chat: Chat) -> dict[str, Any]:
    """One answer for each way in which one can end; what the last of them cost."""
    last = await chat.turn("completes")
    await chat.turn("is cut", params={"max_tokens": 2})
    chat.engine.queue_script(failing_script(" half"))
    await chat.ended((await chat.say("fails"))["response"]["id"])
    chat.engine.queue_script(ENDLESS)
    said = await chat.say("is stopped")
    await chat.engine.received(4)
    await chat.shown(said["response"]["id"], " tick tock")
    await chat.cancel(said["response"]["id"])
    await chat.ended(said["response"]["id"])
    usage: dict[str, Any] = last["usage"]
    return usage


async def test_every_ending_is_counted_and_sums_by_user_equal_sums_by_model(tmp_path: Path, database_url: str) -> None:
    """C38, open-webui/open-webui#23323."""
    async with (
        open_chat(tmp_path, database_url) as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
        chat.running.signed_in("bob") as bob,
    ):
        usage = await end_in_every_way(chat)
        other = Chat(chat.running, bob, (await bob.post("/api/v1/conversations", json={})).json()["id"])
        await other.turn("hello")
        by_user = await listed(admin, USAGE, group_by="user")
        totals = by_user["totals"]
        assert (totals["answers"], totals["completed"], totals["incomplete"]) == (5, 2, 1)
        assert (totals["cancelled"], totals["failed"], totals["interrupted"]) == (1, 1, 0)
        for groups in ("user", "model", "day", "key", "persona", "day,user,key,persona,model"):
            sums = await listed(admin, USAGE, group_by=groups)
            assert sums["totals"] == totals
            for name in NAMES:
                assert sum(item["usage"][name] for item in sums["items"]) == totals[name], (groups, name)
        assert {item["username"]: item["usage"]["answers"] for item in by_user["items"]} == {"ann": 4, "bob": 1}
        assert [item["model"] for item in (await listed(admin, USAGE, group_by="model"))["items"]] == ["fake"]
        own = await listed(chat.http, "/api/v1/me/usage")
        assert [item["day"] for item in own["items"]] == ["2026-12-01"]
        assert own["totals"]["answers"] == 4
        assert own["totals"]["output_tokens"] > usage["output_tokens"] > 0
        ann_only = await listed(admin, USAGE, user_id=by_user["items"][-1]["user_id"], group_by="day")
        assert ann_only["totals"] != totals


async def test_an_answer_whose_conversation_is_gone_is_counted_once(tmp_path: Path, database_url: str) -> None:
    async with open_chat(tmp_path, database_url) as chat:
        chat.engine.queue_script(ENDLESS)
        said = await chat.say("hello")
        await chat.engine.received(1)
        await chat.shown(said["response"]["id"], " tick")
        assert (await chat.http.delete(f"/api/v1/conversations/{chat.id}")).status_code == 204
        await eventually(lambda: chat.context.responses.dispatcher.alive == 0)
        totals = (await listed(chat.http, "/api/v1/me/usage"))["totals"]
        assert (totals["answers"], totals["cancelled"], totals["output_tokens"]) == (1, 1, 1)


async def test_an_answer_that_a_crash_has_interrupted_is_counted_with_what_was_shown(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_is_written(session: object, ending: object) -> bool:
        raise ConnectionError("the process is dying")

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "LAST_WRITES_S", 0.05)
        async with open_chat(tmp_path, database_url) as chat:
            chat.engine.queue_script(ENDLESS)
            said = await chat.say("hello you")
            await chat.engine.received(1)
            await chat.shown(said["response"]["id"], " tick tock")
            patch.setattr(queries, "write_ending", nothing_is_written)
    async with open_chat(tmp_path, database_url, is_new=False) as chat:
        totals = (await listed(chat.http, "/api/v1/me/usage"))["totals"]
        assert (totals["answers"], totals["interrupted"], totals["output_tokens"]) == (1, 1, 2)
        assert totals["input_tokens"] > 0


async def test_a_dropped_socket_is_no_way_to_answer_for_nothing(tmp_path: Path, sqlite_url: str) -> None:
    """open-webui/open-webui#28230: streams that clients left were not counted."""
    settings: dict[str, Any] = {"on_disconnect": "cancel", "disconnect_grace_s": 0}
    async with live_server(tmp_path, sqlite_url, **settings) as live, live.person("ann") as ann:
        live.engine.queue_script(ENDLESS)
        async with ann.socket() as socket:
            response_id = (await socket.say(await ann.conversation(), "hello"))["response_id"]
            await socket.text_arrives(response_id)
        await eventually(lambda: live.context.responses.dispatcher.alive == 0)
        totals = (await listed(ann.http, "/api/v1/me/usage"))["totals"]
        assert (totals["answers"], totals["cancelled"]) == (1, 1)
        assert totals["output_tokens"] > 0


async def test_the_persona_and_the_day_of_the_end_are_kept(tmp_path: Path, sqlite_url: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat, chat.running.signed_in("root", UserRole.ADMIN) as admin:
        assert (await admin.post("/api/v1/personas", json={"name": "terse", "system_prompt": "Be terse."})).is_success
        made = await chat.http.post("/api/v1/conversations", json={"persona": "terse"})
        terse = Chat(chat.running, chat.http, made.json()["id"])
        await terse.turn("hello")
        await chat.turn("hello")
        chat.running.clock.advance(86400)
        await terse.turn("tomorrow")
        sums = await listed(admin, USAGE, group_by="day,persona")
        found = [(item["day"], item["persona"], item["usage"]["answers"]) for item in sums["items"]]
        assert found == [("2026-12-02", "terse", 1), ("2026-12-01", "terse", 1), ("2026-12-01", "", 1)]
        assert (await listed(admin, USAGE, persona="terse"))["totals"]["answers"] == 2
        assert (await listed(admin, USAGE, since="2026-12-02"))["totals"]["answers"] == 1
        assert (await listed(admin, USAGE, until="2026-12-01"))["totals"]["answers"] == 2
        pages, cursor = [], None
        while True:
            query = {"group_by": "day,persona", "limit": 1} | ({"cursor": cursor} if cursor else {})
            page = await listed(admin, USAGE, **query)
            assert page["totals"] == sums["totals"]
            pages += page["items"]
            if (cursor := page["next_cursor"]) is None:
                break
        assert pages == sums["items"]
        problem(await admin.get(USAGE, params={"group_by": "day,user", "cursor": "e30"}), 400, "invalid_cursor")
        table = await admin.get(USAGE, params={"group_by": "day,persona", "format": "csv"})
        assert table.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert [(row["day"], row["persona"], row["answers"]) for row in rows] == [
            (item["day"], item["persona"], str(item["usage"]["answers"])) for item in sums["items"]
        ]


async def test_names_that_look_like_formulas_are_text_in_a_table(tmp_path: Path, sqlite_url: str) -> None:
    engine = FakeEngine()
    async with (
        open_chat(tmp_path, sqlite_url, engine=engine, username="@ann") as chat,
        chat.running.signed_in("root", UserRole.ADMIN) as admin,
    ):
        await chat.turn("hello")
        table = await admin.get(USAGE, params={"group_by": "user", "format": "csv"})
        (row,) = csv.DictReader(io.StringIO(table.text))
        assert row["username"] == "'@ann"


@pytest.mark.parametrize(
    "query", ["group_by=", "group_by=user,user", "group_by=color", "since=2026-12-02&until=2026-12-01", "since=soon"]
)
async def test_a_question_that_makes_no_sense_is_refused(tmp_path: Path, sqlite_url: str, query: str) -> None:
    async with open_chat(tmp_path, sqlite_url) as chat:
        problem(await chat.http.get(f"/api/v1/me/usage?{query}"), 400, "invalid_input")
        problem(await chat.http.get(USAGE), 403, "forbidden")
