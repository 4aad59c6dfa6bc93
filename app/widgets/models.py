"""Tables of widgets, and of the visitors who come through them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

NAME_MAX_CHARS = 100
SUBJECT_MAX_CHARS = 255
EMAIL_MAX_CHARS = 254


class Widget(Base):
    """One chat window on pages of others.

    `secret` signs visitor tokens. It is the one secret that is stored as it is, because a shared secret can only be checked by
    who has it. `previous_secret` holds until `previous_until`, so that a site can change over without turning anybody away. One
    with `deleted_at` is nothing to anybody any more; its row goes after its last visitor.
    """

    __tablename__ = "widgets"
    __table_args__ = (Index("ix_widgets_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_MAX_CHARS))
    allowed_origins: Mapped[list[str]] = mapped_column(JSON)
    # Its name and no foreign key: a persona may be deleted, and the widget goes on without it.
    persona: Mapped[str | None] = mapped_column(String(64))
    anonymous: Mapped[bool]
    title: Mapped[str] = mapped_column(String(NAME_MAX_CHARS))
    greeting: Mapped[str] = mapped_column(String(1000))
    colour: Mapped[str] = mapped_column(String(7))
    languages: Mapped[list[str]] = mapped_column(JSON)
    secret: Mapped[str] = mapped_column(String(100))
    previous_secret: Mapped[str | None] = mapped_column(String(100))
    previous_until: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Visitor(Base):
    """An account that came through a widget, and can act there only.

    `subject` is who it is to the site, by its signed word. Anonymous ones have none; they are known again by a key that their
    browser keeps, whose hash is here. `seen_at` is when it came last.
    """

    __tablename__ = "visitors"
    __table_args__ = (
        UniqueConstraint("widget_id", "subject"),
        UniqueConstraint("key_hash"),
        Index("ix_visitors_seen_at", "seen_at"),
    )

    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    widget_id: Mapped[str] = mapped_column(ForeignKey("widgets.id"))
    subject: Mapped[str | None] = mapped_column(String(SUBJECT_MAX_CHARS))
    key_hash: Mapped[str | None] = mapped_column(String(64))
    name: Mapped[str | None] = mapped_column(String(NAME_MAX_CHARS))
    email: Mapped[str | None] = mapped_column(String(EMAIL_MAX_CHARS))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    seen_at: Mapped[datetime] = mapped_column(UTCDateTime)
