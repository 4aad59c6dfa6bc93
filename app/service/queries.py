"""SQL of customer service. What an agent may see is inside each statement; nothing here commits.

An agent sees what waits for a person, what a person answers, and what was handed to them before; anything else is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, exists, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.models import User
from app.conversations.models import Conversation
from app.database import chunks
from app.errors import NotFound
from app.identifiers import is_id
from app.service.models import CannedAnswer, StateChange
from app.service.states import ConversationState

OPEN_STATES = (ConversationState.QUEUED, ConversationState.HUMAN)


class InboxRow(NamedTuple):
    """A conversation, and what its person is called."""

    conversation: Conversation
    username: str


class Waiting(NamedTuple):
    """How many wait for a person, since when the first of them does, and how many people are answered by one."""

    queued: int
    oldest: datetime | None
    human: int
    mine: int


def _may_see(agent_id: str) -> ColumnElement[bool]:
    was_handed_over = exists().where(StateChange.agent_id == agent_id, StateChange.conversation_id == Conversation.id)
    return or_(Conversation.state.in_(OPEN_STATES), was_handed_over)


async def inbox_page(
    session: AsyncSession,
    *,
    state: ConversationState,
    agent_id: str | None,
    limit: int,
    behind: tuple[datetime, str] | None,
) -> list[InboxRow]:
    """At most `limit` conversations in a state, the one that has been in it for longest first, from behind a place on."""
    statement = select(Conversation, User.username).join(User, User.id == Conversation.user_id)
    statement = statement.where(Conversation.state == state)
    if agent_id is not None:
        statement = statement.where(Conversation.agent_id == agent_id)
    place = tuple_(Conversation.state_since, Conversation.id)
    if behind is not None:
        statement = statement.where(place > behind)
    statement = statement.order_by(Conversation.state_since, Conversation.id).limit(limit)
    return [InboxRow(*row) for row in await session.execute(statement)]


async def seen_conversation(
    session: AsyncSession, agent_id: str, conversation_id: str, *, for_update: bool = False
) -> InboxRow:
    """One that the agent may see. Raises NotFound for every other one, and for an id that is none."""
    if is_id(conversation_id):
        statement = (
            select(Conversation, User.username)
            .join(User, User.id == Conversation.user_id)
            .where(Conversation.id == conversation_id, _may_see(agent_id))
        )
        if for_update:
            statement = statement.with_for_update(of=Conversation)
        if (row := (await session.execute(statement)).first()) is not None:
            return InboxRow(*row)
    raise NotFound("there is no such conversation")


async def waiting(session: AsyncSession, agent_id: str) -> Waiting:
    """What the inbox counts."""
    queued = await session.execute(
        select(func.count(), func.min(Conversation.state_since)).where(Conversation.state == ConversationState.QUEUED)
    )
    count, oldest = queued.one()
    human = Conversation.state == ConversationState.HUMAN
    answered = await session.scalar(select(func.count()).select_from(Conversation).where(human)) or 0
    mine = select(func.count()).select_from(Conversation).where(human, Conversation.agent_id == agent_id)
    return Waiting(count, oldest, answered, await session.scalar(mine) or 0)


async def last_changes(session: AsyncSession, conversation_ids: Collection[str]) -> dict[str, StateChange]:
    """The last change of each of these conversations."""
    found: dict[str, StateChange] = {}
    for chunk in chunks(conversation_ids):
        newest = (
            select(func.max(StateChange.number))
            .where(StateChange.conversation_id.in_(chunk))
            .group_by(StateChange.conversation_id)
        )
        for change in await session.scalars(select(StateChange).where(StateChange.number.in_(newest))):
            found[change.conversation_id] = change
    return found


async def answered_by_people(session: AsyncSession, conversation_ids: Collection[str]) -> set[str]:
    """Those of these conversations that a person answers."""
    found: set[str] = set()
    for chunk in chunks(conversation_ids):
        statement = select(Conversation.id).where(
            Conversation.id.in_(chunk), Conversation.state == ConversationState.HUMAN
        )
        found.update(await session.scalars(statement))
    return found


async def canned_page(
    session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None
) -> Sequence[CannedAnswer]:
    """At most `limit` of them, the newest first, from behind `before` on."""
    statement = select(CannedAnswer)
    if before is not None:
        statement = statement.where(tuple_(CannedAnswer.created_at, CannedAnswer.id) < before)
    statement = statement.order_by(CannedAnswer.created_at.desc(), CannedAnswer.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()


async def find_canned(session: AsyncSession, canned_id: str, *, for_update: bool = False) -> CannedAnswer:
    """One of them. Raises NotFound."""
    if is_id(canned_id):
        statement = select(CannedAnswer).where(CannedAnswer.id == canned_id)
        if for_update:
            statement = statement.with_for_update()
        if (found := await session.scalar(statement)) is not None:
            return found
    raise NotFound("there is no such canned answer")
