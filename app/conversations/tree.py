"""The tree of messages in SQL: adding to it and walking it. Called by this room's service and by `app.responses`, inside their
own unit of work; nothing here commits.

Adding a message writes three rows at most, whatever the length of the conversation, and reading a page of a path reads that
page only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from sqlalchemy import CTE, BindParameter, Integer, Select, bindparam, literal, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased, load_only

from app.accounts.identity import Identity
from app.conversations.models import Conversation, Message, MessageStatus, TitleSource
from app.conversations.search_index import index_texts
from app.errors import NotFound
from app.identifiers import is_id, new_id
from engine.types import Role

TITLE_CHARS = 60
"""A title made from a first message is cut here: what a list of conversations shows in one line."""

SHOWN_COLUMNS = (
    Message.id,
    Message.conversation_id,
    Message.parent_id,
    Message.ordinal,
    Message.role,
    Message.content,
    Message.status,
    Message.response_id,
    Message.last_seq,
    Message.usage,
    Message.author_id,
    Message.author_name,
    Message.created_at,
)
"""What clients see of a message; the token ids, which can be larger than its text, are not read."""


async def owned_conversation(
    session: AsyncSession, user_id: str, conversation_id: str, *, for_update: bool = False
) -> Conversation:
    """The caller's conversation. With `for_update` nobody else adds to it until this unit of work ends.

    Raises NotFound for an unknown id, a malformed one and somebody else's.
    """
    if is_id(conversation_id):
        statement = select(Conversation).where(Conversation.id == conversation_id, Conversation.user_id == user_id)
        if for_update:
            statement = statement.with_for_update()
        if (conversation := await session.scalar(statement)) is not None:
            return conversation
    raise NotFound("there is no such conversation")


async def owns(session: AsyncSession, user_id: str, conversation_id: str) -> bool:
    """Whether there is such a conversation of the caller's."""
    if not is_id(conversation_id):
        return False
    statement = select(Conversation.id).where(Conversation.id == conversation_id, Conversation.user_id == user_id)
    return await session.scalar(statement) is not None


async def held_conversation(session: AsyncSession, conversation_id: str) -> Conversation | None:
    """A conversation, whoever's it is, which nobody else changes until this unit of work ends. For the server itself."""
    return await session.scalar(select(Conversation).where(Conversation.id == conversation_id).with_for_update())


async def find_message(session: AsyncSession, conversation_id: str, message_id: str) -> Message:
    """A message of a conversation the caller owns. Raises NotFound."""
    if is_id(message_id):
        statement = select(Message).where(Message.id == message_id, Message.conversation_id == conversation_id)
        if (message := await session.scalar(statement)) is not None:
            return message
    raise NotFound("there is no such message in this conversation")


async def exists(session: AsyncSession, message_id: str) -> bool:
    """Whether there is such a message, whoever's it is."""
    return await session.get(Message, message_id) is not None


async def message_by_client_id(session: AsyncSession, conversation_id: str, client_message_id: str) -> Message | None:
    """The message that a client has sent before under this id."""
    return await session.scalar(
        select(Message).where(
            Message.conversation_id == conversation_id, Message.client_message_id == client_message_id
        )
    )


async def add_message(
    session: AsyncSession,
    conversation: Conversation,
    *,
    role: Role,
    content: str,
    parent_id: str | None,
    status: MessageStatus,
    now: datetime,
    message_id: str | None = None,
    client_message_id: str | None = None,
    response_id: str | None = None,
    author: Identity | None = None,
) -> Message:
    """Add one message below `parent_id`, or as a root, and make it the newest leaf.

    `conversation` comes from `owned_conversation(…, for_update=True)` and `parent_id` from `find_message` or the
    conversation itself. Changes the conversation's leaf, ordinal and time, and its title where it has none yet. What has its
    final text is found by a search from here on.
    """
    conversation.last_ordinal += 1
    message = Message(
        id=message_id or new_id(),
        conversation_id=conversation.id,
        parent_id=parent_id,
        ordinal=conversation.last_ordinal,
        role=role,
        content=content,
        status=status,
        client_message_id=client_message_id,
        response_id=response_id,
        last_seq=0,
        token_ids=None,
        usage=None,
        author_id=author and author.user_id,
        author_name=author and author.username,
        created_at=now,
    )
    session.add(message)
    conversation.leaf_id = message.id
    conversation.updated_at = now
    has_new_title = not conversation.title and role is Role.USER
    if has_new_title:
        conversation.title, conversation.title_source = title_of(content), TitleSource.MESSAGE
    # A parent and its child may be added in one unit of work, and no relationship tells SQLAlchemy which row goes first.
    await session.flush()
    new_texts: list[tuple[str | None, str]] = [(message.id, content)] if status.is_final else []
    if has_new_title:
        new_texts.append((None, conversation.title))
    await index_texts(session, conversation.user_id, conversation.id, new_texts)
    return message


