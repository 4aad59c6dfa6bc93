"""Tables of customer service: how the state of conversations has changed, and what agents need not write again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.accounts.models import USERNAME_MAX_CHARS
from app.database import Base, UTCDateTime

REASON_MAX_CHARS = 500
CANNED_TITLE_MAX_CHARS = 100


class StateChange(Base):
    """One change of a conversation's state, for its transcript. `ordinal` is that of the newest message at that moment.

    `actor_name` is who did it, NULL where nobody did (a word in a message, an engine that fails). `agent_id` and `agent_name` are
    who answers from here on: with that they were handed the conversation, and may read it from then on.
    """

    __tablename__ = "state_changes"
    __table_args__ = (
        Index("ix_state_changes_conversation_id_number", "conversation_id", "number"),
        Index("ix_state_changes_agent_id_conversation_id", "agent_id", "conversation_id"),
    )

    number: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    ordinal: Mapped[int] = mapped_column(BigInteger)
    from_state: Mapped[str] = mapped_column(String(16))
    to_state: Mapped[str] = mapped_column(String(16))
    cause: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(REASON_MAX_CHARS))
    actor_name: Mapped[str | None] = mapped_column(String(USERNAME_MAX_CHARS))
    agent_id: Mapped[str | None] = mapped_column(String(36))
    agent_name: Mapped[str | None] = mapped_column(String(USERNAME_MAX_CHARS))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class CannedAnswer(Base):
    """A text that agents answer with again and again."""

    __tablename__ = "canned_answers"
    __table_args__ = (Index("ix_canned_answers_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    title: Mapped[str] = mapped_column(String(CANNED_TITLE_MAX_CHARS))
    content: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
