"""SQL of feedback. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from datetime import date
from typing import Any

from sqlalchemy import case, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation, Message
from app.errors import NotFound
from app.feedback.models import Feedback, Scale
from app.identifiers import is_id

PERSONA = func.coalesce(Feedback.persona, "")


async def owned_message(session: AsyncSession, user_id: str, message_id: str) -> tuple[Message, Conversation]:
    """A message of the caller's conversations, which is held. Raises NotFound."""
    if is_id(message_id):
        statement = (
            select(Message, Conversation)
            .join(Conversation, Conversation.id == Message.conversation_id)
            .where(Message.id == message_id, Conversation.user_id == user_id)
            .with_for_update(of=Conversation)
        )
        if (row := (await session.execute(statement)).first()) is not None:
            return row[0], row[1]
    raise NotFound("there is no such message")


async def delete_feedback(session: AsyncSession, user_id: str, message_id: str) -> None:
    """Take a rating back."""
    mine = (Feedback.user_id == user_id, Feedback.message_id == message_id)
    await session.execute(delete(Feedback).where(*mine))


async def sums_page(
    session: AsyncSession, *, since: date, until: date, limit: int, before: tuple[date, str] | None
) -> list[dict[str, Any]]:
    """At most `limit` sums by day and persona, the newest day and the last name first."""
    is_stars = Feedback.scale == Scale.STARS
    stars = case((is_stars, Feedback.rating))
    statement = select(
        Feedback.day.label("day"),
        PERSONA.label("persona"),
        func.sum(case(((~is_stars) & (Feedback.rating > 0), 1), else_=0)).label("thumbs_up"),
        func.sum(case(((~is_stars) & (Feedback.rating < 0), 1), else_=0)).label("thumbs_down"),
        func.count(stars).label("stars"),
        func.sum(stars).label("stars_sum"),
        func.sum(case((is_stars & (Feedback.rating >= 4), 1), else_=0)).label("stars_satisfied"),
    ).where(Feedback.day.between(since, until))
    if before is not None:
        statement = statement.where(tuple_(Feedback.day, PERSONA) < tuple_(*before))
    statement = statement.group_by(Feedback.day, PERSONA).order_by(Feedback.day.desc(), PERSONA.desc()).limit(limit)
    return [dict(row._mapping) for row in await session.execute(statement)]
