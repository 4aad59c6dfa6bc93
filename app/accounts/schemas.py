"""Bodies of the account routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.accounts.models import USERNAME_MAX_CHARS, Credential, User, UserRole
from app.accounts.passwords import PASSWORD_MAX_BYTES, PASSWORD_MIN_CHARS
from app.accounts.rights import RIGHTS, Right
from app.text import STORABLE_PATTERN

Username = Annotated[str, Meta(min_length=1, max_length=USERNAME_MAX_CHARS, pattern=STORABLE_PATTERN)]
Password = Annotated[str, Meta(max_length=PASSWORD_MAX_BYTES)]
NewPassword = Annotated[
    str,
    Meta(
        min_length=PASSWORD_MIN_CHARS,
        max_length=PASSWORD_MAX_BYTES,
        pattern=STORABLE_PATTERN,
        description=f"At least {PASSWORD_MIN_CHARS} characters, at most {PASSWORD_MAX_BYTES} bytes",
    ),
]
KEY_NAME_MAX_CHARS = 100
KEY_DAYS_MAX = 36500


class LoginBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    username: Username
    password: Password


class SignUpBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    username: Username
    password: NewPassword


class PasswordChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`current_password` may be left out where the account has none yet."""

    new_password: NewPassword
    current_password: Password | None = None


class PasswordReset(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    new_password: NewPassword


class UserBody(msgspec.Struct, frozen=True):
    """`rights` is what the role may do to others; what is one's own needs none."""

    id: str
    username: str
    role: UserRole
    rights: list[Right]
    created_at: datetime

    @classmethod
    def of(cls, user: User) -> UserBody:
        role = UserRole(user.role)
        return cls(user.id, user.username, role, sorted(RIGHTS[role]), user.created_at)


class SignInBody(msgspec.Struct, frozen=True):
    """`token` is for `Authorization: Bearer`; a browser has the cookie and needs it not."""

    token: str
    expires_at: datetime
    user: UserBody


class WaysIn(msgspec.Struct, frozen=True):
    """A password always works where the account has one. `oidc` is what the provider behind `/oidc/login` is called."""

    signup: Annotated[str, Meta(description="open: people may make accounts; closed: an administrator does")]
    oidc: str | None


class TicketBody(msgspec.Struct, frozen=True):
    ticket: Annotated[str, Meta(description="Opens one socket, as /ws?ticket=…, within 30 seconds")]


class SignInEntry(msgspec.Struct, frozen=True):
    """One place where one is signed in. `label` is what the browser or program called itself; `last_used_at` may be late."""

    id: str
    label: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    is_current: Annotated[bool, Meta(description="It is the one that asks")]

    @classmethod
    def of(cls, sign_in: Credential, last_used_at: datetime | None, current_id: str) -> SignInEntry:
        return cls(
            id=sign_in.id,
            label=sign_in.label or "",
            created_at=sign_in.created_at,
            expires_at=sign_in.expires_at,
            last_used_at=last_used_at,
            is_current=sign_in.id == current_id,
        )


class SignInList(msgspec.Struct, frozen=True):
    items: list[SignInEntry]
    next_cursor: str | None


class KeyCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Without `expires_in_days` the key holds until it is revoked."""

    name: Annotated[str, Meta(min_length=1, max_length=KEY_NAME_MAX_CHARS, pattern=STORABLE_PATTERN)]
    expires_in_days: Annotated[int, Meta(ge=1, le=KEY_DAYS_MAX)] | None = None


class KeyBody(msgspec.Struct, frozen=True):
    """An API key without the key. `last_used_at` may be late."""

    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, key: Credential, last_used_at: datetime | None) -> KeyBody:
        return cls(key.id, key.label or "", key.created_at, key.expires_at, last_used_at)


class NewKeyBody(KeyBody, frozen=True, kw_only=True):
    """With the key, this once."""

    key: Annotated[str, Meta(description="For Authorization: Bearer; it is shown now and never again")]


class KeyList(msgspec.Struct, frozen=True):
    items: list[KeyBody]
    next_cursor: str | None


class AnyKeyBody(KeyBody, frozen=True, kw_only=True):
    """Somebody's key, as administrators see it."""

    user_id: str
    username: str
    revoked_at: datetime | None

    @classmethod
    def of_anybody(cls, key: Credential, username: str, last_used_at: datetime | None) -> AnyKeyBody:
        return cls(
            key.id,
            key.label or "",
            key.created_at,
            key.expires_at,
            last_used_at,
            user_id=key.user_id,
            username=username,
            revoked_at=key.revoked_at,
        )


class AnyKeyList(msgspec.Struct, frozen=True):
    items: list[AnyKeyBody]
    next_cursor: str | None


class AccountCreate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Without a password the account is entered by a sign-in link or by OpenID Connect."""

    username: Username
    role: UserRole = UserRole.USER
    password: NewPassword | None = None


class AccountPatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is left out stays as it is."""

    role: UserRole | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class AccountBody(msgspec.Struct, frozen=True):
    """An account as administrators see it."""

    id: str
    username: str
    role: UserRole
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None

    @classmethod
    def of(cls, user: User) -> AccountBody:
        has_password = user.password_hash is not None
        return cls(user.id, user.username, UserRole(user.role), has_password, user.created_at, user.disabled_at)


class AccountList(msgspec.Struct, frozen=True):
    items: list[AccountBody]
    next_cursor: str | None
