"""Reading messages over REST: pages of a path, branches, and answers that are being made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import event, update

from app.conversations import tree
from app.conversations.live import LiveAnswer
from app.conversations.models import Message, MessageStatus
from app.conversations.service import ConversationService
from app.identifiers import UserId, new_id
from app.pagination import encode_cursor
from tests.support.client import RunningApp, problem
from tests.support.trees import add_long_chain, grow

PATH = "/api/v1/conversations"


class Conversation:
    """One conversation of Ann's, as she sees it over REST."""

    def __init__(self, running: RunningApp, client: httpx.AsyncClient, user_id: str, conversation_id: str) -> None:
        self.running = running
        self.client = client
        self.user_id = user_id
        self.id = conversation_id

    async def grow(self, *texts: str, parent_id: str | None = None) -> list[Message]:
        return await grow(self.running.context.database, self.user_id, self.id, texts, parent_id)

    async def page(self, **query: Any) -> dict[str, Any]:
        answer = await self.client.get(f"{PATH}/{self.id}/messages", params=query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    async def texts(self, **query: Any) -> list[str]:
        """The contents of every page."""
        texts: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self.page(**query, **cursor)
            texts += [item["content"] for item in page["items"]]
            if page["next_cursor"] is None:
                return texts
            cursor = {"cursor": page["next_cursor"]}


async def begun(running: RunningApp, client: httpx.AsyncClient) -> Conversation:
    user_id = (await client.get("/api/v1/me")).json()["id"]
    body = (await client.post(PATH, json={})).json()
    return Conversation(running, client, user_id, body["id"])


async def test_a_message_is_shown_with_all_a_client_needs(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, answer = await conversation.grow("hello", "hi")
        page = await conversation.page()
        assert page["items"][1] == {
            "id": question.id,
            "parent_id": None,
            "role": "user",
            "content": "hello",
            "status": "completed",
            "usage": None,
            "created_at": "2026-12-01T12:00:00Z",
            "children": [answer.id],
            "response_id": None,
            "last_seq": 0,
            "author": None,
            "feedback": None,
        }
        assert (page["next_cursor"], page["roots"]) == (None, [question.id])


async def test_an_empty_conversation_has_an_empty_page(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        assert await conversation.page() == {"items": [], "next_cursor": None, "roots": []}


async def test_pages_of_a_path_are_newest_first_and_whole_at_any_size(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        texts = [f"m{number}" for number in range(7)]
        await conversation.grow(*texts)
        for limit in (1, 2, 3, 6, 7, 8, 200):
            assert await conversation.texts(limit=limit) == texts[::-1]


async def test_earlier_pages_stay_the_same_while_the_conversation_grows(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        added = await conversation.grow("a", "b", "c", "d")
        first = await conversation.page(limit=2)
        await conversation.grow("e", "f", parent_id=added[-1].id)
        await conversation.grow("another root")
        second = await conversation.page(limit=2, cursor=first["next_cursor"])
        assert [item["content"] for item in first["items"] + second["items"]] == ["d", "c", "b", "a"]


async def test_every_branch_can_be_found_and_shown(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, answer = await conversation.grow("hello", "hi")
        (regenerated,) = await conversation.grow("hey", parent_id=question.id)
        edited = await conversation.grow("hullo", "good day")
        onwards = await conversation.grow("and?", "…", parent_id=answer.id)
        newest = await conversation.page()
        assert [item["content"] for item in newest["items"]] == ["…", "and?", "hi", "hello"]
        assert newest["items"][-1]["children"] == [answer.id, regenerated.id]
        assert newest["roots"] == [question.id, edited[0].id]
        assert await conversation.texts(leaf=regenerated.id) == ["hey", "hello"]
        assert await conversation.texts(leaf=edited[1].id) == ["good day", "hullo"]
        assert await conversation.texts(leaf=onwards[1].id, limit=1) == ["…", "and?", "hi", "hello"]


async def test_a_message_that_is_no_leaf_stands_for_the_newest_leaf_below_it(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        question, answer = await conversation.grow("hello", "hi")
        await conversation.grow("first", "1", parent_id=answer.id)
        await conversation.grow("second", "2", parent_id=answer.id)
        (regenerated,) = await conversation.grow("hey", parent_id=question.id)
        assert await conversation.texts(leaf=answer.id) == ["2", "second", "hi", "hello"]
        assert await conversation.texts(leaf=question.id) == ["hey", "hello"]
        assert await conversation.texts(leaf=regenerated.id) == ["hey", "hello"]


async def test_a_leaf_of_somebody_else_or_of_nobody_is_not_found(running: RunningApp) -> None:
    async with running.signed_in("ann") as client, running.signed_in("bob") as other:
        conversation, foreign = await begun(running, client), await begun(running, other)
        (secret,) = await foreign.grow("secret")
        answers = [
            await client.get(f"{PATH}/{conversation.id}/messages", params={"leaf": leaf})
            for leaf in (secret.id, new_id(), "x", "\x00", "")
        ]
        bodies = [{**problem(answer, 404, "not_found"), "trace_id": ""} for answer in answers]
        assert all(body == bodies[0] for body in bodies)


async def test_a_cursor_of_another_list_is_refused(running: RunningApp) -> None:
    async with running.signed_in("ann") as client, running.signed_in("bob") as other:
        conversation, foreign = await begun(running, client), await begun(running, other)
        await conversation.grow("a", "b")
        await foreign.grow("c", "d")
        theirs = (await foreign.page(limit=1))["next_cursor"]
        for _ in range(2):
            await client.post(PATH, json={})
        conversations = (await client.get(PATH, params={"limit": 1})).json()["next_cursor"]
        for cursor in (theirs, conversations, "x", "", "e30", "A" * 600):
            answer = await client.get(f"{PATH}/{conversation.id}/messages", params={"cursor": cursor})
            problem(answer, 400, "invalid_cursor")


class OneLiveAnswer:
    """An answer that has come further than the database knows."""

    def __init__(self, response_id: str, content: str, last_seq: int) -> None:
        self.known = {response_id: LiveAnswer(content, last_seq, MessageStatus.IN_PROGRESS)}

    def snapshot(self, response_id: str) -> LiveAnswer | None:
        return self.known.get(response_id)


async def test_a_running_answer_is_shown_as_far_as_it_has_come(running: RunningApp) -> None:
    database = running.context.database
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        _, answer = await conversation.grow("hello", "hi")
    response_id = new_id()
    live = OneLiveAnswer(response_id, "hi the", 7)
    service = ConversationService(
        database, running.context.idempotency, live, temporary_lifetime=timedelta(1), now=running.clock.now
    )
    user_id = UserId(conversation.user_id)

    async def shown(status: MessageStatus) -> tuple[str, str, int]:
        async with database.write() as session:
            values = {"status": status, "response_id": response_id, "last_seq": 3}
            await session.execute(update(Message).where(Message.id == answer.id).values(**values))
        page = await service.messages(user_id, conversation.id, leaf_id=None, limit=50, cursor=None)
        return page.items[0].status, page.items[0].content, page.items[0].last_seq

    # The database hears of it a moment later.
    assert await shown(MessageStatus.QUEUED) == ("in_progress", "hi the", 7)
    assert await shown(MessageStatus.IN_PROGRESS) == ("in_progress", "hi the", 7)
    assert await shown(MessageStatus.COMPLETED) == ("completed", "hi", 3)
    live.known.clear()
    assert await shown(MessageStatus.IN_PROGRESS) == ("in_progress", "hi", 3)


@pytest.mark.parametrize("limit", [50, 200])
async def test_a_page_costs_the_same_few_queries_in_a_conversation_of_10_000(running: RunningApp, limit: int) -> None:
    """open-webui/open-webui#9167: one huge chat slowed everything."""
    database = running.context.database
    async with running.signed_in("ann") as client:
        conversation = await begun(running, client)
        async with database.write() as session:
            locked = await tree.owned_conversation(session, conversation.user_id, conversation.id, for_update=True)
            ids = await add_long_chain(session, locked, 10_000)
        await conversation.page(limit=limit)
        statements: list[str] = []

        def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
            statements.append(statement)

        engine = database.reader.sync_engine
        event.listen(engine, "before_cursor_execute", note)
        page = await conversation.page(limit=limit)
        event.remove(engine, "before_cursor_execute", note)
        assert [item["id"] for item in page["items"]] == ids[: -limit - 1 : -1]
        assert sum(statement.lstrip().startswith(("SELECT", "WITH")) for statement in statements) <= 6


async def test_a_cursor_in_the_right_form_with_nonsense_inside_is_refused(running_on_sqlite: RunningApp) -> None:
    from app.conversations.schemas import ConversationCursor, MessageCursor

    async with running_on_sqlite.signed_in("ann") as client:
        conversation = await begun(running_on_sqlite, client)
        await conversation.grow("a", "b")
        for message_id in ("\x00", "x", new_id(), ""):
            cursor = encode_cursor(MessageCursor(message_id))
            answer = await client.get(f"{PATH}/{conversation.id}/messages", params={"cursor": cursor})
            problem(answer, 400, "invalid_cursor")
        for place in (ConversationCursor(0, ""), ConversationCursor(253_402_300_799_999_999, "\uffff")):
            answer = await client.get(PATH, params={"cursor": encode_cursor(place)})
            assert answer.status_code in (200, 400)
