"""The table of what was done by those who may do it to others."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

ACTION_MAX_CHARS = 64
TARGET_MAX_CHARS = 255


class AuditEntry(Base):
    """One act. No foreign key, because it stays when the account it tells of is gone; `actor_id` is null for the command line."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index("ix_audit_entries_created_at_id", "created_at", "id"),
        Index("ix_audit_entries_actor_id_created_at_id", "actor_id", "created_at", "id"),
        Index("ix_audit_entries_target_id_created_at_id", "target_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    actor_id: Mapped[str | None] = mapped_column(String(36))
    actor_name: Mapped[str] = mapped_column(String(64))
    key_id: Mapped[str | None] = mapped_column(String(36))
    action: Mapped[str] = mapped_column(String(ACTION_MAX_CHARS))
    target_id: Mapped[str | None] = mapped_column(String(TARGET_MAX_CHARS))
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
