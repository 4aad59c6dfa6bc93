"""What people do with their accounts: sign in and out, and get tickets. Called by routes, by the command line and at start.

Secrets leave this room once, when they are made; what is stored of them are hashes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts import queries
from app.accounts.identity import CredentialSource, Identity
from app.accounts.models import Credential, CredentialKind, User, UserRole
from app.accounts.passwords import Passwords
from app.accounts.throttle import LoginThrottle
from app.clock import Now
from app.database import Database, insert_if_absent
from app.errors import Conflict, InvalidInput, Unauthenticated
from app.identifiers import UserId, hash_secret, new_id, new_secret
from app.settings import Settings
from app.text import require_storable

ADMIN = "admin"
USERNAME_MAX_CHARS = 64
PASSWORD_MAX_BYTES = 1024
USERNAME = re.compile(r"[\w.@+-]{1,64}")

RevokedListener = Callable[[str], None]
"""Called on the loop with the id of a credential right after it was revoked. It must not block and must not raise."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """A new sign-in. `token` is shown to its owner now and never again."""

    token: str
    expires_at: datetime
    user: User


def canonical_username(text: str) -> str:
    """The form in which a name is stored and compared: `Ann` and `ann` are the same person."""
    return unicodedata.normalize("NFKC", text).casefold()


class AccountService:
    """Owns who may act. Does not own what they act on."""

    def __init__(
        self, database: Database, passwords: Passwords, settings: Settings, *, now: Now, throttle: LoginThrottle
    ) -> None:
        self._database = database
        self._passwords = passwords
        self._settings = settings
        self._now = now
        self._throttle = throttle
        self._revoked_listeners: list[RevokedListener] = []

    def on_revoked(self, listener: RevokedListener) -> None:
        """Tell `listener` of every credential that is revoked, so that what was opened with it can be closed."""
        self._revoked_listeners.append(listener)

    async def log_in(self, username: str, password: str, address: str) -> SignIn:
        """Sign in by password. Raises Unauthenticated, the same for an unknown name, or TooManyRequests."""
        name = canonical_username(username)
        self._throttle.begin(name, address)
        async with self._database.read() as session:
            user = await queries.user_by_name(session, name)
        known_hash = None if user is None or user.disabled_at is not None else user.password_hash
        if not await self._passwords.verify(known_hash, password) or user is None:
            raise Unauthenticated("the username or the password is wrong", code="wrong_credentials")
        self._throttle.succeeded(name, address)
        async with self._database.write() as session:
            return self._new_sign_in(session, user)

    async def log_out(self, identity: Identity) -> None:
        """End the sign-in that was used for this call, and everything opened with it."""
        async with self._database.write() as session:
            revoked = await queries.revoke(session, identity.credential_id, self._now())
        if revoked:
            for listener in self._revoked_listeners:
                listener(identity.credential_id)

    async def user(self, user_id: UserId) -> User:
        """The account. Raises Unauthenticated when it is gone."""
        async with self._database.read() as session:
            user = await queries.user_by_id(session, user_id)
        if user is None:
            raise Unauthenticated("this account does not exist any more")
        return user

    async def find_user(self, username: str) -> User | None:
        """The account of that name, in whatever case it is written; None where there is none."""
        async with self._database.read() as session:
            return await queries.user_by_name(session, canonical_username(username))

    async def existing(self, user_ids: Collection[str]) -> set[str]:
        """Those of these people whose accounts are stored, disabled ones too."""
        async with self._database.read() as session:
            return await queries.existing_users(session, user_ids)

    async def identify(self, token: str, source: CredentialSource) -> Identity:
        """Who holds this session token. Raises Unauthenticated."""
        async with self._database.read() as session:
            found = await queries.valid_session(session, hash_secret(token), self._now())
        if found is None:
            raise Unauthenticated("this sign-in is unknown, has expired or was ended")
        return _identity(*found, source)

    async def make_socket_ticket(self, identity: Identity) -> str:
        """A token that opens one socket, soon."""
        ticket = new_secret()
        async with self._database.write() as session:
            lifetime = timedelta(seconds=self._settings.socket_ticket_s)
            self._add(session, identity.user_id, CredentialKind.SOCKET, ticket, lifetime, identity.credential_id)
        return ticket

    async def redeem_socket_ticket(self, ticket: str) -> Identity:
        """Use up a socket's ticket. Raises Unauthenticated, also when the sign-in behind it has ended meanwhile."""
        now = self._now()
        async with self._database.write() as session:
            taken = await queries.take_ticket(session, hash_secret(ticket), CredentialKind.SOCKET, now)
            issuer = None if taken is None else await queries.issuer_of(session, taken, now)
        if issuer is None:
            raise Unauthenticated("this ticket is unknown, was used before or has expired")
        return _identity(*issuer, CredentialSource.TICKET)

    async def make_sign_in_ticket(self, user_id: UserId) -> str:
        """A token for a link that signs its reader in, once."""
        ticket = new_secret()
        async with self._database.write() as session:
            lifetime = timedelta(seconds=self._settings.sign_in_ticket_s)
            self._add(session, user_id, CredentialKind.SIGN_IN, ticket, lifetime)
        return ticket

    async def redeem_sign_in_ticket(self, ticket: str) -> SignIn:
        """Use up a link's ticket and sign its reader in. Raises Unauthenticated."""
        async with self._database.write() as session:
            taken = await queries.take_ticket(session, hash_secret(ticket), CredentialKind.SIGN_IN, self._now())
            user = None if taken is None else await queries.user_by_id(session, taken.user_id)
            if user is None:
                raise Unauthenticated("this link is unknown, was used before or has expired")
            return self._new_sign_in(session, user)

    async def create_user(self, username: str, password: str | None, role: UserRole) -> User:
        """Make an account; without a password it is entered by link only. Raises InvalidInput or Conflict."""
        name = canonical_username(username)
        if not USERNAME.fullmatch(name):
            raise InvalidInput(
                f"a username is 1 to {USERNAME_MAX_CHARS} letters, digits and . _ @ + -, got {username[:80]!r}"
            )
        if name == ADMIN and role is not UserRole.ADMIN:
            # The link that every start prints signs in whoever has this name.
            raise InvalidInput(f"the account {ADMIN!r} has the role {UserRole.ADMIN}, got {role}")
        if (
            password is not None
            and not 0 < len(require_storable(password, "the password").encode()) <= PASSWORD_MAX_BYTES
        ):
            raise InvalidInput(f"a password has 1 to {PASSWORD_MAX_BYTES} bytes")
        user = User(
            id=new_id(),
            username=name,
            role=role,
            password_hash=None if password is None else await self._passwords.hash(password),
            created_at=self._now(),
            disabled_at=None,
        )
        values = {column.key: getattr(user, column.key) for column in User.__mapper__.column_attrs}
        async with self._database.write() as session:
            if not await insert_if_absent(session, User, values):
                raise Conflict(f"there is already an account {name!r}", code="username_taken")
        return user

    async def ensure_admin(self) -> User:
        """The account `admin`; made, with the password of the settings, where it does not exist."""
        async with self._database.read() as session:
            user = await queries.user_by_name(session, ADMIN)
        if user is None:
            try:
                return await self.create_user(ADMIN, self._settings.admin_password or None, UserRole.ADMIN)
            except Conflict:
                # Another process that starts at the same time was faster.
                return await self.ensure_admin()
        return user

    async def purge(self) -> None:
        """Remove credentials that can never hold again."""
        async with self._database.write() as session:
            await queries.purge_credentials(session, self._now())

    def _new_sign_in(self, session: AsyncSession, user: User) -> SignIn:
        token = new_secret()
        lifetime = timedelta(days=self._settings.session_days)
        credential = self._add(session, user.id, CredentialKind.SESSION, token, lifetime)
        return SignIn(token, credential.expires_at, user)

    def _add(
        self,
        session: AsyncSession,
        user_id: str,
        kind: CredentialKind,
        secret: str,
        lifetime: timedelta,
        issuer_id: str | None = None,
    ) -> Credential:
        now = self._now()
        credential = Credential(
            id=new_id(),
            user_id=user_id,
            issuer_id=issuer_id,
            kind=kind,
            secret_hash=hash_secret(secret),
            created_at=now,
            expires_at=now + lifetime,
            used_at=None,
            revoked_at=None,
        )
        session.add(credential)
        return credential


def _identity(credential: Credential, user: User, source: CredentialSource) -> Identity:
    return Identity(UserId(user.id), user.username, UserRole(user.role), credential.id, credential.expires_at, source)
