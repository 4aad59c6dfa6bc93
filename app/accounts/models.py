"""Tables of people and of what they sign in with."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, UTCDateTime

LABEL_MAX_CHARS = 200
USERNAME_MAX_CHARS = 64


class UserRole(StrEnum):
    """What an account may do. A `VISITOR` came through a widget on somebody's page and may only chat there."""

    ADMIN = "admin"
    AGENT = "agent"
    USER = "user"
    VISITOR = "visitor"


class CredentialKind(StrEnum):
    """`SESSION` is a sign-in (cookie or bearer), `API_KEY` a program's, `VISITOR` a widget's, `SIGN_IN` a printed link, `SOCKET`
    a socket's ticket.

    The last two work once.
    """

    SESSION = "session"
    API_KEY = "api_key"
    VISITOR = "visitor"
    SIGN_IN = "sign_in"
    SOCKET = "socket"


class User(Base):
    """One account. Without a password hash it can only be entered by a sign-in link."""

    __tablename__ = "users"
    __table_args__ = (Index("ix_users_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    username: Mapped[str] = mapped_column(String(USERNAME_MAX_CHARS), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    password_hash: Mapped[str | None] = mapped_column(String(255))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    disabled_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    deletion_began_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Credential(Base):
    """A token somebody holds; only its SHA-256 is here. `used_at` is set when a single-use token is taken.

    `issuer_id` is the sign-in that asked for a socket's ticket: the ticket, and the socket it opens, live no longer than that.
    `label` is what its owner knows it by: the name of an API key, the browser of a sign-in. `last_used_at` may be an hour late.
    """

    __tablename__ = "credentials"
    __table_args__ = (
        Index("ix_credentials_user_id_kind", "user_id", "kind"),
        Index("ix_credentials_expires_at", "expires_at"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    issuer_id: Mapped[str | None] = mapped_column(ForeignKey("credentials.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(String(16))
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    label: Mapped[str | None] = mapped_column(String(LABEL_MAX_CHARS))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class ExternalIdentity(Base):
    """Somebody of an OpenID Connect provider, who is one account here. Found by these two and by nothing else."""

    __tablename__ = "external_identities"

    issuer: Mapped[str] = mapped_column(String(255), primary_key=True)
    subject: Mapped[str] = mapped_column(String(255), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class IdempotencyRecord(Base):
    """The answer already given to an `Idempotency-Key`, so that asking again gives it again.

    `conversation_id` is what the body is about: it may quote people's words, so it goes when the conversation goes.
    """

    __tablename__ = "idempotency_records"
    __table_args__ = (Index("ix_idempotency_records_created_at", "created_at"),)

    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_hash: Mapped[str] = mapped_column(String(64))
    status_code: Mapped[int | None]
    body: Mapped[bytes | None]
    conversation_id: Mapped[str | None] = mapped_column(String(36), index=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
