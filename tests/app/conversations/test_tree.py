"""The tree of messages in SQL: what `app.responses` grows it with."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.exc import IntegrityError

from app.accounts.models import User, UserRole
from app.conversations import tree
from app.conversations.models import Conversation, Message, MessageStatus
from app.database import Database
from app.errors import NotFound
from app.identifiers import new_id
from engine.types import Role
from tests.support.trees import MOMENT, add_conversation, add_long_chain, grow


@pytest.fixture
async def user_id(database: Database) -> str:
    user = User(
        id=new_id(), username="ann", role=UserRole.USER, password_hash=None, created_at=MOMENT, disabled_at=None
    )
    async with database.write() as session:
        session.add(user)
    return user.id


@pytest.fixture
async def conversation(database: Database, user_id: str) -> Conversation:
    async with database.write() as session:
        return await add_conversation(session, user_id)


async def fresh(database: Database, conversation: Conversation) -> Conversation:
    async with database.read() as session:
        return await tree.owned_conversation(session, conversation.user_id, conversation.id)


async def test_messages_are_counted_in_the_order_they_come(database: Database, conversation: Conversation) -> None:
    added = await grow(database, conversation.user_id, conversation.id, ["hello", "hi", "and?"])
    assert [message.ordinal for message in added] == [1, 2, 3]
    now = await fresh(database, conversation)
    assert (now.leaf_id, now.last_ordinal, now.updated_at) == (added[-1].id, 3, MOMENT)


async def test_a_path_goes_from_the_root_to_its_leaf_and_into_no_other_branch(
    database: Database, conversation: Conversation
) -> None:
    owner = conversation.user_id
    trunk = await grow(database, owner, conversation.id, ["hello", "hi"])
    (other_answer,) = await grow(database, owner, conversation.id, ["hey"], trunk[0].id)
    (other_root,) = await grow(database, owner, conversation.id, ["hullo"])
    onwards = await grow(database, owner, conversation.id, ["and?", "…"], trunk[1].id)
    async with database.read() as session:

        async def texts(leaf_id: str | None) -> list[str]:
            return [message.content for message in await tree.path(session, conversation.id, leaf_id)]

        assert await texts(onwards[-1].id) == ["hello", "hi", "and?", "…"]
        assert await texts(other_answer.id) == ["hello", "hey"]
        assert await texts(other_root.id) == ["hullo"]
        assert await texts(None) == []
        assert await texts(new_id()) == []
        children = await tree.children_of(session, conversation.id, [trunk[0].id, other_answer.id])
        assert children == {trunk[0].id: [trunk[1].id, other_answer.id], other_answer.id: []}
        assert await tree.roots_of(session, conversation.id) == [trunk[0].id, other_root.id]
        assert await tree.newest_leaf_below(session, trunk[0]) == onwards[-1].id
        assert await tree.newest_leaf_below(session, other_answer) == other_answer.id


async def test_messages_of_another_conversation_are_never_part_of_a_path(
    database: Database, conversation: Conversation
) -> None:
    async with database.write() as session:
        other = await add_conversation(session, conversation.user_id)
    (foreign, *_) = await grow(database, conversation.user_id, other.id, ["secret", "answer"])
    async with database.read() as session:
        assert await tree.path(session, conversation.id, foreign.id) == []
        assert await tree.children_of(session, conversation.id, [foreign.id]) == {foreign.id: []}
        with pytest.raises(NotFound):
            await tree.find_message(session, conversation.id, foreign.id)


@pytest.mark.parametrize("wrong", ["x", "", "\x00", "\ud800", "%", "a" * 100_000])
async def test_malformed_ids_are_not_found(database: Database, conversation: Conversation, wrong: str) -> None:
    async with database.read() as session:
        with pytest.raises(NotFound):
            await tree.owned_conversation(session, conversation.user_id, wrong)
        with pytest.raises(NotFound):
            await tree.find_message(session, conversation.id, wrong)
        assert await tree.path(session, conversation.id, wrong) == []


async def test_somebody_elses_conversation_is_not_found(database: Database, conversation: Conversation) -> None:
    async with database.read() as session:
        with pytest.raises(NotFound):
            await tree.owned_conversation(session, new_id(), conversation.id)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("What is the capital of France?", "What is the capital of France?"),
        ("\n\n  first line  \nsecond", "first line"),
        ("a\tb   c", "a b c"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 30, "word " * 10 + "word…"),
        ("日" * 100, "日" * 59 + "…"),
        ("   ", ""),
    ],
)
async def test_the_first_message_gives_the_title(
    database: Database, conversation: Conversation, content: str, title: str
) -> None:
    await grow(database, conversation.user_id, conversation.id, [content, "an answer"])
    assert (await fresh(database, conversation)).title == title
    assert len(title) <= tree.TITLE_CHARS


async def test_a_title_that_was_given_stays(database: Database, user_id: str) -> None:
    async with database.write() as session:
        conversation = await add_conversation(session, user_id, "Mine")
    await grow(database, user_id, conversation.id, ["hello"])
    assert (await fresh(database, conversation)).title == "Mine"


async def test_a_client_message_id_stands_for_one_message(database: Database, conversation: Conversation) -> None:
    async def add(parent_id: str | None) -> Message:
        async with database.write() as session:
            locked = await tree.owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
            return await tree.add_message(
                session,
                locked,
                role=Role.USER,
                content="hello",
                parent_id=parent_id,
                status=MessageStatus.COMPLETED,
                now=MOMENT,
                client_message_id="c1",
            )

    message = await add(None)
    async with database.read() as session:
        found = await tree.message_by_client_id(session, conversation.id, "c1")
        assert found is not None
        assert found.id == message.id
        assert await tree.message_by_client_id(session, conversation.id, "c2") is None
    with pytest.raises(IntegrityError):
        await add(message.id)
    assert (await fresh(database, conversation)).last_ordinal == 1


async def test_many_that_add_at_once_get_an_ordinal_each(database: Database, conversation: Conversation) -> None:
    """bytedance/deer-flow#3353: concurrent writers failed or took the same number."""
    adding = [grow(database, conversation.user_id, conversation.id, [f"m{number}"]) for number in range(25)]
    added = [messages[0] for messages in await asyncio.gather(*adding)]
    assert sorted(message.ordinal for message in added) == list(range(1, 26))
    assert (await fresh(database, conversation)).last_ordinal == 25


