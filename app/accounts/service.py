"""What people do with their accounts: sign in and out, and get tickets. Called by routes, by the command line and at start.

Secrets leave this room once, when they are made; what is stored of them are hashes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts import queries
from app.accounts.credentials import KINDS_BY_SOURCE, add_credential, identity_of
from app.accounts.identity import CredentialSource, Identity
from app.accounts.last_uses import LastUses
from app.accounts.models import USERNAME_MAX_CHARS, CredentialKind, User, UserRole
from app.accounts.passwords import PASSWORD_MAX_BYTES, Passwords, require_password
from app.accounts.revocations import Revocations, RevokedListener
from app.accounts.throttle import LoginThrottle
from app.clock import Now
from app.database import Database, DatabaseAway, insert_if_absent
from app.errors import Conflict, Forbidden, InvalidInput, Unauthenticated
from app.identifiers import UserId, hash_secret, new_id, new_secret
from app.settings import Settings
from app.text import require_storable

logger = structlog.stdlib.get_logger(__name__)

ADMIN = "admin"
VISITOR_PREFIX = "visitor-"
"""How the names of accounts begin that are made by `visitor_accounts`, and no others."""
USERNAME = re.compile(r"[\w.@+-]{1,64}")


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
        self.revocations = Revocations()
        self.last_uses = LastUses()
        self._database = database
        self._passwords = passwords
        self._settings = settings
        self._now = now
        self._throttle = throttle

    def on_revoked(self, listener: RevokedListener) -> None:
        """Tell `listener` of every credential that ends, so that what was opened with it can be closed."""
        self.revocations.listen(listener)

    async def log_in(self, username: str, password: str, address: str, label: str = "") -> SignIn:
        """Sign in by password. `label` is what its owner will know this sign-in by. Raises Unauthenticated, the same for an
        unknown name, or TooManyRequests."""
        name = canonical_username(username)
        await self._throttle.begin(name, address)
        async with self._database.read() as session:
            user = await queries.user_by_name(session, name)
        known_hash = None if user is None or user.disabled_at is not None else user.password_hash
        if not await self._passwords.verify(known_hash, password) or user is None:
            raise _wrong_credentials()
        await self._throttle.succeeded(name, address)
        async with self._database.write() as session:
            current = await queries.user_by_id(session, user.id, for_update=True)
            if current is None or current.disabled_at is not None or current.password_hash != known_hash:
                # It was changed while this one was being verified.
                raise _wrong_credentials()
            return self.new_sign_in(session, current, label)

    async def sign_up(self, username: str, password: str, address: str, label: str = "") -> SignIn:
        """Make an account for whoever asks, where the settings let people do that, and sign in. Raises Forbidden where they do
        not, TooManyRequests, InvalidInput or Conflict."""
        if self._settings.signup != "open":
            raise Forbidden("people cannot make accounts here; ask an administrator for one", code="signup_closed")
        await self._throttle.sign_up(address)
        user = await self.create_user(username, require_password(password), UserRole.USER)
        async with self._database.write() as session:
            return self.new_sign_in(session, user, label)

    async def log_out(self, identity: Identity) -> None:
        """End the sign-in that was used for this call, and everything opened with it. Raises Forbidden for an API key."""
        _require_sign_in(identity)
        async with self._database.write() as session:
            revoked = await queries.revoke(session, identity.credential_id, self._now())
        if revoked:
            self.revocations.announce([identity.credential_id])

    async def change_password(self, identity: Identity, current: str | None, new: str, address: str) -> None:
        """Replace one's own password and end one's other sign-ins. `current` may be left out where there is none yet. Raises
        Forbidden for an API key or where `current` is wrong, TooManyRequests, or InvalidInput."""
        _require_sign_in(identity)
        require_password(new)
        await self._throttle.begin(identity.username, address)
        known_hash = (await self.user(identity.user_id)).password_hash
        if known_hash is not None and not await self._passwords.verify(known_hash, current or ""):
            raise Forbidden("the current password is wrong", code="wrong_password")
        new_hash = await self._passwords.hash(new)
        async with self._database.write() as session:
            user = await queries.user_by_id(session, identity.user_id, for_update=True)
            if user is None or user.password_hash != known_hash:
                raise Forbidden("the password was changed meanwhile", code="wrong_password")
            user.password_hash = new_hash
            ended = await queries.revoke_sign_ins(session, user.id, self._now(), but=identity.credential_id)
        await self._throttle.succeeded(identity.username, address)
        self.revocations.announce(ended)

    async def confirm_password(self, identity: Identity, password: str | None, address: str) -> None:
        """Whoever asks for this knows the password; where there is none, the sign-in does. Raises Forbidden for an API key or
        where it is wrong, or TooManyRequests."""
        _require_sign_in(identity)
        await self._throttle.begin(identity.username, address)
        known_hash = (await self.user(identity.user_id)).password_hash
        if known_hash is not None and not await self._passwords.verify(known_hash, password or ""):
            raise Forbidden("the password is wrong", code="wrong_password")
        await self._throttle.succeeded(identity.username, address)

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

    async def holding(self, credential_ids: Collection[str]) -> set[str]:
        """Those of these sign-ins that hold now: neither revoked nor expired, of accounts that are not disabled."""
        async with self._database.read() as session:
            return await queries.holding_credentials(session, credential_ids, self._now())

    async def usernames(self, user_ids: Collection[str]) -> dict[str, str]:
        """The names of those of these people whose accounts are stored. For administrators' eyes."""
        async with self._database.read() as session:
            return await queries.usernames(session, user_ids)

    async def identify(self, token: str, source: CredentialSource) -> Identity:
        """Who holds this token or API key. Raises Unauthenticated."""
        now = self._now()
        async with self._database.read() as session:
            found = await queries.valid_credential(session, hash_secret(token), KINDS_BY_SOURCE[source], now)
        if found is None:
            raise Unauthenticated("this sign-in is unknown, has expired or was ended")
        self.last_uses.note(found[0].id, now)
        return identity_of(*found, source)

    async def still_holds(self, identity: Identity) -> bool:
        """Whether what the caller was known by is as it was. Asked once a socket or a stream can be closed from outside: what
        ended before that was told to nobody (open-webui/open-webui#25764)."""
        async with self._database.read() as session:
            return await queries.role_while_held(session, identity.credential_id, self._now()) == identity.role

    async def make_socket_ticket(self, identity: Identity) -> str:
        """A token that opens one socket, soon."""
        ticket = new_secret()
        async with self._database.write() as session:
            add_credential(
                session,
                identity.user_id,
                CredentialKind.SOCKET,
                ticket,
                now=self._now(),
                lifetime=timedelta(seconds=self._settings.socket_ticket_s),
                issuer_id=identity.credential_id,
            )
        return ticket

    async def redeem_socket_ticket(self, ticket: str) -> Identity:
        """Use up a socket's ticket. Raises Unauthenticated, also when the sign-in behind it has ended meanwhile."""
        now = self._now()
        async with self._database.write() as session:
            taken = await queries.take_ticket(session, hash_secret(ticket), CredentialKind.SOCKET, now)
            issuer = None if taken is None else await queries.issuer_of(session, taken, now)
        if issuer is None:
            raise Unauthenticated("this ticket is unknown, was used before or has expired")
        self.last_uses.note(issuer[0].id, now)
        return identity_of(*issuer, CredentialSource.TICKET)

    async def make_sign_in_ticket(self, user_id: UserId) -> str:
        """A token for a link that signs its reader in, once."""
        ticket = new_secret()
        async with self._database.write() as session:
            lifetime = timedelta(seconds=self._settings.sign_in_ticket_s)
            add_credential(session, user_id, CredentialKind.SIGN_IN, ticket, now=self._now(), lifetime=lifetime)
        return ticket

    async def redeem_sign_in_ticket(self, ticket: str, label: str = "") -> SignIn:
        """Use up a link's ticket and sign its reader in. Raises Unauthenticated."""
        async with self._database.write() as session:
            taken = await queries.take_ticket(session, hash_secret(ticket), CredentialKind.SIGN_IN, self._now())
            user = None if taken is None else await queries.user_by_id(session, taken.user_id)
            if user is None:
                raise Unauthenticated("this link is unknown, was used before or has expired")
            return self.new_sign_in(session, user, label)

    async def create_user(self, username: str, password: str | None, role: UserRole) -> User:
        """Make an account; without a password it is entered by link only. Raises InvalidInput or Conflict."""
        user = await self.new_user(username, password, role)
        async with self._database.write() as session:
            await self.add_user(session, user)
        return user

    async def new_user(self, username: str, password: str | None, role: UserRole) -> User:
        """An account that is not stored yet. Raises InvalidInput."""
        name = canonical_username(username)
        if not USERNAME.fullmatch(name):
            raise InvalidInput(
                f"a username is 1 to {USERNAME_MAX_CHARS} letters, digits and . _ @ + -, got {username[:80]!r}"
            )
        if name == ADMIN and role is not UserRole.ADMIN:
            # The link that every start prints signs in whoever has this name.
            raise InvalidInput(f"the account {ADMIN!r} has the role {UserRole.ADMIN}, got {role}")
        if name.startswith(VISITOR_PREFIX):
            # What agents are shown of a visitor, the site has said; of others it would be their own word.
            raise InvalidInput(f"names that begin with {VISITOR_PREFIX} are for visitors of widgets")
        if role is UserRole.VISITOR:
            raise InvalidInput("visitors come through a widget; an account that is made has another role")
        if (
            password is not None
            and not 0 < len(require_storable(password, "the password").encode()) <= PASSWORD_MAX_BYTES
        ):
            raise InvalidInput(f"a password has 1 to {PASSWORD_MAX_BYTES} bytes")
        return User(
            id=new_id(),
            username=name,
            role=role,
            password_hash=None if password is None else await self._passwords.hash(password),
            created_at=self._now(),
            disabled_at=None,
        )

    async def add_user(self, session: AsyncSession, user: User) -> None:
        """Store a new account in the caller's unit of work. Raises Conflict where the name is taken."""
        values = {column.key: getattr(user, column.key) for column in User.__mapper__.column_attrs}
        if not await insert_if_absent(session, User, values):
            raise Conflict(f"there is already an account {user.username!r}", code="username_taken")

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

    async def keep_last_uses(self) -> None:
        """Write down when credentials were used. Where the database is away for that, it is not known so exactly."""
        if used := self.last_uses.take():
            try:
                async with self._database.write() as session:
                    await queries.keep_last_uses(session, used)
            except DatabaseAway as away:
                logger.warning("last_uses_not_kept", credentials=len(used), reason=away.reason)

    def new_sign_in(self, session: AsyncSession, user: User, label: str) -> SignIn:
        """A sign-in of this account, in the caller's unit of work, which has found out that it may be one."""
        token, now = new_secret(), self._now()
        lifetime = timedelta(days=self._settings.session_days)
        add_credential(session, user.id, CredentialKind.SESSION, token, now=now, lifetime=lifetime, label=label)
        return SignIn(token, now + lifetime, user)


def _wrong_credentials() -> Unauthenticated:
    return Unauthenticated("the username or the password is wrong", code="wrong_credentials")


def _require_sign_in(identity: Identity) -> None:
    if identity.key_id is not None:
        raise Forbidden("this is about a sign-in, and an API key is none", code="sign_in_required")
