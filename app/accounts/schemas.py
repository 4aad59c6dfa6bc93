"""Bodies of the account routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from app.accounts.models import User, UserRole
from app.accounts.service import PASSWORD_MAX_BYTES, USERNAME_MAX_CHARS
from app.text import STORABLE_PATTERN


class LoginBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    username: Annotated[str, Meta(min_length=1, max_length=USERNAME_MAX_CHARS, pattern=STORABLE_PATTERN)]
    password: Annotated[str, Meta(max_length=PASSWORD_MAX_BYTES)]


class UserBody(msgspec.Struct, frozen=True):
    id: str
    username: str
    role: UserRole
    created_at: datetime

    @classmethod
    def of(cls, user: User) -> UserBody:
        return cls(user.id, user.username, UserRole(user.role), user.created_at)


class SignInBody(msgspec.Struct, frozen=True):
    """`token` is for `Authorization: Bearer`; a browser has the cookie and needs it not."""

    token: str
    expires_at: datetime
    user: UserBody


class TicketBody(msgspec.Struct, frozen=True):
    ticket: Annotated[str, Meta(description="Opens one socket, as /ws?ticket=…, within 30 seconds")]
