"""SQL of accounts. Every function runs inside the caller's unit of work and commits nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, delete, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.accounts.models import Credential, CredentialKind, ExternalIdentity, User, UserRole
from app.database import UTCDateTime, chunks


async def user_by_name(session: AsyncSession, username: str) -> User | None:
    """The account of that name, disabled or not."""
    return await session.scalar(select(User).where(User.username == username))


async def user_by_id(session: AsyncSession, user_id: str, *, for_update: bool = False) -> User | None:
    """The account, disabled or not. `for_update` keeps what is decided about it in one order."""
    return await session.get(User, user_id, with_for_update=for_update or None)


async def user_of_external(session: AsyncSession, issuer: str, subject: str) -> User | None:
    """The account of somebody of an OpenID Connect provider, disabled or not; held until this unit of work ends."""
    statement = (
        select(User)
        .join(ExternalIdentity, ExternalIdentity.user_id == User.id)
        .where(ExternalIdentity.issuer == issuer, ExternalIdentity.subject == subject)
        .with_for_update(of=User)
    )
    return await session.scalar(statement)


async def users_page(
    session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None, role: UserRole | None
) -> Sequence[User]:
    """At most `limit` accounts, the newest first, from behind `before` on. Visitors only where they are asked for."""
    statement = select(User)
    if before is not None:
        statement = statement.where(tuple_(User.created_at, User.id) < before)
    statement = statement.where(User.role != UserRole.VISITOR if role is None else User.role == role)
    statement = statement.order_by(User.created_at.desc(), User.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()


async def hold_administrators(session: AsyncSession) -> set[str]:
    """The ids of the administrators who can act. Their rows are held, so that two cannot take each other's role at once."""
    statement = select(User.id).where(User.role == UserRole.ADMIN, User.disabled_at.is_(None)).order_by(User.id)
    return set((await session.scalars(statement.with_for_update())).all())


async def existing_users(session: AsyncSession, user_ids: Collection[str]) -> set[str]:
    """Those of these ids that are there, disabled or not."""
    found: set[str] = set()
    for chunk in chunks(user_ids):
        found.update((await session.scalars(select(User.id).where(User.id.in_(chunk)))).all())
    return found


async def usernames(session: AsyncSession, user_ids: Collection[str]) -> dict[str, str]:
    """The name of each of these ids that is there."""
    found: dict[str, str] = {}
    for chunk in chunks(user_ids):
        rows = await session.execute(select(User.id, User.username).where(User.id.in_(chunk)))
        found.update((row.id, row.username) for row in rows)
    return found


async def valid_credential(
    session: AsyncSession, secret_hash: str, kinds: Collection[CredentialKind], now: datetime
) -> tuple[Credential, User] | None:
    """The credential with this token and whose it is, if it is of one of these kinds and holds now."""
    asked = {"secret_hash": secret_hash, "kinds": list(kinds), "now": now}
    row = (await session.execute(_valid_credential(), asked)).one_or_none()
    return None if row is None else (row[0], row[1])


@cache
def _valid_credential() -> Select[Credential, User]:
    """Built once, because every request asks this first."""
    is_it = Credential.secret_hash == bindparam("secret_hash")
    is_of_kind = Credential.kind.in_(bindparam("kinds", expanding=True))
    holds = _holds(bindparam("now", type_=UTCDateTime()))
    owner = User.id == Credential.user_id
    return select(Credential, User).join(User, owner).where(is_it, is_of_kind, *holds, User.disabled_at.is_(None))


async def role_while_held(session: AsyncSession, credential_id: str, now: datetime) -> str | None:
    """The role of whoever holds this credential; None when it does not hold any more."""
    statement = (
        select(User.role)
        .join(Credential, Credential.user_id == User.id)
        .where(Credential.id == credential_id, *_holds(now), User.disabled_at.is_(None))
    )
    return await session.scalar(statement)


async def holding_credentials(session: AsyncSession, credential_ids: Collection[str], now: datetime) -> set[str]:
    """Those of these credentials that hold now."""
    found: set[str] = set()
    for chunk in chunks(credential_ids):
        statement = (
            select(Credential.id)
            .join(User, User.id == Credential.user_id)
            .where(Credential.id.in_(chunk), *_holds(now), User.disabled_at.is_(None))
        )
        found.update((await session.scalars(statement)).all())
    return found


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
        .where(
            issuer.id == ticket.issuer_id,
            issuer.revoked_at.is_(None),
            or_(issuer.expires_at.is_(None), issuer.expires_at > now),
        )
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


async def revoke_owned(
    session: AsyncSession, user_id: str, credential_id: str, kind: CredentialKind, now: datetime
) -> bool:
    """End a credential of this user and this kind; False when there is none that holds."""
    statement = (
        update(Credential)
        .where(Credential.id == credential_id, Credential.user_id == user_id, Credential.kind == kind, *_holds(now))
        .values(revoked_at=now)
        .returning(Credential.id)
    )
    return await session.scalar(statement, execution_options={"synchronize_session": False}) is not None


