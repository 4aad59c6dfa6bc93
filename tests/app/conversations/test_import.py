"""A conversation that was exported is imported again: equal, in little memory, or refused with a reason."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from app.conversations.json_pieces import JsonPieces, NotJson
from app.conversations.models import Conversation, Message
from tests.app.conversations.test_conversations import created, listed
from tests.app.conversations.test_messages import PATH, begun
from tests.app.responses.chat import Chat
from tests.support.client import RunningApp, problem, running_app
from tests.support.scripts import ENDLESS

Body = dict[str, Any]
MEDIA_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson"}


async def exported(client: httpx.AsyncClient, conversation_id: str, kind: str = "json") -> bytes:
    answer = await client.get(f"{PATH}/{conversation_id}/export", params={"format": kind})
    assert answer.status_code == 200, answer.text
    return answer.content


async def sent(client: httpx.AsyncClient, content: bytes | Body, kind: str = "json", **headers: str) -> httpx.Response:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return await client.post(f"{PATH}/import", content=raw, headers={"Content-Type": MEDIA_TYPES[kind], **headers})


def shape(document: Body) -> Body:
    """A conversation with its ids replaced by the places of what they name."""
    conversation = dict(document["conversation"])
    places = {message["id"]: place for place, message in enumerate(document["messages"])} | {None: None}
    messages = [
        {**message, "id": places[message["id"]], "parent_id": places[message["parent_id"]], "response_id": None}
        for message in document["messages"]
    ]
    conversation["leaf_id"] = places[conversation["leaf_id"]]
    for field in ("id", "version", "updated_at"):
        del conversation[field]
    return {**document, "conversation": conversation, "messages": messages}


@pytest.mark.parametrize("kind", ["json", "ndjson"])
async def test_what_was_exported_comes_back_equal(chat: Chat, kind: str) -> None:
    """botpress/botpress#5150, baptisteArno/typebot.io#2138: no transcript that could be read back."""
    path = f"{PATH}/{chat.id}"
    patch = {
        "title": "Été 😀",
        "tags": ["b", "a"],
        "metadata": {"a": [1, None]},
        "archived": True,
        "external_id": "x-1",
    }
    await chat.http.patch(path, json=patch)
    first = await chat.turn('say "hi" [1] {2}\n')
    await chat.turn("再见 \\ \u2028")
    await chat.turn("another branch", parent_id=first["id"])
    await chat.turn("another root", parent_id=None)
    raw, original = await exported(chat.http, chat.id, kind), json.loads(await exported(chat.http, chat.id))
    # It is taken once; under the same external_id only where the first one is gone.
    assert problem(await sent(chat.http, raw, kind), 409, "external_id_taken")["conversation_id"] == chat.id
    await chat.http.delete(path)
    chat.running.clock.advance(60)
    answer = await sent(chat.http, raw, kind)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert answer.headers["location"] == f"{PATH}/{body['id']}"
    assert body["id"] != chat.id
    again = json.loads(await exported(chat.http, body["id"]))
    assert shape(again) == shape(original)
    assert again["conversation"]["updated_at"] == "2026-12-01T12:01:00Z"
    assert not {message["id"] for message in again["messages"]} & {message["id"] for message in original["messages"]}
    # And it goes on like any other, is found like any other, and stands in the list.
    assert [item["id"] for item in (await chat.http.get(PATH, params={"q": "再见"})).json()["items"]] == [body["id"]]
    assert [item["id"] for item in (await chat.http.get(PATH, params={"tag": "a"})).json()["items"]] == [body["id"]]
    chat.id = body["id"]
    await chat.turn("and on")
    assert len(await chat.messages()) == 4


async def test_a_running_answer_is_imported_as_interrupted(chat: Chat) -> None:
    chat.engine.queue_script(ENDLESS)
    body = await chat.say("hello")
    await chat.engine.received(1)
    await chat.shown(body["response"]["id"], " tick")
    copy = (await sent(chat.http, await exported(chat.http, chat.id))).json()
    chat.id = copy["id"]
    assert [(message["status"], message["content"]) for message in await chat.messages()] == [
        ("completed", "hello"),
        ("interrupted", " tick"),
    ]


