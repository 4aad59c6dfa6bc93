"""A conversation as a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.conversations import queries
from app.conversations.export import MESSAGES_PER_PIECE, ExportCut
from app.conversations.schemas import ExportFormat
from app.conversations.tree import owned_conversation
from app.identifiers import UserId
from tests.app.conversations.test_messages import PATH, begun
from tests.support.client import RunningApp, problem
from tests.support.trees import add_long_chain


async def test_json_holds_the_whole_tree_and_can_be_read_back(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, answer = await conversation.grow('say "hi"\n', "hi")
        (again,) = await conversation.grow("hey", parent_id=question.id)
        (edited,) = await conversation.grow("hullo")
        got = await client.get(f"{PATH}/{conversation.id}/export", params={"format": "json"})
        assert got.headers["content-type"] == "application/json"
        assert got.headers["content-disposition"].startswith('attachment; filename="say-hi.json"')
        body = got.json()
        assert (body["format"], body["version"]) == ("kvasir.conversation", 1)
        assert body["conversation"] == (await client.get(f"{PATH}/{conversation.id}")).json()
        assert [(message["id"], message["parent_id"]) for message in body["messages"]] == [
            (question.id, None),
            (answer.id, question.id),
            (again.id, question.id),
            (edited.id, None),
        ]
        assert body["messages"][0]["content"] == 'say "hi"\n'
        assert (await client.get(f"{PATH}/{conversation.id}/export")).json() == body


async def test_ndjson_is_a_line_for_the_conversation_and_one_for_each_message(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("two\nlines", "\u2028")
        got = await client.get(f"{PATH}/{conversation.id}/export", params={"format": "ndjson"})
        assert got.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in got.content.split(b"\n")[:-1]]
        assert [line["type"] for line in lines] == ["conversation", "message", "message"]
        assert [line["message"]["content"] for line in lines[1:]] == ["two\nlines", "\u2028"]


async def test_markdown_reads_like_the_conversation_and_says_where_it_branches(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, _ = await conversation.grow("hello", "hi")
        await conversation.grow("hey", parent_id=question.id)
        got = await client.get(f"{PATH}/{conversation.id}/export", params={"format": "markdown"})
        assert got.headers["content-type"] == "text/markdown; charset=utf-8"
        assert got.text == (
            "# hello\n"
            "\n## 1 · user · 2026-12-01 12:00:00 UTC\n\nhello\n"
            "\n## 2 · assistant · 2026-12-01 12:00:00 UTC\n\nhi\n"
            "\n## 3 · user · 2026-12-01 12:00:00 UTC\n\n*Follows 1.*\n\nhey\n"
        )


@pytest.mark.parametrize(
    ("content", "closing"),
    [
        ("```python\nprint(1)", "```\n"),
        ("   ~~~~\n```\n~~~", "~~~~\n"),
        ("````\n```", "````\n"),
        ("```\nx\n```", ""),
        ("```\nx\n`````  ", ""),
        ("``` inline ``` and more", ""),
        ("    ```\nindented", ""),
        ("no code", ""),
    ],
)
async def test_a_code_block_that_was_cut_does_not_swallow_what_follows(
    running_on_sqlite: RunningApp, content: str, closing: str
) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        conversation = await begun(running_on_sqlite, client)
        await conversation.grow(content, "next")
        text = (await client.get(f"{PATH}/{conversation.id}/export", params={"format": "markdown"})).text
    assert f"\n\n{content}\n{closing}\n## 2 · assistant" in text


@pytest.mark.parametrize("format", list(ExportFormat))
async def test_an_empty_conversation_is_a_whole_file_too(running_on_sqlite: RunningApp, format: ExportFormat) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        conversation = await begun(running_on_sqlite, client)
        got = await client.get(f"{PATH}/{conversation.id}/export", params={"format": format})
        assert got.status_code == 200
        assert 'filename="conversation.' in got.headers["content-disposition"]
        assert got.content


@pytest.mark.parametrize(
    "title",
    ['a"b\\c', "../../etc/passwd", "line\u2028break", "日本語", "x; filename=evil.exe", "%0d%0aSet-Cookie: a=b"],
)
async def test_a_title_cannot_break_out_of_the_file_name(running_on_sqlite: RunningApp, title: str) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        body = (await client.post(PATH, json={"title": title})).json()
        got = await client.get(f"{PATH}/{body['id']}/export")
        disposition = got.headers["content-disposition"]
        plain = disposition.split('"')[1]
        assert plain.removesuffix(".json").replace("-", "").isalnum()
        assert disposition.isascii()
        assert disposition.count(";") == 2
        assert "set-cookie" not in got.headers


async def test_an_unknown_format_is_refused(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.signed_in("ann") as client:
        conversation = await begun(running_on_sqlite, client)
        problem(await client.get(f"{PATH}/{conversation.id}/export?format=pdf"), 400, "invalid_input")


async def test_a_long_conversation_is_read_in_pieces_that_hold_no_connection(
    running: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botpress/botpress#5150: transcripts of 10,000 messages in constant memory, in order."""
    database = running.context.database
    largest = 0
    read_batch = queries.messages_in_order

    async def watched(*arguments: Any, **named: Any) -> Any:
        nonlocal largest
        batch = await read_batch(*arguments, **named)
        largest = max(largest, len(batch))
        return batch

    monkeypatch.setattr(queries, "messages_in_order", watched)
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        async with database.write() as session:
            locked = await owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
            ids = await add_long_chain(session, locked, 10_000)
    export = await running.context.conversations.export(
        UserId(conversation.user_id), conversation.id, ExportFormat.NDJSON
    )
    exported = []
    async for piece in export.pieces():
        assert database.reader.pool.checkedout() == 0  # type: ignore[attr-defined]
        exported += [json.loads(line) for line in piece.splitlines()]
    assert [line["message"]["id"] for line in exported[1:]] == ids
    assert largest == MESSAGES_PER_PIECE


async def test_messages_that_come_during_an_export_stay_out_of_it(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("a", "b")
        export = await running.context.conversations.export(
            UserId(conversation.user_id), conversation.id, ExportFormat.JSON
        )
        await conversation.grow("c")
        body = json.loads(b"".join([piece async for piece in export.pieces()]))
        assert [message["content"] for message in body["messages"]] == ["a", "b"]


async def test_an_export_of_what_was_deleted_meanwhile_breaks_off(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        await conversation.grow("a", "b")
        export = await running.context.conversations.export(
            UserId(conversation.user_id), conversation.id, ExportFormat.JSON
        )
        await client.delete(f"{PATH}/{conversation.id}")
        with pytest.raises(ExportCut):
            async for _ in export.pieces():
                pass
