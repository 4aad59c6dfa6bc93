"""Tables of what is said: conversations, and their messages as a tree.

    user "hello" ─┬─ assistant "hi"  ── user "and?" ── assistant "…"
                  └─ assistant "hey"                     (a regenerated answer: a sibling)
    user "hullo" ──── assistant "hi"                     (an edit: another child of the same parent, here the root)

Rows are added, never replaced as a whole; only an answer that is being made changes its content.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime


class ConversationState(StrEnum):
    """Who answers. Only `BOT` exists until customer service arrives."""

    BOT = "bot"


class MessageStatus(StrEnum):
    """A user's message is `COMPLETED` from the start. An answer is `QUEUED`, `IN_PROGRESS`, then one of the last five."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Nothing of the message changes any more."""
        return self not in (MessageStatus.QUEUED, MessageStatus.IN_PROGRESS)


class Conversation(Base):
    """One conversation of one user.

    `leaf_id` is the newest message, whose branch people see; `version` counts changes of the fields, for `If-Match`.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        Index("ix_conversations_user_id_updated_at_id", "user_id", "updated_at", "id"),
        Index("ix_conversations_user_id_external_id", "user_id", "external_id"),
        Index("ix_conversations_persona_version_id", "persona_version_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    title: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16))
    archived: Mapped[bool]
    tags: Mapped[list[str]] = mapped_column(JSON)
    # `metadata` belongs to SQLAlchemy on a mapped class.
    extra: Mapped[dict[str, Any]] = mapped_column("metadata", JSON)
    external_id: Mapped[str | None] = mapped_column(String(255))
    # Its name and no foreign key: a persona may be deleted, and its conversations go on with the version they began with.
    persona: Mapped[str | None] = mapped_column(String(64))
    persona_version_id: Mapped[str | None] = mapped_column(ForeignKey("persona_versions.id"))
    leaf_id: Mapped[str | None] = mapped_column(String(36))
    last_ordinal: Mapped[int] = mapped_column(BigInteger)
    version: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class Message(Base):
    """One message. `ordinal` is its place in the order of acceptance within the conversation, from 1.

    `token_ids` are the ids of an answer as the engine made them, packed with a mark of their model (see
    `app.responses.token_ids`); NULL where they are not known.
    `last_seq` says up to which event of its response's log `content` goes.
    """

    __tablename__ = "messages"
    __table_args__ = (
        UniqueConstraint("conversation_id", "ordinal"),
        UniqueConstraint("conversation_id", "client_message_id"),
        Index("ix_messages_parent_id_conversation_id", "parent_id", "conversation_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    # Without ON DELETE CASCADE: along a long conversation it would recurse once per message, and both databases give up.
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("messages.id"))
    ordinal: Mapped[int] = mapped_column(BigInteger)
    role: Mapped[str] = mapped_column(String(16))
    content: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(16))
    client_message_id: Mapped[str | None] = mapped_column(String(128))
    response_id: Mapped[str | None] = mapped_column(String(36))
    last_seq: Mapped[int] = mapped_column(BigInteger)
    token_ids: Mapped[bytes | None]
    usage: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
