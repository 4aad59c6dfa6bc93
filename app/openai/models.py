"""The table of responses that are kept for their callers, so that a later one can go on from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

ID_MAX_CHARS = 64


class StoredResponse(Base):
    """One response that has ended, however it did.

    It belongs to a key (without one: to the person), and to one customer of the key where the request named one. `previous_id`
    is what it went on from, `root_id` where that began; both without a foreign key: what was deleted is missing, and is noticed.
    `input` are its own messages (`app.openai.response_tools.StoredTurn`), `output` is what was said, with its ids in the packed
    form of `app.responses.token_ids`. `body` is the object as it was answered, in JSON; calls of tools are only there.
    """

    __tablename__ = "openai_responses"
    __table_args__ = (
        Index("ix_openai_responses_root_id_created_at", "root_id", "created_at"),
        # Deleting an account looks here for what refers to it.
        Index("ix_openai_responses_user_id", "user_id"),
    )

    id: Mapped[str] = mapped_column(String(ID_MAX_CHARS), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    key_id: Mapped[str | None] = mapped_column(String(36))
    customer: Mapped[str | None] = mapped_column(Text)
    previous_id: Mapped[str | None] = mapped_column(String(ID_MAX_CHARS))
    root_id: Mapped[str] = mapped_column(String(ID_MAX_CHARS))
    input: Mapped[list[Any]] = mapped_column(JSON)
    output: Mapped[str] = mapped_column(Text)
    token_ids: Mapped[bytes | None]
    body: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
