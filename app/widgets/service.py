"""Widgets: what administrators do with them, and which pages each is for. Called by routes, the CORS layer and authentication.

The secret of a widget leaves this room when it is made, and as a key to check signatures with.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec import UNSET
from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.accounts.moments import cursor_at, place_of
from app.accounts.origins import DEFAULT_PORTS, normalised
from app.accounts.visitor_accounts import VisitorAccounts
from app.audit.service import AuditLog
from app.clock import Now
from app.database import Database
from app.errors import Forbidden, InvalidInput, NotFound
from app.identifiers import UserId, is_id, new_id, new_secret
from app.personas.lookup import current_version_id
from app.widgets import queries
from app.widgets.models import Widget
from app.widgets.schemas import (
    NewWidgetBody,
    SecretBody,
    WidgetBody,
    WidgetCreate,
    WidgetList,
    WidgetLook,
    WidgetPatch,
)

PREFIX = "kvw_"
"""So that people and scanners of secrets know one when they see it."""


class WidgetService:
    """Owns widgets. Does not own who comes through them: `visitors`."""

    def __init__(self, database: Database, accounts: VisitorAccounts, audit: AuditLog, *, now: Now) -> None:
        self._database = database
        self._accounts = accounts
        self._audit = audit
        self._now = now

    async def create(self, caller: Identity, wanted: WidgetCreate) -> NewWidgetBody:
        """A new widget, with its secret. Raises InvalidInput."""
        secret, now = PREFIX + new_secret(), self._now()
        fields = msgspec.structs.asdict(wanted) | {
            "allowed_origins": _origins(wanted.allowed_origins),
            "languages": list(dict.fromkeys(wanted.languages)),
        }
        async with self._database.write() as session:
            await _require_persona(session, wanted.persona)
            widget = Widget(
                id=new_id(),
                **fields,
                secret=secret,
                previous_secret=None,
                previous_until=None,
                created_at=now,
                updated_at=now,
                deleted_at=None,
            )
            session.add(widget)
            self._audit.record(session, caller, "widget.create", widget.id, name=widget.name)
            body = WidgetBody.of(widget)
        return NewWidgetBody(**msgspec.structs.asdict(body), secret=secret)

    async def page(self, *, limit: int, cursor: str | None) -> WidgetList:
        """A page of all of them, the newest first."""
        async with self._database.read() as session:
            found = await queries.widgets_page(session, limit=limit + 1, before=place_of(cursor))
        items = [WidgetBody.of(widget) for widget in found[:limit]]
        return WidgetList(items, cursor_at(found[limit - 1]) if len(found) > limit else None)

    async def get(self, widget_id: str) -> WidgetBody:
        """One of them. Raises NotFound."""
        async with self._database.read() as session:
            return WidgetBody.of(await existing(session, widget_id))

    async def update(self, caller: Identity, widget_id: str, patch: WidgetPatch) -> WidgetBody:
        """Change fields. Raises NotFound or InvalidInput."""
        changes = {name: value for name, value in msgspec.structs.asdict(patch).items() if value is not UNSET}
        if patch.allowed_origins is not UNSET:
            changes["allowed_origins"] = _origins(patch.allowed_origins)
        if patch.languages is not UNSET:
            changes["languages"] = list(dict.fromkeys(patch.languages))
        async with self._database.write() as session:
            widget = await existing(session, widget_id, for_update=True)
            if patch.persona is not UNSET:
                await _require_persona(session, patch.persona)
            changed = sorted(name for name, value in changes.items() if getattr(widget, name) != value)
            if changed:
                for name in changed:
                    setattr(widget, name, changes[name])
                widget.updated_at = self._now()
                self._audit.record(session, caller, "widget.update", widget.id, fields=changed)
            return WidgetBody.of(widget)

    async def rotate_secret(self, caller: Identity, widget_id: str, keep_previous_s: int) -> SecretBody:
        """Another secret; the one before holds so much longer. Raises NotFound."""
        secret = PREFIX + new_secret()
        async with self._database.write() as session:
            widget = await existing(session, widget_id, for_update=True)
            widget.previous_secret = widget.secret if keep_previous_s else None
            widget.previous_until = self._now() + timedelta(seconds=keep_previous_s) if keep_previous_s else None
            widget.secret = secret
            self._audit.record(session, caller, "widget.rotate_secret", widget.id, keep_previous_s=keep_previous_s)
        return SecretBody(secret)

    async def delete(self, caller: Identity, widget_id: str) -> None:
        """Nobody comes through it any more, and who is there goes; what they said is removed within the hour. Raises NotFound."""
        async with self._database.write() as session:
            widget = await existing(session, widget_id, for_update=True)
            widget.deleted_at = self._now()
            ended = await self._accounts.end_sign_ins(session, await queries.visitor_ids(session, widget.id))
            self._audit.record(session, caller, "widget.delete", widget.id, name=widget.name)
        self._accounts.announce(ended)

    async def look(self, widget_id: str, origin: str | None) -> WidgetLook:
        """What a page shows of it. A page of the server's own host sends no Origin with that. Raises NotFound or Forbidden."""
        async with self._database.read() as session:
            widget = await existing(session, widget_id)
        if origin is not None:
            require_origin(widget.allowed_origins, origin)
        return WidgetLook.of(widget)

    async def allows(self, widget_id: str, origin: str) -> bool:
        """Whether pages of that origin may speak to this widget."""
        async with self._database.read() as session:
            allowed = await queries.allowed_origins(session, widget_id) if is_id(widget_id) else None
        return allowed is not None and is_among(origin, allowed)

    async def admits(self, user_id: UserId, origin: str) -> bool:
        """Whether this visitor's widget is for pages of that origin."""
        async with self._database.read() as session:
            allowed = await queries.origins_of_visitor(session, user_id)
        return allowed is not None and is_among(origin, allowed)


