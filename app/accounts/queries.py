"""SQL of accounts. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.accounts.models import Credential, CredentialKind, User
from app.database import chunks


async def user_by_name(session: AsyncSession, username: str) -> User | None:
    """The account of that name, disabled or not."""
    return await session.scalar(select(User).where(User.username == username))


async def user_by_id(session: AsyncSession, user_id: str) -> User | None:
    return await session.get(User, user_id)


async def existing_users(session: AsyncSession, user_ids: Collection[str]) -> set[str]:
    """Those of these ids that are there, disabled or not."""
    found: set[str] = set()
    for chunk in chunks(user_ids):
        found.update((await session.scalars(select(User.id).where(User.id.in_(chunk)))).all())
    return found


async def valid_session(session: AsyncSession, secret_hash: str, now: datetime) -> tuple[Credential, User] | None:
    """The sign-in with this token and whose it is, if it holds now."""
    statement = (
        select(Credential, User)
        .join(User, User.id == Credential.user_id)
        .where(
            Credential.secret_hash == secret_hash,
            Credential.kind == CredentialKind.SESSION,
            Credential.revoked_at.is_(None),
            Credential.expires_at > now,
            User.disabled_at.is_(None),
        )
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else (row[0], row[1])


async def take_ticket(
    session: AsyncSession, secret_hash: str, kind: CredentialKind, now: datetime
) -> Credential | None:
    """Use up a single-use token, if it holds now. Of several who try at once exactly one gets it."""
    statement = (
        update(Credential)
        .where(
            Credential.secret_hash == secret_hash,
            Credential.kind == kind,
            Credential.used_at.is_(None),
            Credential.revoked_at.is_(None),
            Credential.expires_at > now,
            Credential.user_id.in_(select(User.id).where(User.disabled_at.is_(None))),
        )
        .values(used_at=now)
        .returning(Credential)
    )
    return await session.scalar(statement, execution_options={"synchronize_session": False})


async def issuer_of(session: AsyncSession, ticket: Credential, now: datetime) -> tuple[Credential, User] | None:
    """The sign-in that asked for this ticket and whose it is, if it still holds."""
    issuer = aliased(Credential)
    statement = (
        select(issuer, User)
        .join(User, User.id == issuer.user_id)
        .where(issuer.id == ticket.issuer_id, issuer.revoked_at.is_(None), issuer.expires_at > now)
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else (row[0], row[1])


async def revoke(session: AsyncSession, credential_id: str, now: datetime) -> bool:
    """End a credential; False when it had ended before."""
    statement = (
        update(Credential)
        .where(Credential.id == credential_id, Credential.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(Credential.id)
    )
    return await session.scalar(statement) is not None


async def purge_credentials(session: AsyncSession, now: datetime) -> None:
    """Remove credentials that can never hold again."""
    over = or_(Credential.expires_at <= now, Credential.revoked_at.is_not(None))
    await session.execute(delete(Credential).where(over), execution_options={"synchronize_session": False})
