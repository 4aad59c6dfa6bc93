"""Signing in by OpenID Connect: the code flow with PKCE, state and nonce, and which account of ours that is. Called by routes.

An account is found by issuer and subject and by nothing else: an e-mail address or a name can be somebody else's tomorrow.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts import queries
from app.accounts.models import USERNAME_MAX_CHARS, ExternalIdentity, User, UserRole
from app.accounts.service import ADMIN, AccountService, SignIn, canonical_username
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database, insert_if_absent
from app.errors import Conflict
from app.identifiers import new_secret
from app.settings import Settings

ACTOR = "openid connect"
"""Who changed a role, in the audit log."""

NAME_TRIES = 20
"""Names with a number behind them, until a random one is taken."""


class OidcFailed(Exception):
    """The provider does not say who it is, or what it says cannot be believed. The message is for the log."""


@dataclass(frozen=True, slots=True)
class OidcPerson:
    """Who has signed in there. `issuer` and `subject` together are the only name that never changes hands."""

    issuer: str
    subject: str
    claims: dict[str, Any]


class Provider(Protocol):
    """The provider of the settings: `oidc_provider`."""

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where people sign in. Raises OidcFailed."""

    async def person(self, code: str, nonce: str, verifier: str) -> OidcPerson:
        """Who the code stands for. Raises OidcFailed."""


class _LinkedMeanwhile(Exception):
    """The same person signs in for the first time twice at once."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that is under way, kept by the browser alone: whoever comes back has to be who went."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> Attempt:
        return cls(new_secret(), new_secret(), secrets.token_urlsafe(48))

    def as_cookie(self) -> str:
        """What the browser keeps."""
        return ".".join((self.state, self.nonce, self.verifier))

    @classmethod
    def of_cookie(cls, text: str) -> Attempt | None:
        """The attempt; None for anything that is none."""
        parts = text.split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None


class OidcSignIn:
    """Owns which account of ours somebody of theirs is."""

    def __init__(
        self,
        database: Database,
        accounts: AccountService,
        audit: AuditLog,
        provider: Provider | None,
        settings: Settings,
        *,
        now: Now,
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._audit = audit
        self._provider = provider
        self._settings = settings
        self._now = now

    @property
    def is_configured(self) -> bool:
        """Whether the settings name a provider."""
        return self._provider is not None

    async def begin(self) -> tuple[str, Attempt]:
        """Where to send the browser, and what it has to keep meanwhile. Raises OidcFailed."""
        attempt = Attempt.new()
        if self._provider is None:
            raise OidcFailed("there is no provider")
        return await self._provider.authorization_url(attempt.state, attempt.nonce, attempt.verifier), attempt

    async def complete(self, attempt: Attempt | None, state: str, code: str, issuer: str | None, label: str) -> SignIn:
        """The sign-in of whoever came back. Raises OidcFailed."""
        if (
            self._provider is None
            or attempt is None
            or not secrets.compare_digest(attempt.state.encode(), state.encode())
        ):
            raise OidcFailed("this browser has begun no such sign-in")
        person = await self._provider.person(code, attempt.nonce, attempt.verifier)
        if issuer is not None and issuer != person.issuer:
            raise OidcFailed("another provider has answered")
        role = self._role(person.claims)
        while True:
            try:
                async with self._database.write() as session:
                    user, ended = await self._account(session, person, role)
                    sign_in = self._accounts.new_sign_in(session, user, label)
            except (_LinkedMeanwhile, Conflict):
                # Somebody was faster: the person with the other browser, or with the name.
                continue
            self._accounts.revocations.announce(ended)
            return sign_in

    async def _account(
        self, session: AsyncSession, person: OidcPerson, role: UserRole | None
    ) -> tuple[User, list[str]]:
        """The account, made where it is the first time, and the credentials that a change of role has ended."""
        found = await queries.user_of_external(session, person.issuer, person.subject)
        if found is None:
            user = await self._new_account(session, person, role or UserRole.USER)
            return user, []
        if found.disabled_at is not None:
            raise OidcFailed("the account is disabled")
        if role is None or role == found.role:
            return found, []
        self._audit.record(session, ACTOR, "user.change_role", found.id, before=found.role, after=role)
        found.role = role
        now = self._now()
        ended = await queries.revoke_sign_ins(session, found.id, now) + await queries.key_ids(session, found.id, now)
        return found, ended

    async def _new_account(self, session: AsyncSession, person: OidcPerson, role: UserRole) -> User:
        name = await self._free_name(session, person.claims)
        user = await self._accounts.new_user(name, None, role)
        await self._accounts.add_user(session, user)
        values = {
            "issuer": person.issuer,
            "subject": person.subject,
            "user_id": user.id,
            "created_at": self._now(),
        }
        if not await insert_if_absent(session, ExternalIdentity, values):
            raise _LinkedMeanwhile
        self._audit.record(session, ACTOR, "user.create", user.id, username=user.username, role=role)
        return user

    async def _free_name(self, session: AsyncSession, claims: dict[str, Any]) -> str:
        wanted = canonical_username(str(claims.get("preferred_username") or claims.get("nickname") or "user"))
        wanted = re.sub(r"[^\w.@+-]+", "-", wanted).strip("-")[: USERNAME_MAX_CHARS - 12] or "user"
        numbered = [wanted, *(f"{wanted}-{number}" for number in range(2, NAME_TRIES))]
        for name in numbered:
            # `admin` is whom the printed links are for.
            if name != ADMIN and await queries.user_by_name(session, name) is None:
                return name
        return f"{wanted}-{secrets.token_hex(5)}"

    def _role(self, claims: dict[str, Any]) -> UserRole | None:
        """What the provider says, where the settings name a claim for it; None where they do not."""
        if not self._settings.oidc_role_claim:
            return None
        value: Any = claims
        for part in self._settings.oidc_role_claim.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        held = {str(item) for item in value} if isinstance(value, list) else {str(value)}
        for role, names in (
            (UserRole.ADMIN, self._settings.oidc_admin_values),
            (UserRole.AGENT, self._settings.oidc_agent_values),
        ):
            if held & {name.strip() for name in names.split(",") if name.strip()}:
                return role
        return UserRole.USER
