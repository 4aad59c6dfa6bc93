"""The search index is in step with the rows it is about, whatever happens, and is what searches go by."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from sqlalchemy import delete, event, select, text, update

from app.accounts.models import User
from app.conversations import listing
from app.conversations.full_text import owner_word
from app.conversations.models import Conversation, ConversationTag, Message, MessageStatus, SearchDocument
from app.conversations.search_index import IndexUpgrade
from app.conversations.words import words_of
from app.database import Database
from tests.app.responses.chat import Chat

PATH = "/api/v1/conversations"
WORDS = ["river", "stone", "北京", "天气", "Café", "🎉", "lamp", "!"]


async def require_in_step(database: Database) -> None:
    """Exactly the final messages and the titles are documents, with exactly their words; and tags likewise."""
    async with database.read() as session:
        wanted = {
            (row.id, None, f"{row.title}"): owner_word(row.user_id)
            for row in await session.scalars(select(Conversation))
            if words_of(row.title)
        }
        messages = select(Message, Conversation.user_id).join(Conversation)
        wanted |= {
            (row.conversation_id, row.id, row.content): owner_word(user_id)
            for row, user_id in await session.execute(messages)
            if MessageStatus(row.status).is_final and words_of(row.content)
        }
        expected = sorted(
            (conversation_id, message_id or "", sorted([owner, *words_of(content)]))
            for (conversation_id, message_id, content), owner in wanted.items()
        )
        columns = "conversation_id, message_id, "
        columns += "words" if database.is_sqlite else "array_to_string(tsvector_to_array(words), ' ')"
        rows = await session.execute(text(f"SELECT {columns} FROM search_documents"))
        assert sorted((row[0], row[1] or "", sorted(row[2].split())) for row in rows) == expected
        tags = {(row.id, tag) for row in await session.scalars(select(Conversation)) for tag in row.tags}
        assert {(row.conversation_id, row.tag) for row in await session.scalars(select(ConversationTag))} == tags
    if database.is_sqlite:
        async with database.write() as session:
            # Fails where the index does not say exactly what the table says.
            await session.execute(text("INSERT INTO search_index (search_index, rank) VALUES ('integrity-check', 1)"))


async def test_after_any_operations_the_index_says_what_the_rows_say(chat: Chat) -> None:
    chance = random.Random(7)
    ids = [chat.id]

    def some_text() -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))

    for _ in range(60):
        action = chance.choice(["create", "say", "cancel", "rename", "tag", "delete", "keep", "regenerate"])
        chat.id = chance.choice(ids)
        if action == "create" or len(ids) < 2:
            body = {"title": some_text() + " x", "tags": chance.sample(WORDS, 2), "temporary": chance.random() < 0.3}
            ids.append((await chat.post("conversations", body)).json()["id"])
        elif action == "say":
            await chat.turn(some_text() + " x")
        elif action == "cancel":
            body = await chat.say(some_text() + " x")
            await chat.cancel(body["response"]["id"])
            await chat.ended(body["response"]["id"])
        elif action == "regenerate":
            question = (await chat.say("again"))["message"]["id"]
            answer = await chat.regenerate(question)
            await chat.ended(answer["response"]["id"])
        elif action == "rename":
            await chat.http.patch(f"{PATH}/{chat.id}", json={"title": some_text() + " y"})
        elif action == "tag":
            await chat.http.patch(f"{PATH}/{chat.id}", json={"tags": chance.sample(WORDS, chance.randint(0, 3))})
        elif action == "keep":
            await chat.http.patch(f"{PATH}/{chat.id}", json={"temporary": chance.random() < 0.5})
        else:
            await chat.http.delete(f"{PATH}/{chat.id}")
            ids.remove(chat.id)
    await require_in_step(chat.context.database)


async def test_an_answer_that_is_being_made_is_not_in_the_index(chat: Chat) -> None:
    await chat.say("hello")
    await require_in_step(chat.context.database)


async def test_what_goes_with_its_owner_goes_from_the_index_too(chat: Chat) -> None:
    await chat.turn("hello there")
    database = chat.context.database
    async with database.write() as session:
        await session.execute(delete(User))
    async with database.read() as session:
        assert (await session.scalars(select(SearchDocument.number))).all() == []
    await require_in_step(database)


async def test_what_an_older_version_has_stored_is_put_into_the_index(chat: Chat) -> None:
    await chat.turn("hello there")
    database = chat.context.database
    async with database.write() as session:
        await session.execute(delete(SearchDocument))
        await session.execute(update(Conversation).values(search_version=0))
    await IndexUpgrade(database).run()
    await require_in_step(database)
    async with database.read() as session:
        assert set(await session.scalars(select(Conversation.search_version))) == {1}


async def plans(chat: Chat, **query: str) -> list[str]:
    """How the database goes about each statement of a list that reads conversations or what is said in them."""
    database = chat.context.database
    statements: list[tuple[str, Any]] = []

    def note(connection: object, cursor: object, statement: str, parameters: object, *rest: object) -> None:
        reads = "FROM conversations" in statement or "FROM search_documents" in statement
        if reads and not statement.startswith("EXPLAIN"):
            statements.append((statement, parameters))

    event.listen(database.reader.sync_engine, "before_cursor_execute", note)
    answer = await chat.http.get(PATH, params=query)
    event.remove(database.reader.sync_engine, "before_cursor_execute", note)
    assert answer.json()["items"], query
    explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
    found = []
    async with database.read() as session:
        connection = await session.connection()
        if not database.is_sqlite:
            # It would read twenty rows at once rather than go by any index.
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in statements:
            rows = await connection.exec_driver_sql(explain + statement, parameters)
            found.append("\n".join(str(row[-1]) for row in rows))
    return found


def require_no_scan(plan: str) -> None:
    assert not re.search(
        r"SCAN (conversations|messages|search_documents|conversation_tags)\b(?! USING)|Seq Scan", plan
    ), plan


async def test_every_list_goes_by_an_index(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        await chat.post("conversations", {"title": f"river {number}", "tags": ["a"]})
    queries: list[dict[str, str]] = [{}, {"archived": "false"}, {"state": "bot"}, {"limit": "5"}]
    queries += [{"q": "river"}, {"tag": "a"}, {"q": "river", "tag": "a"}]
    for query in queries:
        for plan in await plans(chat, **query):
            require_no_scan(plan)
    (plain,) = await plans(chat)
    assert "ix_conversations_user_id_" in plain
    assert "TEMP B-TREE" not in plain
    first, *_ = await plans(chat, q="river")
    # Of the page only: to sort what is looked at would be to look at all of it, however early the page is full.
    assert first.count("TEMP B-TREE") <= 1
    assert "ix_conversations_user_id_" in first
    assert "ix_search_documents_conversation_id" in first
    # And when the first look says that little fits:
    monkeypatch.setattr(listing, "FIRST_LOOK", 1)
    monkeypatch.setattr(listing, "FITTING_SHARE", 2.0)
    for query, index in [({"q": "river"}, "search_index"), ({"tag": "a"}, "conversation_tags")]:
        _, by_index, *_ = await plans(chat, **query)
        assert index in by_index
        # What was found is met by going through the list in its order, or read by its ids.
        assert by_index.count("ix_conversations_user_id_") == 1
        require_no_scan(by_index)
