"""The table of personas: named system prompts with sampling defaults."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

NAME_MAX_CHARS = 64


class Persona(Base):
    """`params` are those sampling parameters that were set. Conversations keep the name and nothing else of it."""

    __tablename__ = "personas"
    __table_args__ = (Index("ix_personas_created_at_name", "created_at", "name"),)

    name: Mapped[str] = mapped_column(String(NAME_MAX_CHARS), primary_key=True)
    system_prompt: Mapped[str] = mapped_column(Text)
    params: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
