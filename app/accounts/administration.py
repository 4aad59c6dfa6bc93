"""What administrators do with accounts. Called by the routes below `/admin` and by the command line; every act is audited.

Whatever takes something away from somebody ends what that person has open, at once (open-webui/open-webui#25764).
"""

from __future__ import annotations

from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts import queries
from app.accounts.identity import Identity
from app.accounts.models import User, UserRole
from app.accounts.moments import cursor_at, place_of
from app.accounts.passwords import Passwords, require_password
from app.accounts.schemas import AccountBody, AccountList, AccountPatch
from app.accounts.service import ADMIN, AccountService
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.errors import Conflict, NotFound
from app.identifiers import UserId, is_id


class Administration:
    """Owns the rules about accounts of others: there is always an administrator who can act."""

    def __init__(
        self, database: Database, accounts: AccountService, passwords: Passwords, audit: AuditLog, *, now: Now
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._passwords = passwords
        self._audit = audit
        self._now = now

    async def page(self, *, limit: int, cursor: str | None, role: UserRole | None) -> AccountList:
        """A page of all accounts, the newest first."""
        async with self._database.read() as session:
            found = await queries.users_page(session, limit=limit + 1, before=place_of(cursor), role=role)
        items = [AccountBody.of(user) for user in found[:limit]]
        return AccountList(items, cursor_at(found[limit - 1]) if len(found) > limit else None)

    async def get(self, user_id: str) -> AccountBody:
        """One account. Raises NotFound."""
        async with self._database.read() as session:
            return AccountBody.of(await _account(session, user_id))

    async def create(self, caller: Identity | None, username: str, password: str | None, role: UserRole) -> AccountBody:
        """Make an account; without a password it is entered by link or by OpenID Connect. Raises InvalidInput or Conflict."""
        user = await self._accounts.new_user(username, password, role)
        async with self._database.write() as session:
            await self._accounts.add_user(session, user)
            self._audit.record(session, caller, "user.create", user.id, username=user.username, role=role)
        return AccountBody.of(user)

    async def update(self, caller: Identity, user_id: str, patch: AccountPatch) -> AccountBody:
        """Change the role, disable or enable. The account's sign-ins end when one of the two was changed. Raises NotFound, or
        Conflict where nobody could administer the server any more."""
        ended: list[str] = []
        async with self._database.write() as session:
            administrators = await queries.hold_administrators(session)
            user = await _account(session, user_id, for_update=True)
            role = UserRole(user.role) if patch.role is UNSET else patch.role
            if role != user.role and UserRole.VISITOR in (role, user.role):
                raise Conflict("a visitor of a widget stays one, and nobody becomes one", code="fixed_role")
            disables = (user.disabled_at is not None) if patch.disabled is UNSET else patch.disabled
            if administrators == {user.id} and (role is not UserRole.ADMIN or disables):
                raise Conflict("this is the only administrator who can act", code="last_administrator")
            if user.username == ADMIN and role is not UserRole.ADMIN:
                raise Conflict(
                    f"the account {ADMIN!r} keeps its role: every start prints a link for it", code="fixed_role"
                )
            changed = False
            if role != user.role:
                self._audit.record(session, caller, "user.change_role", user.id, before=user.role, after=role)
                user.role, changed = role, True
            if disables != (user.disabled_at is not None):
                self._audit.record(session, caller, "user.disable" if disables else "user.enable", user.id)
                user.disabled_at, changed = (self._now() if disables else None), True
            if changed:
                ended = await self._end_everything(session, user.id)
            body = AccountBody.of(user)
        self._accounts.revocations.announce(ended)
        return body

    async def reset_password(self, caller: Identity, user_id: str, password: str) -> None:
        """Give an account another password, and end its sign-ins. Raises NotFound, InvalidInput, or Conflict for a visitor."""
        password_hash = await self._passwords.hash(require_password(password))
        async with self._database.write() as session:
            user = await _account(session, user_id, for_update=True)
            if user.role == UserRole.VISITOR:
                raise Conflict("a visitor of a widget has no password", code="visitor_account")
            user.password_hash = password_hash
            self._audit.record(session, caller, "user.reset_password", user.id)
            ended = await queries.revoke_sign_ins(session, user.id, self._now())
        self._accounts.revocations.announce(ended)

    async def begin_deletion(self, caller: Identity, user_id: str) -> None:
        """Write it down, and end everything that is open in this name: from here on it will be gone. Raises NotFound, or Conflict
        where nobody could administer the server any more."""
        async with self._database.write() as session:
            administrators = await queries.hold_administrators(session)
            user = await _account(session, user_id, for_update=True)
            if administrators == {user.id}:
                raise Conflict("this is the only administrator who can act", code="last_administrator")
            if user.username == ADMIN:
                raise Conflict(f"the account {ADMIN!r} stays: every start prints a link for it", code="fixed_role")
            if user.deletion_began_at is None:
                self._audit.record(session, caller, "user.delete", user.id, username=user.username, role=user.role)
                user.deletion_began_at = self._now()
            user.disabled_at = user.disabled_at or self._now()
            ended = await self._end_everything(session, user.id)
        self._accounts.revocations.announce(ended)

    async def being_deleted(self) -> list[str]:
        """Accounts whose deletion was begun."""
        async with self._database.read() as session:
            return await queries.users_being_deleted(session)

    async def key_ids(self, session: AsyncSession, user_id: str) -> list[str]:
        """Every API key of an account, those that do not hold any more as well; in the caller's unit of work."""
        return await queries.every_key_id(session, user_id)

    async def remove(self, session: AsyncSession, user_id: str) -> None:
        """Remove an account whose deletion was begun, with every row that hangs on it; in the caller's unit of work."""
        await queries.delete_user(session, user_id)

    async def make_sign_in_ticket(self, username: str) -> str | None:
        """A ticket that signs its reader in as somebody, once; None where there is no such account. For the command line."""
        user = await self._accounts.find_user(username)
        if user is None or user.role == UserRole.VISITOR:
            return None
        async with self._database.write() as session:
            self._audit.record(session, None, "user.sign_in_link", user.id)
        return await self._accounts.make_sign_in_ticket(UserId(user.id))

    async def _end_everything(self, session: AsyncSession, user_id: str) -> list[str]:
        """End the sign-ins; the ids of everything whose sockets have to close, which those of API keys are as well."""
        now = self._now()
        return await queries.revoke_sign_ins(session, user_id, now) + await queries.key_ids(session, user_id, now)


async def _account(session: AsyncSession, user_id: str, *, for_update: bool = False) -> User:
    user = await queries.user_by_id(session, user_id, for_update=for_update) if is_id(user_id) else None
    if user is None:
        raise NotFound("there is no such account")
    return user
