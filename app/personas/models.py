"""The tables of personas: named system prompts with sampling defaults, and the versions that conversations go on with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.database import Base, UTCDateTime

NAME_MAX_CHARS = 64


class PersonaVersion(Base):
    """What a persona says from one change to the next; never changed itself. `params` are those that were set."""

    __tablename__ = "persona_versions"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_MAX_CHARS))
    system_prompt: Mapped[str] = mapped_column(Text)
    params: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """None is nowhere: those from before it was written down got a time when the table was changed."""


class Persona(Base):
    """A name, and the version that new conversations begin with. `handoff_keywords` are words with which people ask for a person,
    in place of the server's; NULL where it has none of its own. They hold for all its conversations at once."""

    __tablename__ = "personas"
    __table_args__ = (Index("ix_personas_created_at_name", "created_at", "name"),)

    name: Mapped[str] = mapped_column(String(NAME_MAX_CHARS), primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("persona_versions.id"))
    handoff_keywords: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)

    version: Mapped[PersonaVersion] = relationship(lazy="joined", innerjoin=True)
