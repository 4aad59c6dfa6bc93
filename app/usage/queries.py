"""SQL of usage and quotas. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, case, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import KeyedColumnElement

from app.conversations.models import MessageStatus
from app.usage.limits import Span, Subject, SubjectKind, Unit, Window
from app.usage.models import Purpose, Quota, UsageRecord

ENDINGS = (
    MessageStatus.COMPLETED,
    MessageStatus.INCOMPLETE,
    MessageStatus.CANCELLED,
    MessageStatus.FAILED,
    MessageStatus.INTERRUPTED,
)
IS_ANSWER = UsageRecord.purpose == Purpose.ANSWER.value
GROUPS: dict[str, SQLColumnExpression[Any]] = {
    "day": UsageRecord.day,
    "user": UsageRecord.user_id,
    "key": func.coalesce(UsageRecord.key_id, ""),
    "persona": func.coalesce(UsageRecord.persona, ""),
    "model": func.coalesce(UsageRecord.model, ""),
    "purpose": UsageRecord.purpose,
}
"""What usage can be summed up by; what is not known is the empty text, which no name is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """Which answers are meant; the days are both included."""

    since: date
    until: date
    user_id: str | None = None
    key_id: str | None = None
    persona: str | None = None
    model: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        conditions: list[ColumnElement[bool]] = [UsageRecord.day.between(self.since, self.until)]
        for column, value in (
            (UsageRecord.user_id, self.user_id),
            (UsageRecord.key_id, self.key_id),
            (UsageRecord.persona, self.persona),
            (UsageRecord.model, self.model),
        ):
            if value is not None:
                conditions.append(column == value)
        return conditions


async def usage_page(
    session: AsyncSession,
    wanted: UsageFilter,
    groups: Sequence[str],
    *,
    limit: int,
    before: Sequence[object] | None,
) -> list[dict[str, Any]]:
    """At most `limit` sums, one per combination of the groups, the last in their order first, from behind `before` on."""
    columns: list[ColumnElement[Any]] = [GROUPS[name].label(name) for name in groups]
    place = [GROUPS[name] for name in groups]
    statement = select(*columns, *_sums()).where(*wanted.conditions())
    if before is not None:
        statement = statement.where(tuple_(*place) < tuple_(*before))
    statement = statement.group_by(*place).order_by(*(column.desc() for column in place)).limit(limit)
    return [dict(row._mapping) for row in await session.execute(statement)]


async def usage_totals(session: AsyncSession, wanted: UsageFilter) -> dict[str, Any]:
    """The sum of all of them."""
    row = (await session.execute(select(*_sums()).where(*wanted.conditions()))).one()
    return dict(row._mapping)


async def used_in(session: AsyncSession, window: Window) -> int:
    """What answers that have ended say of a window."""
    owner = UsageRecord.user_id if window.subject.kind is SubjectKind.USER else UsageRecord.key_id
    what = (
        func.count() if window.unit is Unit.REQUESTS else func.sum(UsageRecord.input_tokens + UsageRecord.output_tokens)
    )
    statement = select(func.coalesce(what, 0)).where(owner == window.subject.id)
    statement = statement.where(IS_ANSWER, UsageRecord.day == window.begins_at.date())
    if window.span is Span.MINUTE:
        statement = statement.where(UsageRecord.ended_at >= window.begins_at)
    return int((await session.execute(statement)).scalar_one())


async def quotas_of(session: AsyncSession, subjects: Collection[Subject]) -> dict[Subject, Quota]:
    """Those of these subjects that have limits of their own."""
    pairs = [(subject.kind.value, subject.id) for subject in subjects]
    statement = select(Quota).where(tuple_(Quota.kind, Quota.subject_id).in_(pairs))
    found = (await session.scalars(statement)).all()
    return {Subject(SubjectKind(quota.kind), quota.subject_id): quota for quota in found}


async def set_quota(
    session: AsyncSession, subject: Subject, limits: Mapping[str, int | None], updated_at: datetime
) -> None:
    """Replace the limits of a subject; with none of its own it has no row."""
    await session.execute(delete(Quota).where(Quota.kind == subject.kind.value, Quota.subject_id == subject.id))
    if any(limit is not None for limit in limits.values()):
        session.add(Quota(kind=subject.kind.value, subject_id=subject.id, updated_at=updated_at, **limits))


def _sums() -> list[KeyedColumnElement[int]]:
    tokens = [UsageRecord.input_tokens, UsageRecord.cached_tokens, UsageRecord.output_tokens]
    return [
        _count(IS_ANSWER).label("answers"),
        *(_count(IS_ANSWER & (UsageRecord.status == ending)).label(ending.value) for ending in ENDINGS),
        *(func.coalesce(func.sum(column), 0).label(column.key) for column in tokens),
    ]


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)
