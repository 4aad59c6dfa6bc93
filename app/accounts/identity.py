"""Who asks: what authentication hands to every other room."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.accounts.models import UserRole
from app.accounts.rights import RIGHTS, Right
from app.identifiers import UserId


class CredentialSource(StrEnum):
    """How the credential came. Only a browser's cookie comes by itself, so only that one needs an Origin check."""

    BEARER = "bearer"
    COOKIE = "cookie"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Identity:
    """One signed-in caller.

    `credential_id` names the sign-in, also for a socket that came with a ticket: when that is revoked, everything opened with
    it closes. `expires_at` is when the sign-in ends by itself; None: never. `key_id` is the API key that the caller came with,
    None for a person who has signed in: what is counted per key is counted under it.
    """

    user_id: UserId
    username: str
    role: UserRole
    credential_id: str
    expires_at: datetime | None
    source: CredentialSource
    key_id: str | None = None

    def may(self, right: Right) -> bool:
        """Whether the caller's role has this right."""
        return right in RIGHTS[self.role]

    def seconds_left(self, now: datetime) -> float | None:
        """Until the sign-in ends by itself; None: it does not."""
        return None if self.expires_at is None else max(0.0, (self.expires_at - now).total_seconds())