async def test_a_temporary_conversation_stays_one_and_lives_anew(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        body = await created(client, temporary=True)
        running.clock.advance(3600)
        copy = (await sent(client, await exported(client, body["id"]))).json()
        assert (copy["temporary"], copy["expires_at"]) == (True, "2026-12-02T13:00:00Z")


async def test_the_same_import_under_one_key_is_done_once(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("a", "b")
        raw = await exported(client, conversation.id)
        first = await sent(client, raw, **{"Idempotency-Key": "k"})
        second = await sent(client, raw, **{"Idempotency-Key": "k"})
        assert second.headers["idempotent-replayed"] == "true"
        assert first.json() == second.json()
        assert len(await listed(client)) == 2
        problem(await sent(client, raw + b" ", **{"Idempotency-Key": "k"}), 422, "idempotency_key_reused")
        assert len(await listed(client)) == 2


def document(*messages: Body, **conversation: Any) -> Body:
    head = {"title": "t", "created_at": "2026-12-01T12:00:00Z", **conversation}
    return {"format": "kvasir.conversation", "version": 1, "conversation": head, "messages": list(messages)}


def message(id: str, parent_id: str | None = None, **more: Any) -> Body:
    fields = {"role": "user", "content": "x", "created_at": "2026-12-01T12:00:00Z"}
    return {"id": id, "parent_id": parent_id, **fields, **more}


REFUSED: list[tuple[bytes | Body, str]] = [
    (b"", "empty"),
    (b"[]", "expected { at byte 0"),
    (b"null", "expected {"),
    (b"{", "expected a name"),
    (b'{"format": 1', "expected"),
    (b"\xff\xfe", "expected {"),
    (b'{"format":"x"}', "version"),
    ({**document(), "format": "other"}, "kvasir.conversation"),
    ({**document(), "version": 2}, "version 2"),
    (document(title="x" * 201), "title"),
    (document(title=None), "title"),
    (document(metadata={"a": "x" * 20_000}), "metadata"),
    (document(created_at="2026-12-01T12:00:00"), "created_at"),
    (document(created_at="0001-01-01T00:00:00+14:00"), "year"),
    (document(leaf_id="nowhere"), "leaf_id"),
    (document(persona="nobody"), "nobody"),
    (document(message("a"), message("a")), "message 2"),
    (document(message("a"), message("b", "c")), "message 2"),
    (document(message("b", "a"), message("a")), "message 1"),
    (document(message("a", "a")), "message 1"),
    (document(message("a", role="system")), "message 1"),
    (document(message("a", role="robot")), "message 1"),
    (document(message("a", content="\x00")), "message 1"),
    (document(message("a", content=7)), "message 1"),
    (document(message("a", status="great")), "message 1"),
    (document(message("a"), {"id": "b"}), "message 2"),
    (document(message("a"), 7), "message 2"),  # type: ignore[arg-type]
    (document(message("a", usage={"input_tokens": "many"})), "message 1"),
    (json.dumps(document(message("a"))).encode()[:-2], "the file"),
    (json.dumps(document(message("a"), message("b"))).replace("}, {", "} {").encode(), "expected ,"),
    (b"[" * 100_000, "expected {"),
    (b'{"messages":' + b"[" * 100_000, "the file"),
    (
        b'{"format":"kvasir.conversation","version":1,"conversation":' + b'{"metadata":' * 5000 + b"1" + b"}" * 5001,
        "the file",
    ),
]


async def test_what_is_no_export_is_refused_with_the_place_and_leaves_nothing(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        for content, reason in REFUSED:
            answer = await sent(client, content)
            assert answer.status_code == 400, (answer.text, content[:200] if isinstance(content, bytes) else content)
            assert reason in answer.json()["detail"], (reason, answer.json()["detail"])
        for line in (b"", b"\n\n", b"{}\n", b"x\n", json.dumps(document()).encode() + b"\n{}\n"):
            assert (await sent(client, line, "ndjson")).status_code == 400
        problem(
            await client.post(f"{PATH}/import", content=b"{}", headers={"Content-Type": "text/markdown"}),
            415,
            "unsupported_media_type",
        )
        async with running.context.database.read() as session:
            for table in (Conversation, Message):
                assert await session.scalar(select(func.count()).select_from(table)) == 0
        assert (await sent(client, document(message("a"), message("b", "a", role="assistant")))).status_code == 201


async def test_more_than_the_limits_is_refused_with_the_limit(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        running_app(tmp_path, sqlite_url, import_max_mib=1, import_max_messages=3) as running,
        running.signed_in("ann") as client,
    ):
        four = document(*(message(str(number)) for number in range(4)))
        assert problem(await sent(client, four), 413, "too_many_messages")["limit_messages"] == 3
        assert problem(await sent(client, b" " * (1 << 20) + b"{}"), 413, "payload_too_large")["limit_bytes"] == 1 << 20
        assert await listed(client) == []
        assert list((tmp_path / "imports").iterdir()) == []


async def test_ten_thousand_messages_come_and_go_in_little_memory(running_on_sqlite: RunningApp) -> None:
    """botpress/botpress#5150: a transcript of any length."""
    count, text = 10_000, "word " * 100

    async def pieces() -> AsyncIterator[bytes]:
        yield json.dumps(document()).encode().removesuffix(b"]}")
        for number in range(count):
            role = "assistant" if number % 2 else "user"
            one = message(f"m{number}", f"m{number - 1}" if number else None, content=f"{number} {text}", role=role)
            yield (b"," if number else b"") + json.dumps(one).encode()
        yield b"]}"

    async with running_on_sqlite.signed_in("ann") as client:
        tracemalloc.start()
        headers = {"Content-Type": "application/json"}
        answer = await client.post(f"{PATH}/import", content=pieces(), headers=headers)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status_code == 201, answer.text
        # The file has more than five million bytes.
        assert peak_bytes < 4_000_000, peak_bytes
        again = json.loads(await exported(client, answer.json()["id"]))
        assert [one["content"] for one in again["messages"]] == [f"{number} {text}" for number in range(count)]
        assert [one["parent_id"] for one in again["messages"][1:]] == [one["id"] for one in again["messages"][:-1]]


async def test_what_a_broken_import_has_left_is_removed_like_a_temporary_conversation(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chat.turn("hello")
    raw = await exported(chat.http, chat.id)

    async def never(*arguments: object) -> None:
        raise RuntimeError("the server dies here")

    monkeypatch.setattr(chat.context.importing, "_finish", never)
    monkeypatch.setattr(chat.context.importing, "_discard", never)
    assert (await sent(chat.http, raw)).status_code == 500
    assert len((await chat.http.get(PATH)).json()["items"]) == 1
    chat.running.clock.advance(3600)
    await chat.context.retention.remove_expired()
    async with chat.context.database.read() as session:
        assert await session.scalar(select(func.count()).select_from(Conversation)) == 1
        assert await session.scalar(select(func.count()).select_from(Message)) == 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.sampled_from([None, 1]))
def test_the_pieces_of_a_document_are_its_members_and_items(document: Body, indent: int | None) -> None:
    raw = json.dumps(document, indent=indent).encode()
    pieces = JsonPieces(raw)
    members = list(pieces.members())
    found = {json.loads(b'"' + key + b'"'): json.loads(raw[start : pieces.end(start)]) for key, start in members}
    assert found == document
    for key, start in members:
        value = document[json.loads(b'"' + key + b'"')]
        if isinstance(value, list):
            assert [json.loads(raw[begin:end]) for begin, end in pieces.items(start)] == value


@given(st.binary(max_size=60) | st.text('{}[]",:\\ a1').map(str.encode))
def test_anything_else_is_no_json_and_not_a_fault(raw: bytes) -> None:
    try:
        for _, start in (pieces := JsonPieces(raw)).members():
            pieces.end(start)
    except NotJson:
        pass
