"""Tables of answers being made, and of the event logs that clients resume from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime


class Response(Base):
    """One answer. `parent_id` is the user's message it answers, `message_id` the assistant's message it writes.

    `status` has the values of MessageStatus and is kept equal to the message's. `owner` is the server process that makes it, and
    `wanted_status` what somebody told another one: the owner looks here, because a message between servers may be lost.
    `key_id` is the API key that its question came with.
    """

    __tablename__ = "responses"
    __table_args__ = (
        Index("ix_responses_conversation_id_status", "conversation_id", "status"),
        # The few that have no end are asked for all the time, by all servers.
        Index("ix_responses_status_owner", "status", "owner"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    # Indexed, because deleting a message looks here for what refers to it.
    parent_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), index=True)
    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), index=True)
    ordinal: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[str] = mapped_column(String(16))
    finish_reason: Mapped[str | None] = mapped_column(String(16))
    params: Mapped[dict[str, Any]] = mapped_column(JSON)
    usage: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    owner: Mapped[str] = mapped_column(String(36))
    wanted_status: Mapped[str | None] = mapped_column(String(16))
    key_id: Mapped[str | None] = mapped_column(String(36))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class ResponseLog(Base):
    """The whole event log of an ended answer: a JSON array of frames in the order of `seq`, written once, at the end."""

    __tablename__ = "response_logs"

    response_id: Mapped[str] = mapped_column(ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    frames: Mapped[bytes] = mapped_column(LargeBinary)
