"""One's own sign-ins: where one is signed in, and how to end that from elsewhere. Called by routes."""

from __future__ import annotations

from app.accounts import queries
from app.accounts.identity import Identity
from app.accounts.last_uses import LastUses
from app.accounts.models import CredentialKind
from app.accounts.moments import cursor_at, place_of
from app.accounts.revocations import Revocations
from app.accounts.schemas import SignInEntry, SignInList
from app.clock import Now
from app.database import Database
from app.errors import NotFound
from app.identifiers import is_id


class SignInService:
    """Owns nothing: sign-ins are made and used by the account service."""

    def __init__(self, database: Database, revocations: Revocations, last_uses: LastUses, *, now: Now) -> None:
        self._database = database
        self._revocations = revocations
        self._last_uses = last_uses
        self._now = now

    async def page(self, caller: Identity, *, limit: int, cursor: str | None) -> SignInList:
        """A page of the caller's sign-ins that hold, the newest first."""
        async with self._database.read() as session:
            found = await queries.credentials_page(
                session, caller.user_id, CredentialKind.SESSION, self._now(), limit=limit + 1, before=place_of(cursor)
            )
        items = [
            SignInEntry.of(sign_in, self._last_uses.latest(sign_in.id, sign_in.last_used_at), caller.credential_id)
            for sign_in in found[:limit]
        ]
        return SignInList(items, cursor_at(found[limit - 1]) if len(found) > limit else None)

    async def revoke(self, caller: Identity, sign_in_id: str) -> None:
        """End one of them, which may be the one that asks, and everything opened with it. Raises NotFound."""
        revoked = False
        if is_id(sign_in_id):
            async with self._database.write() as session:
                revoked = await queries.revoke_owned(
                    session, caller.user_id, sign_in_id, CredentialKind.SESSION, self._now()
                )
        if not revoked:
            raise NotFound("there is no such sign-in")
        self._revocations.announce([sign_in_id])