async def revoke_sign_ins(session: AsyncSession, user_id: str, now: datetime, *, but: str | None = None) -> list[str]:
    """End every sign-in of this user, and every link that could make one, except one sign-in; the ids of what has ended."""
    statement = (
        update(Credential)
        .where(
            Credential.user_id == user_id,
            Credential.kind.in_((CredentialKind.SESSION, CredentialKind.SIGN_IN, CredentialKind.VISITOR)),
            Credential.id != (but or ""),
            *_holds(now),
        )
        .values(revoked_at=now)
        .returning(Credential.id)
    )
    return list((await session.scalars(statement, execution_options={"synchronize_session": False})).all())


async def revoke_visitors(session: AsyncSession, user_ids: Collection[str], now: datetime) -> list[str]:
    """End every token of these visitors of widgets; the ids of what has ended. There may be many of them."""
    ended: list[str] = []
    for chunk in chunks(user_ids):
        statement = (
            update(Credential)
            .where(Credential.user_id.in_(chunk), Credential.kind == CredentialKind.VISITOR, *_holds(now))
            .values(revoked_at=now)
            .returning(Credential.id)
        )
        ended += (await session.scalars(statement, execution_options={"synchronize_session": False})).all()
    return ended


async def users_being_deleted(session: AsyncSession) -> list[str]:
    """Accounts whose deletion was begun, the first one first."""
    statement = select(User.id).where(User.deletion_began_at.is_not(None)).order_by(User.deletion_began_at, User.id)
    return list((await session.scalars(statement)).all())


async def delete_user(session: AsyncSession, user_id: str) -> None:
    """Remove an account whose deletion was begun, and through the foreign keys its credentials and all that refers to it."""
    await session.execute(delete(User).where(User.id == user_id, User.deletion_began_at.is_not(None)))


async def every_key_id(session: AsyncSession, user_id: str) -> list[str]:
    """The API keys of this user, whether they hold or not."""
    statement = select(Credential.id).where(Credential.user_id == user_id, Credential.kind == CredentialKind.API_KEY)
    return list((await session.scalars(statement)).all())


async def key_ids(session: AsyncSession, user_id: str, now: datetime) -> list[str]:
    """The API keys of this user that hold now."""
    statement = select(Credential.id).where(
        Credential.user_id == user_id, Credential.kind == CredentialKind.API_KEY, *_holds(now)
    )
    return list((await session.scalars(statement)).all())


async def credentials_page(
    session: AsyncSession,
    user_id: str,
    kind: CredentialKind,
    now: datetime,
    *,
    limit: int,
    before: tuple[datetime, str] | None,
) -> Sequence[Credential]:
    """At most `limit` credentials of this user that hold now, the newest first, from behind `before` on."""
    statement = select(Credential).where(Credential.user_id == user_id, Credential.kind == kind, *_holds(now))
    if before is not None:
        statement = statement.where(tuple_(Credential.created_at, Credential.id) < before)
    statement = statement.order_by(Credential.created_at.desc(), Credential.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()


async def keys_page(
    session: AsyncSession, *, limit: int, before: tuple[datetime, str] | None, user_id: str | None
) -> list[tuple[Credential, str]]:
    """At most `limit` API keys of everybody or of one, ended ones too, each with its owner's name; the newest first."""
    statement = (
        select(Credential, User.username)
        .join(User, User.id == Credential.user_id)
        .where(Credential.kind == CredentialKind.API_KEY)
    )
    if user_id is not None:
        statement = statement.where(Credential.user_id == user_id)
    if before is not None:
        statement = statement.where(tuple_(Credential.created_at, Credential.id) < before)
    statement = statement.order_by(Credential.created_at.desc(), Credential.id.desc()).limit(limit)
    return [(row[0], row[1]) for row in await session.execute(statement)]


async def key_by_id(session: AsyncSession, key_id: str) -> Credential | None:
    """Any API key, ended or not."""
    statement = select(Credential).where(Credential.id == key_id, Credential.kind == CredentialKind.API_KEY)
    return await session.scalar(statement)


async def keep_last_uses(session: AsyncSession, used: Mapping[str, datetime]) -> None:
    """Write down when credentials were used; a later moment that is there already stays."""
    for credential_id, moment in used.items():
        earlier = or_(Credential.last_used_at.is_(None), Credential.last_used_at < moment)
        await session.execute(
            update(Credential).where(Credential.id == credential_id, earlier).values(last_used_at=moment),
            execution_options={"synchronize_session": False},
        )


async def delete_visitor(session: AsyncSession, user_id: str) -> None:
    """Remove the account of a widget's visitor, and of nobody else."""
    await session.execute(delete(User).where(User.id == user_id, User.role == UserRole.VISITOR))


async def purge_credentials(session: AsyncSession, now: datetime) -> None:
    """Remove credentials that can never hold again. API keys stay, because what was used is counted by key."""
    over = or_(Credential.expires_at <= now, Credential.revoked_at.is_not(None))
    statement = delete(Credential).where(Credential.kind != CredentialKind.API_KEY, over)
    await session.execute(statement, execution_options={"synchronize_session": False})


def _holds(now: datetime | BindParameter[datetime]) -> tuple[ColumnElement[bool], ...]:
    return Credential.revoked_at.is_(None), or_(Credential.expires_at.is_(None), Credential.expires_at > now)