async def existing(session: AsyncSession, widget_id: str, *, for_update: bool = False) -> Widget:
    """The widget, in the caller's unit of work. Raises NotFound."""
    widget = await queries.widget_by_id(session, widget_id, for_update=for_update) if is_id(widget_id) else None
    if widget is None:
        raise no_such_widget()
    return widget


def no_such_widget() -> NotFound:
    """What somebody else's widget is, too."""
    return NotFound("there is no such widget")


def is_among(origin: str, allowed: list[str]) -> bool:
    """Whether that is the origin of one of these pages."""
    came = normalised(origin)
    return came is not None and any(came == normalised(text) for text in allowed)


def require_origin(allowed: list[str], origin: str | None) -> None:
    """Raises Forbidden unless the request comes from one of these pages."""
    if origin is None or not is_among(origin, allowed):
        came = "no Origin" if origin is None else "a foreign Origin"
        raise Forbidden(f"expected a request from a page this widget is for, got {came}", code="origin_refused")


def _origins(texts: list[str]) -> list[str]:
    """As browsers write them. Raises InvalidInput for what no page has."""
    found = []
    for text in texts:
        parsed = normalised(text)
        scheme, host, port = parsed or ("", "", 0)
        name = f"[{host}]" if ":" in host else host
        shown = f"{scheme}://{name}" if port == DEFAULT_PORTS.get(scheme) else f"{scheme}://{name}:{port}"
        # Whatever more there is, a path, a query, a star, is no part of an origin.
        if parsed is None or "*" in text or text.lower() not in (shown, f"{scheme}://{name}:{port}"):
            raise InvalidInput(
                f"expected an origin like https://shop.example, got {text[:80]!r}", code="invalid_origin"
            )
        found.append(shown)
    return list(dict.fromkeys(found))


async def _require_persona(session: AsyncSession, name: str | None) -> None:
    if name is not None:
        await current_version_id(session, name)