def title_of(content: str) -> str:
    """The first line with something in it, cut at a word where there is one."""
    line = next((" ".join(line.split()) for line in content.splitlines() if line.strip()), "")
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[: TITLE_CHARS - 1]
    head, space, _ = cut.rpartition(" ")
    return (head if space and len(head) > TITLE_CHARS // 2 else cut).rstrip() + "…"


class PathMessage(NamedTuple):
    """What a prompt needs of a message. Plain values, because a path may have thousands of them for every turn."""

    role: str
    content: str
    status: str
    token_ids: bytes | None


async def path(session: AsyncSession, conversation_id: str, leaf_id: str | None) -> list[PathMessage]:
    """The messages from the root to `leaf_id`; empty without a leaf, and for a foreign one or one that cannot be an id."""
    if leaf_id is None or not is_id(leaf_id):
        return []
    rows = await session.execute(_path_statement(), {"conversation_id": conversation_id, "start_id": leaf_id})
    return [PathMessage(*row) for row in rows]


async def path_page(session: AsyncSession, conversation_id: str, start_id: str, limit: int) -> list[Message]:
    """At most `limit` messages from `start_id` towards the root, the newest first, without their token ids."""
    start = {"conversation_id": conversation_id, "start_id": start_id}
    return list((await session.scalars(_page_statement(), {**start, "limit": limit})).all())


# Built once: every turn reads its path, and to build this takes three times as long as to run it.


@cache
def _path_statement() -> Select[str, str, str, bytes | None]:
    walk = _walk(limit=None)
    columns = select(Message.role, Message.content, Message.status, Message.token_ids)
    return columns.join(walk, Message.id == walk.c.id).order_by(walk.c.step.desc())


@cache
def _page_statement() -> Select[Message]:
    walk = _walk(limit=bindparam("limit", type_=Integer()))
    shown = load_only(*SHOWN_COLUMNS, raiseload=True)
    return select(Message).join(walk, Message.id == walk.c.id).order_by(walk.c.step).options(shown)


def _walk(*, limit: BindParameter[int] | None) -> CTE:
    """The ids from `start_id` of `conversation_id` towards the root, each with its `step`."""
    walk = (
        select(Message.id, Message.parent_id, literal(1).label("step"))
        .where(Message.id == bindparam("start_id"), Message.conversation_id == bindparam("conversation_id"))
        .cte("walk", recursive=True)
    )
    above = aliased(Message)
    # A subquery and not a join: each step is then one look-up by primary key, also where PostgreSQL has no statistics yet
    # and would read the whole table once per step.
    grandparent_id = select(above.parent_id).where(above.id == walk.c.parent_id).scalar_subquery()
    onwards = select(walk.c.parent_id, grandparent_id, walk.c.step + 1).where(walk.c.parent_id.is_not(None))
    if limit is not None:
        onwards = onwards.where(walk.c.step < limit)
    return walk.union_all(onwards)


async def newest_leaf_below(session: AsyncSession, message: Message) -> str:
    """The leaf that was reached last from this message on; the message itself when nothing follows it."""
    newest = message.id
    below = {message.id}
    # A message is always younger than its parent, so one pass in the order of age finds all that follow.
    later = (
        select(Message.id, Message.parent_id)
        .where(Message.conversation_id == message.conversation_id, Message.ordinal > message.ordinal)
        .order_by(Message.ordinal)
    )
    for message_id, parent_id in await session.execute(later):
        if parent_id in below:
            below.add(message_id)
            newest = message_id
    return newest


async def children_of(session: AsyncSession, conversation_id: str, parent_ids: Sequence[str]) -> dict[str, list[str]]:
    """The ids of the children of each of these messages, in the order in which they were added."""
    children: dict[str | None, list[str]] = defaultdict(list)
    statement = (
        select(Message.parent_id, Message.id)
        .where(Message.conversation_id == conversation_id, Message.parent_id.in_(parent_ids))
        .order_by(Message.ordinal)
    )
    for parent_id, message_id in await session.execute(statement):
        children[parent_id].append(message_id)
    return {parent_id: children[parent_id] for parent_id in parent_ids}


async def roots_of(session: AsyncSession, conversation_id: str) -> list[str]:
    """The ids of the messages without a parent, in the order in which they were added."""
    statement = (
        select(Message.id)
        .where(Message.conversation_id == conversation_id, Message.parent_id.is_(None))
        .order_by(Message.ordinal)
    )
    return list((await session.scalars(statement)).all())
