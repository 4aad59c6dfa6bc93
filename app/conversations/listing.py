"""A page of one person's conversations, newest first, narrowed by what they are and by what was said in them.

Called by the service inside its unit of work. Whoever narrows by words or by a tag may ask for something that every conversation
has or for something that none has, and no single way is quick for both:

    the list first    go through the newest conversations and look into each: quick when many of them fit
    the index first   collect everything that fits; where that is much, go through the list until a page of it was met; where it
                      is little, or was not met, read each and sort them: quick when not too much fits

So the first few are looked into. Where that does not fill a page, the index says about how much there is, of all people together.
What is much is looked for further on in the list, as long as enough of this person's fits. A look ends where a page is full.

On both databases it takes 6 to 8 µs to look into a conversation of ten messages, and 0.5 to 1 µs to go past one; to collect
takes up to 4 ms, and 0.5 to 4 µs for each that fits, depending on what is in memory; to read one takes 4 µs. The numbers below
follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, case, func, or_, select, tuple_, union
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.full_text import full_text
from app.conversations.models import Conversation, Message, SearchDocument
from app.conversations.ways import MANY, Tag, Way, Words
from app.database import chunks
from app.service.states import ConversationState
from engine.types import Role

FIRST_LOOK = 100
"""Most people have fewer conversations than this; theirs never need the index."""

FURTHER = 8
"""Each look goes through so many times as many as the one before."""

FITTING_SHARE = 0.1
"""From this share on, the list is quicker than anything else, and what the index says is not even asked for."""

WORTHWHILE_SHARE = 0.01
"""Where the index has many, the list is gone on with while at least this share fits: a page of 50 takes 40 ms then."""

RARE = 800
"""So many, or fewer, are quicker read one by one than met in the list."""

MET_WITHIN = 8
"""So many times as many conversations as the index has are gone through to meet them, and no more: they may all be old."""

EVERYTHING = 2**31
"""As a limit."""

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
    fits = and_(*(way.fits() for way in ways))
    counts: list[int] = []
    while True:
        look_in = by_list(user_id, conditions, fits, before, look, limit - len(found))
        rows = (await session.execute(look_in)).all()
        found += [row.Conversation for row in rows if row.fits]
        if len(found) == limit or not rows or rows[-1].place < look:
            return found
        last = rows[-1].Conversation
        before = (last.updated_at, last.id)
        looked_at += look
        look *= FURTHER
        if len(found) >= looked_at * FITTING_SHARE:
            continue
        counts = counts or [await way.count(session) for way in ways]
        # The first look is too short to tell.
        is_seldom = looked_at > FIRST_LOOK and len(found) < looked_at * WORTHWHILE_SHARE
        if min(counts) <= MANY or is_seldom:
            break
    count, place = min(zip(counts, range(len(ways)), strict=True))
    checked = [way.fits() for way in ways if way is not ways[place]]
    fitting = ways[place].fitting(count)
    rest = by_index(user_id, conditions, fitting, checked, before, limit - len(found))
    return [*found, *await session.scalars(rest)]


def by_list(
    user_id: str,
    conditions: Sequence[ColumnElement[bool]],
    fits: ColumnElement[bool],
    before: Place | None,
    look: int,
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


def by_index(
    user_id: str,
    conditions: Sequence[ColumnElement[bool]],
    collected: Select[str],
    checked: Sequence[ColumnElement[bool]],
    before: Place | None,
    limit: int,
) -> Select[Conversation]:
    """The newest `limit` of all conversations that fit: those among the `collected` that fit what is `checked`."""
    # By itself, as if nothing else were known of what it is for; and so are those that were met.
    fitting = collected.cte("fitting").prefix_with("MATERIALIZED")
    count = func.count()
    look = select(case((count > RARE, count * MET_WITHIN), else_=0)).select_from(fitting).scalar_subquery()
    is_collected = Conversation.id.in_(select(fitting.c.conversation_id))
    is_met = and_(is_collected, *checked).label("fits")
    looked = _from_place(
        select(Conversation.id, is_met).where(Conversation.user_id == user_id, *conditions), before, look
    )
    seen = looked.subquery()
    met = select(seen.c.id).where(seen.c.fits).limit(limit).cte("met").prefix_with("MATERIALIZED")
    # All or nothing of it, by a limit: a condition would be asked of every row.
    is_full = select(func.count() >= limit).select_from(met).scalar_subquery()
    left = select(fitting.c.conversation_id).limit(select(case((is_full, 0), else_=EVERYTHING)).scalar_subquery())
    # As an expression, where ids are known: the index by person and time would be tempting, and reads the whole list.
    is_owner = Conversation.user_id.concat("") == user_id
    known = Conversation.id.in_(select(left.subquery().c.conversation_id))
    read = _from_place(select(Conversation.id).where(known, is_owner, *conditions, *checked), before, limit).subquery()
    found = union(select(met.c.id), select(read.c.id)).subquery()
    return _from_place(select(Conversation).where(Conversation.id.in_(select(found.c.id))), None, limit)


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


def _ways(session: AsyncSession, user_id: str, narrowing: Narrowing) -> list[Way]:
    ways: list[Way] = []
    if narrowing.words is not None:
        ways.append(Words(full_text(session), user_id, narrowing.words))
    if narrowing.tag is not None:
        ways.append(Tag(user_id, narrowing.tag))
    return ways


def _from_place(statement: Select, before: Place | None, limit: int | ScalarSelect[int]) -> Select:  # type: ignore[type-arg]
    if before is not None:
        statement = statement.where(tuple_(Conversation.updated_at, Conversation.id) < before)
    return statement.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit)
