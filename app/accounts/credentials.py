"""Making credentials, inside the caller's unit of work, and reading what they say about their holder."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import CredentialSource, Identity
from app.accounts.models import LABEL_MAX_CHARS, Credential, CredentialKind, User, UserRole
from app.identifiers import UserId, hash_secret, new_id

KINDS_BY_SOURCE = {
    CredentialSource.BEARER: (CredentialKind.SESSION, CredentialKind.API_KEY, CredentialKind.VISITOR),
    CredentialSource.COOKIE: (CredentialKind.SESSION,),
}
"""An API key is for programs and a visitor's token for other sites' pages: neither is ever taken for a browser's cookie."""


def add_credential(
    session: AsyncSession,
    user_id: str,
    kind: CredentialKind,
    secret: str,
    *,
    now: datetime,
    lifetime: timedelta | None,
    issuer_id: str | None = None,
    label: str | None = None,
) -> Credential:
    """A new one; of `secret` only the hash is stored. Without a lifetime it holds until it is revoked."""
    credential = Credential(
        id=new_id(),
        user_id=user_id,
        issuer_id=issuer_id,
        kind=kind,
        secret_hash=hash_secret(secret),
        label=None if label is None else storable_label(label),
        created_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        last_used_at=None,
        used_at=None,
        revoked_at=None,
    )
    session.add(credential)
    return credential


def identity_of(credential: Credential, user: User, source: CredentialSource) -> Identity:
    """Who holds this credential."""
    return Identity(
        user_id=UserId(user.id),
        username=user.username,
        role=UserRole(user.role),
        credential_id=credential.id,
        expires_at=credential.expires_at,
        source=source,
        key_id=credential.id if credential.kind == CredentialKind.API_KEY else None,
    )


def storable_label(text: str) -> str:
    """A header or a name as it can be stored and shown."""
    return "".join(character for character in text if character.isprintable())[:LABEL_MAX_CHARS]
