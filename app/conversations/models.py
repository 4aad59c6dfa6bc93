"""Tables of what is said: conversations, and their messages as a tree.

    user "hello" ─┬─ assistant "hi"  ── user "and?" ── assistant "…"
                  └─ assistant "hey"                     (a regenerated answer: a sibling)
    user "hullo" ──── assistant "hi"                     (an edit: another child of the same parent, here the root)

Rows are added, never replaced as a whole; only an answer that is being made changes its content.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, ForeignKey, Index, Integer, String, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import TypeDecorator, TypeEngine

from app.accounts.models import USERNAME_MAX_CHARS
from app.conversations.words import VERSION as WORDS_VERSION
from app.database import Base, UTCDateTime


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


class TitleSource(StrEnum):
    """Who made a title. Only one made from the first message is replaced by the model's, and by nothing but that."""

    MESSAGE = "message"
    MODEL = "model"
    PERSON = "person"


class SearchWords(TypeDecorator[Collection[str]]):
    """What a document is found by: a tsvector on PostgreSQL; on SQLite a text with each word between spaces. Written, and
    compared in SQL, but never read back."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(TSVECTOR() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: Collection[str] | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        # No word holds a space, a quote or a backslash: see `words`.
        return " ".join(f"'{word}'" for word in value) if dialect.name == "postgresql" else f" {' '.join(value)} "


class Conversation(Base):
    """One conversation of one user.

    `leaf_id` is the newest message, whose branch people see; `version` counts changes of the fields, for `If-Match`. One with
    `expires_at` is temporary: it is in no list and not found by a search, and gone after that moment. `search_version` says by
    which rules it is in the search index, 0 for not at all. `state_since` is when `state` changed last, NULL where it never did;
    `agent_id` and `agent_name` are the agent who answers in state `human`, or the one who answered before it was resolved.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        Index("ix_conversations_user_id_updated_at_id", "user_id", "updated_at", "id"),
        Index("ix_conversations_user_id_archived_updated_at_id", "user_id", "archived", "updated_at", "id"),
        Index("ix_conversations_user_id_state_updated_at_id", "user_id", "state", "updated_at", "id"),
        Index("ix_conversations_state_state_since_id", "state", "state_since", "id"),
        Index("ix_conversations_agent_id", "agent_id"),
        Index("ix_conversations_user_id_external_id", "user_id", "external_id", unique=True),
        # Few have one. A whole index would look to SQLite's planner like a way to all that have none.
        Index(
            "ix_conversations_expires_at",
            "expires_at",
            sqlite_where=text("expires_at IS NOT NULL"),
            postgresql_where=text("expires_at IS NOT NULL"),
        ),
        Index("ix_conversations_search_version", "search_version"),
        Index("ix_conversations_persona_version_id", "persona_version_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    title: Mapped[str] = mapped_column(String(200))
    title_source: Mapped[str] = mapped_column(String(16), default=TitleSource.MESSAGE)
    state: Mapped[str] = mapped_column(String(16))
    state_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    agent_id: Mapped[str | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"))
    agent_name: Mapped[str | None] = mapped_column(String(USERNAME_MAX_CHARS))
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
    search_version: Mapped[int] = mapped_column(default=WORDS_VERSION)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Message(Base):
    """One message. `ordinal` is its place in the order of acceptance within the conversation, from 1.

    `token_ids` are the ids of an answer as the engine made them, packed with a mark of their model (see
    `app.responses.token_ids`); NULL where they are not known.
    `last_seq` says up to which event of its response's log `content` goes. `author_id` and `author_name` are there where a person
    wrote what the role does not say: an agent in the model's place. The name stays when the account is gone.
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
    author_id: Mapped[str | None] = mapped_column(String(36))
    author_name: Mapped[str | None] = mapped_column(String(USERNAME_MAX_CHARS))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class ConversationTag(Base):
    """The tags of conversations once more, to find those with one; `Conversation.tags` has them in their order."""

    __tablename__ = "conversation_tags"

    user_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True, index=True
    )


class SearchDocument(Base):
    """What is found as one: a message that has its final text, or a title (then `message_id` is NULL).

    `words` begin with the mark of the owner, so that a search reads nothing of others'. The full-text index over them,
    `search_index`, is made by a migration: on PostgreSQL an index like any other; on SQLite a table that triggers keep in step,
    whatever changes or deletes a row here.
    """

    __tablename__ = "search_documents"

    number: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"), index=True)
    message_id: Mapped[str | None] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), unique=True)
    words: Mapped[Collection[str]] = mapped_column(SearchWords)


class RetentionPolicy(Base):
    """For how many days conversations of one person are kept after their last change."""

    __tablename__ = "retention_policies"

    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    days: Mapped[int]
