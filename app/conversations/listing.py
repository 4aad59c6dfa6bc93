"""A page of one person's conversations, newest first, narrowed by what they are and by what was said in them.

Called by the service inside its unit of work. Whoever narrows by words or by a tag may ask for something that every conversation
has or for something that none has, and no single way is quick for both:

    the list first    go through the newest conversations and look into each: quick when many of them fit
    the index first   collect everything that fits, read each and sort them: quick when little does
    both              collect everything that fits, and go through the list until a page of it was met: quick in between

So the first few are looked into, and how many of them fit decides how to go on. A look ends where a page is full. The few tell
only roughly how many fit, so the next look is not much longer, and the decision is taken again.

On both databases it takes 6 to 7 µs to look into a conversation of ten messages, and 0.5 to 1 µs to go past one; to collect
takes 3 to 5 ms, and 1 to 2 µs for each that fits; to read one takes as much again. The shares below follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import CTE, ColumnElement, ScalarSelect, Select, and_, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.full_text import full_text
from app.conversations.models import Conversation, ConversationTag, Message, SearchDocument
from app.database import chunks
from app.service.states import ConversationState
from engine.types import Role

FIRST_LOOK = 200
"""Most people have fewer conversations than this; theirs never need the index."""

FURTHER = 4
"""Each look goes through so many times as many as the one before, so that what is decided after it rests on more."""

FITTING_SHARE = 0.035
"""From this share on, the list first is quicker; at it both take about 10 ms for a page of 50, with 100,000 conversations."""

RARE_SHARE = 0.0125
"""Below this share, what the index has is quicker read one by one than met in the list."""

MET_WITHIN = 8
"""So many times as many conversations as the index has are gone through to meet them, and no more: they may all be old."""

FEW = 2000
"""Conversations that can be looked into one by one, with another condition, in about 15 ms."""

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
    found: list[Conversation] = []
    looked_at, look = 0, FIRST_LOOK
    fits = and_(*(way.fits for way in ways))
    while True:
        look_in = by_list(user_id, conditions, fits, before, look, limit - len(found))
        rows = (await session.execute(look_in)).all()
        found += [row.Conversation for row in rows if row.fits]
        if len(found) == limit or not rows or rows[-1].place < look:
            return found
        last = rows[-1].Conversation
        before = (last.updated_at, last.id)
        looked_at += look
        if len(found) < looked_at * FITTING_SHARE:
            break
        look *= FURTHER
    wanted = limit - len(found)
    collected = await _fewest(session, ways)
    checked = [way.fits for way in ways if way is not collected]
    if len(found) >= looked_at * RARE_SHARE:
        rows = (await session.execute(by_both(user_id, conditions, collected, checked, before, wanted))).all()
        met = [row.Conversation for row in rows if row.fits]
        if len(met) == wanted:
            return [*found, *met]
    rest = by_index(user_id, [*conditions, *checked], collected, before, wanted)
    return [*found, *await session.scalars(rest)]


def by_list(
    user_id: str,
    conditions: Sequence[ColumnElement[bool]],
    fits: ColumnElement[bool],
    before: Place | None,
    look: int | ScalarSelect[int],
    limit: int,
) -> Select[Conversation, bool, int]:
    """Those of the next `look` conversations of the list that fit, at most `limit` of them, behind which nothing is looked at;
    where they are fewer, also the last one that was looked at, from which it goes on. `place` counts them from 1."""
    order = (Conversation.updated_at.desc(), Conversation.id.desc())
    columns = (Conversation.id, fits.label("fits"), func.row_number().over(order_by=order).label("place"))
    looked = _from_place(select(*columns).where(Conversation.user_id == user_id, *conditions), before, look).subquery()
    # Not sorted here: they come in their order, and to sort them would be to look at all of them first.
    kept = select(looked).where(or_(looked.c.fits, looked.c.place == look)).limit(limit).subquery()
    return (
        select(Conversation, kept.c.fits, kept.c.place).join(kept, kept.c.id == Conversation.id).order_by(kept.c.place)
    )


def by_both(
    user_id: str,
    conditions: Sequence[ColumnElement[bool]],
    way: _Way,
    checked: Sequence[ColumnElement[bool]],
    before: Place | None,
    limit: int,
) -> Select[Conversation, bool, int]:
    """As `by_list`, but what fits is asked of the index, once. The list is gone through until a page is full, or so far as it is
    worth it."""
    fitting = _collected(way)
    look = select(func.count() * MET_WITHIN).select_from(fitting).scalar_subquery()
    fits = and_(Conversation.id.in_(select(fitting.c.conversation_id)), *checked)
    return by_list(user_id, conditions, fits, before, look, limit)


def by_index(
    user_id: str, conditions: Sequence[ColumnElement[bool]], way: _Way, before: Place | None, limit: int
) -> Select[Conversation]:
    """The newest `limit` of all conversations that fit."""
    known = Conversation.id.in_(select(_collected(way).c.conversation_id))
    # As an expression, where ids are known: the index by person and time would be tempting, and reads the whole list.
    is_owner = Conversation.user_id.concat("") == user_id
    return _from_place(select(Conversation).where(known, is_owner, *conditions), before, limit)


def _collected(way: _Way) -> CTE:
    # By itself, as if nothing else were known of what it is for.
    return way.fitting.cte("fitting").prefix_with("MATERIALIZED")


async def _fewest(session: AsyncSession, ways: Sequence[_Way]) -> _Way:
    """The way to collect by; the others are then looked for in what it finds. Tags come last, and are quick to count."""
    last = ways[-1]
    if len(ways) > 1:
        some = last.fitting.limit(FEW + 1).subquery()
        if (await session.scalar(select(func.count()).select_from(some)) or 0) > FEW:
            return ways[0]
    return last


async def found_texts(
    session: AsyncSession, conversations: Sequence[Conversation], words: Sequence[str]
) -> dict[str, FoundText]:
    """What was found in each of these conversations, which all fit."""
    has = full_text(session).has(words)
    newest = func.max(SearchDocument.number).filter(SearchDocument.message_id.is_not(None))
    found = {conversation.id: FoundText(None, None, conversation.title) for conversation in conversations}
    for chunk in chunks(found):
        in_these = SearchDocument.conversation_id.in_(chunk)
        numbers = select(newest).where(in_these, has).group_by(SearchDocument.conversation_id)
        messages = (
            select(Message.conversation_id, Message.id, Message.role, Message.content)
            .join(SearchDocument, SearchDocument.message_id == Message.id)
            .where(SearchDocument.number.in_(numbers))
        )
        for row in await session.execute(messages):
            found[row.conversation_id] = FoundText(row.id, Role(row.role), row.content)
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


def _is_any(rows: Select[int]) -> ColumnElement[bool]:
    # Not EXISTS: PostgreSQL would collect all that fits first, which is the other way.
    return rows.limit(1).correlate(Conversation).scalar_subquery().is_not(None)


def _from_place(statement: Select, before: Place | None, limit: int | ScalarSelect[int]) -> Select:  # type: ignore[type-arg]
    if before is not None:
        statement = statement.where(tuple_(Conversation.updated_at, Conversation.id) < before)
    return statement.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit)
