"""A page of one person's conversations, newest first, narrowed by what they are and by what was said in them.

Called by the service inside its unit of work. Whoever narrows by words or by a tag may ask for something that every conversation
has or for something that none has, and no single way is quick for both:

    the list first    go through the newest conversations and look into each: quick when many of them fit
    the index first   collect everything that fits and sort it: quick when little does

So the first few are looked into, and how many of them fit decides how to go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.full_text import full_text
from app.conversations.models import Conversation, ConversationTag, Message, SearchDocument
from app.database import chunks
from app.service.states import ConversationState
from engine.types import Role

FIRST_LOOK = 200
"""Most people have fewer conversations than this; theirs never need the index."""

FITTING_SHARE = 0.025
"""From this share on, the list first is quicker; at it both take about 15 ms, with 100,000 conversations of ten messages."""

FEW = 2000
"""Conversations that can be looked into one by one, with another condition, in about 15 ms."""

MORE_THAN_NEEDED = 1.3
"""A further look goes through so many times what should be enough, because those that fit do not come evenly."""

Place = tuple[datetime, str]
"""Where a conversation stands in the list: when it was updated, and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What is wanted; None is all. `words` must all be in one message, or in the title."""

    archived: bool | None = None
    state: ConversationState | None = None
    tag: str | None = None
    external_id: str | None = None
    words: Sequence[str] | None = None


class FoundText(NamedTuple):
    """The newest message of a conversation that has all words; without `message_id` it is the title."""

    message_id: str | None
    role: Role | None
    text: str


class _Way(NamedTuple):
    """The two ways to one narrowing: whether a conversation fits, and which ones do."""

    fits: ColumnElement[bool]
    fitting: Select[str]


async def conversations_page(
    session: AsyncSession, user_id: str, narrowing: Narrowing, *, limit: int, before: Place | None
) -> Sequence[Conversation]:
    """At most `limit` conversations of this person, the newest first, from behind `before` on. Temporary ones are in no list."""
    if narrowing.words is not None and not narrowing.words:
        return []
    conditions: list[ColumnElement[bool]] = [Conversation.expires_at.is_(None)]
    if narrowing.archived is not None:
        conditions.append(Conversation.archived == narrowing.archived)
    if narrowing.state is not None:
        conditions.append(Conversation.state == narrowing.state)
    if narrowing.external_id is not None:
        conditions.append(Conversation.external_id == narrowing.external_id)
    ways = _ways(session, user_id, narrowing)
    if not ways:
        whole = select(Conversation).where(Conversation.user_id == user_id, *conditions)
        return (await session.scalars(_from_place(whole, before, limit))).all()
    found: list[str] = []
    looked_at, look = 0, FIRST_LOOK
    while len(found) < limit:
        if looked_at and len(found) < looked_at * FITTING_SHARE:
            collected = await _fewest(session, ways)
            checked = [way.fits for way in ways if way is not collected]
            rest = by_index(user_id, [*conditions, *checked], collected)
            found += (await session.scalars(_from_place(rest, before, limit - len(found)))).all()
            break
        rows = (await session.execute(by_list(user_id, conditions, ways, before, look))).all()
        found += [row.id for row in rows if row.fits]
        if not rows or rows[-1].looked_at < look:
            break
        before = (rows[-1].updated_at, rows[-1].id)
        looked_at += look
        share = max(len(found) / looked_at, FITTING_SHARE)
        look = math.ceil(MORE_THAN_NEEDED * (limit - len(found)) / share) + 1
    return await _in_this_order(session, user_id, found[:limit])


def by_list(
    user_id: str, conditions: Sequence[ColumnElement[bool]], ways: Sequence[_Way], before: Place | None, limit: int
) -> Select[str, datetime, bool, int]:
    """Those of the next `limit` conversations of the list that fit, and the last one, from which it goes on. `looked_at` is how
    many there were."""
    columns = select(Conversation.id, Conversation.updated_at, and_(*(way.fits for way in ways)).label("fits"))
    statement = _from_place(columns.where(Conversation.user_id == user_id, *conditions), before, limit)
    looked = statement.cte("looked").prefix_with("MATERIALIZED")
    last = select(looked.c.id).order_by(looked.c.updated_at, looked.c.id).limit(1).scalar_subquery()
    count = select(func.count()).select_from(looked).scalar_subquery()
    return (
        select(looked.c.id, looked.c.updated_at, looked.c.fits, count.label("looked_at"))
        .where(or_(looked.c.fits, looked.c.id == last))
        .order_by(looked.c.updated_at.desc(), looked.c.id.desc())
    )


def by_index(user_id: str, conditions: Sequence[ColumnElement[bool]], way: _Way) -> Select[str]:
    """Every conversation that fits, not yet in order."""
    # Collected by itself, as if nothing else were known of what it is for.
    fitting = way.fitting.cte("fitting").prefix_with("MATERIALIZED")
    known = Conversation.id.in_(select(fitting.c.conversation_id))
    return select(Conversation.id).where(known, _is_owner(user_id), *conditions)


async def _fewest(session: AsyncSession, ways: Sequence[_Way]) -> _Way:
    """The way to collect by; the others are then looked for in what it finds. Tags come last, and are quick to count."""
    last = ways[-1]
    if len(ways) > 1:
        some = last.fitting.limit(FEW + 1).subquery()
        if (await session.scalar(select(func.count()).select_from(some)) or 0) > FEW:
            return ways[0]
    return last


async def found_texts(
    session: AsyncSession, conversation_ids: Sequence[str], words: Sequence[str]
) -> dict[str, FoundText]:
    """What was found in each of these conversations, which all fit."""
    has = full_text(session).has(words)
    newest = func.max(SearchDocument.number).filter(SearchDocument.message_id.is_not(None))
    found: dict[str, FoundText] = {}
    for chunk in chunks(conversation_ids):
        in_these = SearchDocument.conversation_id.in_(chunk)
        numbers = select(newest).where(in_these, has).group_by(SearchDocument.conversation_id)
        messages = (
            select(Message.conversation_id, Message.id, Message.role, Message.content)
            .join(SearchDocument, SearchDocument.message_id == Message.id)
            .where(SearchDocument.number.in_(numbers))
        )
        for row in await session.execute(messages):
            found[row.conversation_id] = FoundText(row.id, Role(row.role), row.content)
        titles = select(Conversation.id, Conversation.title).where(Conversation.id.in_(chunk))
        for conversation_id, title in await session.execute(titles):
            found.setdefault(conversation_id, FoundText(None, None, title))
    return found


def _ways(session: AsyncSession, user_id: str, narrowing: Narrowing) -> list[_Way]:
    ways = []
    if narrowing.words is not None:
        language = full_text(session)
        document = select(literal(1)).where(
            SearchDocument.conversation_id == Conversation.id, language.has(narrowing.words)
        )
        ways.append(_Way(_is_any(document), language.conversations(user_id, narrowing.words)))
    if narrowing.tag is not None:
        of_tag = (ConversationTag.user_id == user_id, ConversationTag.tag == narrowing.tag)
        tagged = select(literal(1)).where(*of_tag, ConversationTag.conversation_id == Conversation.id)
        ways.append(_Way(_is_any(tagged), select(ConversationTag.conversation_id).where(*of_tag)))
    return ways


def _is_owner(user_id: str) -> ColumnElement[bool]:
    # As an expression, where ids are known: the index by person and time would be tempting, and reads the whole list.
    return Conversation.user_id.concat("") == user_id


def _is_any(rows: Select[int]) -> ColumnElement[bool]:
    # Not EXISTS: PostgreSQL would collect all that fits first, which is the other way.
    return rows.limit(1).correlate(Conversation).scalar_subquery().is_not(None)


def _from_place(statement: Select, before: Place | None, limit: int) -> Select:  # type: ignore[type-arg]
    if before is not None:
        statement = statement.where(tuple_(Conversation.updated_at, Conversation.id) < before)
    return statement.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit)


async def _in_this_order(session: AsyncSession, user_id: str, conversation_ids: Sequence[str]) -> list[Conversation]:
    rows: dict[str, Conversation] = {}
    for chunk in chunks(conversation_ids):
        statement = select(Conversation).where(_is_owner(user_id), Conversation.id.in_(chunk))
        rows.update((row.id, row) for row in await session.scalars(statement))
    return [rows[conversation_id] for conversation_id in conversation_ids]
