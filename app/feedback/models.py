"""The table of what people think of answers."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import Date, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

COMMENT_MAX_CHARS = 2000


class Scale(StrEnum):
    """What a rating is one of: `THUMBS` are 1 and -1, `STARS` are 1 to 5."""

    THUMBS = "thumbs"
    STARS = "stars"


class Feedback(Base):
    """What one person thinks of one answer; the last word counts. `day` (UTC) is when that was said, `persona` that of the
    conversation. It goes with the message."""

    __tablename__ = "feedback"
    __table_args__ = (
        Index("ix_feedback_day", "day"),
        Index("ix_feedback_user_id", "user_id"),
        Index("ix_feedback_conversation_id", "conversation_id"),
    )

    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    scale: Mapped[str] = mapped_column(String(8))
    rating: Mapped[int]
    comment: Mapped[str | None] = mapped_column(Text)
    persona: Mapped[str | None] = mapped_column(String(64))
    day: Mapped[date] = mapped_column(Date)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
