"""Tables of what answers have cost, and of how much somebody may ask for."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import BigInteger, Date, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

MODEL_MAX_CHARS = 255


class Purpose(StrEnum):
    """What tokens were used for. A title is on its conversation's owner's account, and no limit counts it."""

    ANSWER = "answer"
    TITLE = "title"


class UsageRecord(Base):
    """One answer that has ended, however it did, under the day (UTC) of its end; or one title, under an id of its own.

    It refers to nothing by a foreign key: what was used stays counted when the conversation, the key or the account is gone.
    """

    __tablename__ = "usage_records"
    __table_args__ = (
        Index("ix_usage_records_day", "day"),
        Index("ix_usage_records_user_id_day", "user_id", "day"),
        Index("ix_usage_records_key_id_day", "key_id", "day"),
    )

    response_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user_id: Mapped[str] = mapped_column(String(36))
    key_id: Mapped[str | None] = mapped_column(String(36))
    persona: Mapped[str | None] = mapped_column(String(64))
    model: Mapped[str | None] = mapped_column(String(MODEL_MAX_CHARS))
    day: Mapped[date] = mapped_column(Date)
    ended_at: Mapped[datetime] = mapped_column(UTCDateTime)
    status: Mapped[str] = mapped_column(String(16))
    input_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    output_tokens: Mapped[int] = mapped_column(BigInteger)
    purpose: Mapped[str] = mapped_column(String(16), server_default=Purpose.ANSWER.value)


class Quota(Base):
    """The limits of one account or one API key, where they are not the server's own. NULL: the server's; 0: none."""

    __tablename__ = "quotas"

    kind: Mapped[str] = mapped_column(String(8), primary_key=True)
    subject_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    requests_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    tokens_per_minute: Mapped[int | None] = mapped_column(BigInteger)
    requests_per_day: Mapped[int | None] = mapped_column(BigInteger)
    tokens_per_day: Mapped[int | None] = mapped_column(BigInteger)
    concurrent_answers: Mapped[int | None] = mapped_column(BigInteger)
    sockets: Mapped[int | None] = mapped_column(BigInteger)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
