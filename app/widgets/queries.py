"""SQL of widgets and visitors. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, exists, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.widgets.models import Visitor, Widget


async def widgets_page(session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None) -> Sequence[Widget]:
    """At most `limit` widgets, the newest first, from behind `before` on."""
    statement = select(Widget).where(Widget.deleted_at.is_(None))
    if before is not None:
        statement = statement.where(tuple_(Widget.created_at, Widget.id) < before)
    return (await session.scalars(statement.order_by(Widget.created_at.desc(), Widget.id.desc()).limit(limit))).all()


async def widget_by_id(session: AsyncSession, widget_id: str, *, for_update: bool = False) -> Widget | None:
    """The widget, unless it was deleted."""
    statement = select(Widget).where(Widget.id == widget_id, Widget.deleted_at.is_(None))
    return await session.scalar(statement.with_for_update() if for_update else statement)


async def stays(session: AsyncSession, widget_id: str) -> bool:
    """Whether the widget is there, and is not deleted before this unit of work ends. Others may ask the same meanwhile."""
    statement = select(Widget.id).where(Widget.id == widget_id, Widget.deleted_at.is_(None))
    return await session.scalar(statement.with_for_update(read=True)) is not None


async def allowed_origins(session: AsyncSession, widget_id: str) -> list[str] | None:
    """The origins of the pages it is for; None where there is no such widget."""
    statement = select(Widget.allowed_origins).where(Widget.id == widget_id, Widget.deleted_at.is_(None))
    return await session.scalar(statement)


async def origins_of_visitor(session: AsyncSession, user_id: str) -> list[str] | None:
    """The origins of the pages that this visitor's widget is for."""
    statement = select(Widget.allowed_origins).join(Visitor, Visitor.widget_id == Widget.id)
    return await session.scalar(statement.where(Visitor.user_id == user_id, Widget.deleted_at.is_(None)))


async def visitor_of(session: AsyncSession, widget_id: str, user_id: str) -> Visitor | None:
    """That account as a visitor of that widget; None where it is not one."""
    return await session.scalar(select(Visitor).where(Visitor.widget_id == widget_id, Visitor.user_id == user_id))


async def visitor_by_subject(session: AsyncSession, widget_id: str, subject: str) -> Visitor | None:
    """Who this is to the widget's site; held until this unit of work ends."""
    statement = select(Visitor).where(Visitor.widget_id == widget_id, Visitor.subject == subject)
    return await session.scalar(statement.with_for_update())


async def visitor_by_key(session: AsyncSession, widget_id: str, key_hash: str) -> Visitor | None:
    """The anonymous visitor of this widget whose browser keeps that key; held until this unit of work ends."""
    statement = select(Visitor).where(Visitor.widget_id == widget_id, Visitor.key_hash == key_hash)
    return await session.scalar(statement.with_for_update())


async def visitor_ids(session: AsyncSession, widget_id: str) -> Sequence[str]:
    """Everybody who came through it."""
    return (await session.scalars(select(Visitor.user_id).where(Visitor.widget_id == widget_id))).all()


async def due_visitors(
    session: AsyncSession, unseen_since: datetime | None, *, after: str, limit: int
) -> Sequence[str]:
    """Visitors who have not come since then, and those of deleted widgets, by id, from behind `after` on."""
    due: ColumnElement[bool] = Widget.deleted_at.is_not(None)
    if unseen_since is not None:
        due = or_(due, Visitor.seen_at <= unseen_since)
    statement = select(Visitor.user_id).join(Widget, Widget.id == Visitor.widget_id).where(due, Visitor.user_id > after)
    return (await session.scalars(statement.order_by(Visitor.user_id).limit(limit))).all()


async def is_due(session: AsyncSession, user_id: str, unseen_since: datetime | None) -> bool:
    """The same about one of them, who is held until this unit of work ends."""
    visitor = await session.scalar(select(Visitor).where(Visitor.user_id == user_id).with_for_update())
    if visitor is None:
        return False
    gone = select(exists().where(Widget.id == visitor.widget_id, Widget.deleted_at.is_not(None)))
    return bool(await session.scalar(gone)) or (unseen_since is not None and visitor.seen_at <= unseen_since)


async def drop_previous_secrets(session: AsyncSession, now: datetime) -> None:
    """Forget secrets that do not hold any more."""
    statement = update(Widget).where(Widget.previous_until <= now).values(previous_secret=None, previous_until=None)
    await session.execute(statement, execution_options={"synchronize_session": False})


async def delete_left_widgets(session: AsyncSession) -> None:
    """Remove deleted widgets that have no visitor any more."""
    is_left = ~exists().where(Visitor.widget_id == Widget.id)
    await session.execute(
        delete(Widget).where(Widget.deleted_at.is_not(None), is_left), execution_options={"synchronize_session": False}
    )
