"""What its person thinks of messages, for rooms that show or store those in their own unit of work. Nothing here commits."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.database import chunks
from app.feedback.models import Feedback, Scale


class Rated(msgspec.Struct, frozen=True):
    """A rating, as messages show it."""

    rating: int
    scale: Scale
    comment: str | None = None


async def ratings_of(session: AsyncSession, user_id: str, message_ids: Collection[str]) -> dict[str, Rated]:
    """What this person thinks of these messages; those without a rating are missing."""
    found: dict[str, Rated] = {}
    for chunk in chunks(message_ids):
        statement = select(Feedback).where(Feedback.user_id == user_id, Feedback.message_id.in_(chunk))
        for feedback in await session.scalars(statement):
            found[feedback.message_id] = Rated(feedback.rating, Scale(feedback.scale), feedback.comment)
    return found


def rating_line(rated: Rated) -> str:
    """A rating in a transcript for people."""
    shown = "★" * rated.rating if rated.scale is Scale.STARS else "👍" if rated.rating > 0 else "👎"
    comment = "" if rated.comment is None else f" {' '.join(rated.comment.split())}"
    return f"Rated {shown}{comment}"