async def test_adding_to_a_long_conversation_writes_three_rows_and_reads_no_history(
    database: Database, conversation: Conversation
) -> None:
    """open-webui/open-webui#13116: each new message rewrote the whole chat."""
    async with database.write() as session:
        locked = await tree.owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
        ids = await add_long_chain(session, locked, 10_000)
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    event.listen(database.writer.sync_engine, "before_cursor_execute", note)
    await grow(database, conversation.user_id, conversation.id, ["one more"], ids[-1])
    event.remove(database.writer.sync_engine, "before_cursor_execute", note)
    reads, *writes = [statement for statement in statements if not statement.startswith("BEGIN")]
    assert "FROM conversations" in reads
    assert sorted(statement.split()[0] for statement in writes) == ["INSERT", "INSERT", "UPDATE"]


async def test_a_long_path_is_walked_whole(database: Database, conversation: Conversation) -> None:
    async with database.write() as session:
        locked = await tree.owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
        ids = await add_long_chain(session, locked, 10_000)
    async with database.read() as session:
        path = await tree.path(session, conversation.id, ids[-1])
        shown = list(reversed(await tree.path_page(session, conversation.id, ids[-1], len(ids))))
        assert [message.id for message in shown] == ids
        assert [(message.role, message.content) for message in path] == [(one.role, one.content) for one in shown]
        assert await tree.newest_leaf_below(session, shown[0]) == ids[-1]


async def test_a_long_conversation_is_deleted_whole(database: Database, conversation: Conversation) -> None:
    """Deleting along the chain of parents would recurse once per message, and both databases stop at some depth."""
    async with database.write() as session:
        locked = await tree.owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
        await add_long_chain(session, locked, 10_000)
    async with database.write() as session:
        await session.delete(await session.get_one(Conversation, conversation.id))
    async with database.read() as session:
        assert await session.scalar(select(func.count()).select_from(Message)) == 0
