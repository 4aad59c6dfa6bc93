"""SQL of stored responses. Every function runs inside the caller's unit of work and commits nothing; whose they are is part of
each statement."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.openai.models import StoredResponse


class Owner(NamedTuple):
    """Whose responses are meant: those of a key, or of a person who has signed in."""

    user_id: str
    key_id: str | None

    @property
    def condition(self) -> ColumnElement[bool]:
        return (StoredResponse.user_id == self.user_id) & StoredResponse.key_id.is_not_distinct_from(self.key_id)


async def find(session: AsyncSession, owner: Owner, response_id: str) -> StoredResponse | None:
    """The owner's response of that id."""
    return await session.scalar(select(StoredResponse).where(StoredResponse.id == response_id, owner.condition))


async def chain(session: AsyncSession, response_id: str) -> list[StoredResponse]:
    """A response that the caller is known to own and all that it went on from, the oldest first."""
    walk = (
        select(StoredResponse.id, StoredResponse.previous_id, literal(1).label("step"))
        .where(StoredResponse.id == response_id)
        .cte("walk", recursive=True)
    )
    above = aliased(StoredResponse)
    # A subquery and not a join: each step is then one look-up by primary key.
    before = select(above.previous_id).where(above.id == walk.c.previous_id).scalar_subquery()
    walk = walk.union_all(select(walk.c.previous_id, before, walk.c.step + 1).where(walk.c.previous_id.is_not(None)))
    statement = select(StoredResponse).join(walk, StoredResponse.id == walk.c.id).order_by(walk.c.step.desc())
    return list((await session.scalars(statement)).all())


async def remove(session: AsyncSession, stored: StoredResponse) -> None:
    """What went on from it can be read, and not gone on with."""
    await session.execute(delete(StoredResponse).where(StoredResponse.id == stored.id))


async def remove_older(session: AsyncSession, moment: datetime) -> None:
    """Remove trees in which nothing was added since."""
    newest = func.max(StoredResponse.created_at)
    old = select(StoredResponse.root_id).group_by(StoredResponse.root_id).having(newest < moment)
    await session.execute(delete(StoredResponse).where(StoredResponse.root_id.in_(old)))
