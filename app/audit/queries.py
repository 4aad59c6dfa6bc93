"""SQL of the audit log: it is read here, and nowhere changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.audit.models import AuditEntry


async def audit_page(
    session: AsyncSession,
    *,
    limit: int,
    before: tuple[datetime, str] | None,
    actor_id: str | None,
    action: str | None,
    target_id: str | None,
) -> Sequence[AuditEntry]:
    """At most `limit` entries, the newest first, from behind `before` on."""
    statement = select(AuditEntry)
    if before is not None:
        statement = statement.where(tuple_(AuditEntry.created_at, AuditEntry.id) < before)
    for column, value in (
        (AuditEntry.actor_id, actor_id),
        (AuditEntry.action, action),
        (AuditEntry.target_id, target_id),
    ):
        if value is not None:
            statement = statement.where(column == value)
    statement = statement.order_by(AuditEntry.created_at.desc(), AuditEntry.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()
