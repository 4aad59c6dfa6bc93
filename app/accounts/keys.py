"""API keys: what programs sign in with. A key acts as the account that made it. Called by routes and by the command line.

A key is shown once, when it is made; its hash is stored. What was used is counted by key, so an ended one stays as a row.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.accounts import queries
from app.accounts.credentials import add_credential, storable_label
from app.accounts.identity import Identity
from app.accounts.last_uses import LastUses
from app.accounts.models import Credential, CredentialKind
from app.accounts.moments import cursor_at, place_of
from app.accounts.revocations import Revocations
from app.accounts.schemas import AnyKeyBody, AnyKeyList, KeyBody, KeyList, NewKeyBody
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.errors import Conflict, InvalidInput, NotFound
from app.identifiers import UserId, is_id, new_secret
from app.text import require_storable

PREFIX = "kv_"
"""So that people and scanners of secrets know one when they see it."""

KEYS_MAX = 100
"""Of one account, at the same time. More is a program that makes a key with every start."""


class KeyService:
    """Owns API keys. Does not own what they may do: that is their account's."""

    def __init__(
        self, database: Database, revocations: Revocations, last_uses: LastUses, audit: AuditLog, *, now: Now
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._last_uses = last_uses
        self._audit = audit
        self._now = now

    async def create(
        self, user_id: UserId, name: str, expires_in_days: int | None = None, *, audited: bool = False
    ) -> NewKeyBody:
        """A new key of this account; `audited` where it is not its owner who makes it, but the command line. Raises InvalidInput,
        or Conflict where it has as many as it may."""
        label = storable_label(name).strip()
        if not label:
            raise InvalidInput("a key's name has at least one character that can be seen")
        secret, now = PREFIX + new_secret(), self._now()
        lifetime = None if expires_in_days is None else timedelta(days=expires_in_days)
        async with self._database.write() as session:
            await queries.user_by_id(session, user_id, for_update=True)
            if len(await queries.key_ids(session, user_id, now)) >= KEYS_MAX:
                raise Conflict(f"the account has {KEYS_MAX} keys, which is the limit; revoke one", code="too_many_keys")
            key = add_credential(
                session, user_id, CredentialKind.API_KEY, secret, now=now, lifetime=lifetime, label=label
            )
            if audited:
                self._audit.record(session, None, "key.create", key.id, user_id=user_id, name=label)
        return NewKeyBody(**msgspec.structs.asdict(KeyBody.of(key, None)), key=secret)

    async def page(self, user_id: UserId, *, limit: int, cursor: str | None) -> KeyList:
        """A page of one's own keys that hold, the newest first."""
        async with self._database.read() as session:
            found = await queries.credentials_page(
                session, user_id, CredentialKind.API_KEY, self._now(), limit=limit + 1, before=place_of(cursor)
            )
        items = [KeyBody.of(key, self._last_used(key)) for key in found[:limit]]
        return KeyList(items, cursor_at(found[limit - 1]) if len(found) > limit else None)

    async def revoke(self, user_id: UserId, key_id: str) -> None:
        """End one of one's own keys, and everything opened with it. Raises NotFound."""
        if not is_id(key_id):
            raise _no_key()
        async with self._database.write() as session:
            if not await queries.revoke_owned(session, user_id, key_id, CredentialKind.API_KEY, self._now()):
                raise _no_key()
        self._revocations.announce([key_id])

    async def page_of_all(self, *, limit: int, cursor: str | None, user_id: str | None) -> AnyKeyList:
        """A page of everybody's keys, ended ones too, the newest first. For administrators."""
        require_storable(user_id or "", "user_id")
        async with self._database.read() as session:
            found = await queries.keys_page(session, limit=limit + 1, before=place_of(cursor), user_id=user_id)
        items = [AnyKeyBody.of_anybody(key, username, self._last_used(key)) for key, username in found[:limit]]
        return AnyKeyList(items, cursor_at(found[limit - 1][0]) if len(found) > limit else None)

    async def require(self, key_id: str) -> None:
        """Raises NotFound where there is no such key, of anybody."""
        async with self._database.read() as session:
            if not is_id(key_id) or await queries.key_by_id(session, key_id) is None:
                raise _no_key()

    async def revoke_any(self, caller: Identity, key_id: str) -> None:
        """End somebody's key. For administrators. Raises NotFound."""
        if not is_id(key_id):
            raise _no_key()
        async with self._database.write() as session:
            key = await queries.key_by_id(session, key_id)
            if key is None or not await queries.revoke_owned(
                session, key.user_id, key_id, CredentialKind.API_KEY, self._now()
            ):
                raise _no_key()
            self._audit.record(session, caller, "key.revoke", key_id, user_id=key.user_id, name=key.label)
        self._revocations.announce([key_id])

    def _last_used(self, key: Credential) -> datetime | None:
        return self._last_uses.latest(key.id, key.last_used_at)


def _no_key() -> NotFound:
    return NotFound("there is no such key")
