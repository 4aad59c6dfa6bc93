"""Visitors of widgets: who somebody on a site's page is, and what they may do, which is to chat there. Called by routes.

A visitor is known by the site's signed word or by a key of their own, and by nothing else: known at A is nobody at B.
"""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncSession

from app.accounts.identity import Identity
from app.accounts.visitor_accounts import VisitorAccounts
from app.clock import Now
from app.conversations.listing import Narrowing
from app.conversations.schemas import ConversationBody, ConversationCreate, ConversationList, MessageList
from app.conversations.service import ConversationService
from app.database import Database, insert_if_absent
from app.errors import Forbidden, InvalidInput, TooManyRequests, Unauthenticated
from app.idempotency import IdempotentRequest
from app.identifiers import hash_secret, is_id, new_secret
from app.replicas.rate_limits import RateLimits
from app.settings import Settings
from app.usage.limits import Subject, SubjectKind
from app.usage.quotas import QuotaService
from app.widgets import queries
from app.widgets.models import Visitor, Widget
from app.widgets.schemas import VisitorBody, VisitorEntry, VisitorSignIn
from app.widgets.service import existing, no_such_widget, require_origin

if TYPE_CHECKING:
    from app.widgets.visitor_tokens import VisitorClaims

WINDOW_S = 3600.0

CONVERSATIONS_MAX = 30
"""That one visitor begins in such a window. A person needs one or two."""

ANSWERS_MAX = 3
"""Of one visitor at a time: one is made, the others wait behind it."""

SOCKETS_MAX = 8
"""Of one visitor: as many pages of the site as somebody has open."""


class _CameMeanwhile(Exception):
    """The same person comes for the first time twice at once."""


class VisitorService:
    """Owns who visitors are."""

    def __init__(
        self,
        database: Database,
        accounts: VisitorAccounts,
        conversations: ConversationService,
        quotas: QuotaService,
        limits: RateLimits,
        settings: Settings,
        *,
        now: Now,
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._conversations = conversations
        self._quotas = quotas
        self._limits = limits
        self._settings = settings
        self._now = now

    async def enter(self, widget_id: str, entry: VisitorEntry, origin: str | None, address: str) -> VisitorSignIn:
        """A sign-in for whoever comes. Raises NotFound, Forbidden for a page the widget is not for, Unauthenticated for a token
        or a key that does not hold, TooManyRequests."""
        if entry.token is not None and entry.visitor_key is not None:
            raise InvalidInput("expected a token or a visitor_key, got both")
        async with self._database.read() as session:
            widget = await existing(session, widget_id)
        require_origin(widget.allowed_origins, origin)
        if entry.token is not None:
            return await self._signed(widget, entry.token)
        if entry.visitor_key is not None:
            return await self._returning(widget, entry.visitor_key)
        if not widget.anonymous:
            raise Unauthenticated(
                "this widget is for visitors whom the site has signed in", code="visitor_token_required"
            )
        await self._take(
            f"visitor:{_digest(address)}", self._settings.visitors_per_address, "new visitors from this address"
        )
        return await self._new_anonymous(widget)

    async def conversations(
        self, caller: Identity, widget_id: str, *, limit: int, cursor: str | None
    ) -> ConversationList:
        """The visitor's own conversations, the one updated last first. Raises NotFound."""
        await self._require_visitor(caller, widget_id)
        return await self._conversations.page(caller.user_id, Narrowing(), limit=limit, cursor=cursor)

    async def begin_conversation(
        self, caller: Identity, widget_id: str, request: IdempotentRequest | None
    ) -> tuple[ConversationBody, bool]:
        """A conversation of the widget's persona. Raises NotFound or TooManyRequests."""
        widget, visitor = await self._require_visitor(caller, widget_id)
        await self._take(
            f"visitor-conversation:{caller.user_id}", CONVERSATIONS_MAX, "new conversations of this visitor"
        )
        known = {"name": visitor.name, "email": visitor.email, "subject": visitor.subject}
        wanted = ConversationCreate(
            persona=widget.persona,
            metadata={
                "widget": {"id": widget.id, "name": widget.name},
                "visitor": {name: value for name, value in known.items() if value is not None},
            },
        )
        return await self._conversations.create(caller.user_id, wanted, request)

    async def messages(
        self, caller: Identity, widget_id: str, conversation_id: str, *, limit: int, cursor: str | None
    ) -> MessageList:
        """What was said in a conversation of the visitor's own. Raises NotFound."""
        await self._require_visitor(caller, widget_id)
        return await self._conversations.messages(
            caller.user_id, conversation_id, leaf_id=None, limit=limit, cursor=cursor
        )

    async def require_visitor(self, caller: Identity, widget_id: str) -> None:
        """Raises NotFound for everybody who is not a visitor of this widget."""
        await self._require_visitor(caller, widget_id)

    async def _require_visitor(self, caller: Identity, widget_id: str) -> tuple[Widget, Visitor]:
        async with self._database.read() as session:
            visitor = await queries.visitor_of(session, widget_id, caller.user_id) if is_id(widget_id) else None
            if visitor is None:
                raise no_such_widget()
            return await existing(session, widget_id), visitor

    async def _signed(self, widget: Widget, token: str) -> VisitorSignIn:
        now = self._now()
        secrets = [widget.secret]
        if widget.previous_secret is not None and widget.previous_until is not None and now < widget.previous_until:
            secrets.append(widget.previous_secret)
        claims = await asyncio.to_thread(_believed, token, widget.id, secrets, now)
        while True:
            try:
                async with self._database.write() as session:
                    await _require_staying(session, widget)
                    visitor = await queries.visitor_by_subject(session, widget.id, claims.subject)
                    if visitor is None:
                        visitor = await self._add(session, widget, subject=claims.subject)
                    visitor.name, visitor.email = claims.name, claims.email
                    return await self._sign_in(session, visitor, None)
            except _CameMeanwhile:
                continue

    async def _returning(self, widget: Widget, key: str) -> VisitorSignIn:
        async with self._database.write() as session:
            await _require_staying(session, widget)
            visitor = await queries.visitor_by_key(session, widget.id, hash_secret(key))
            if visitor is None:
                raise Unauthenticated("this visitor is not known here any more", code="visitor_key_refused")
            return await self._sign_in(session, visitor, key)

    async def _new_anonymous(self, widget: Widget) -> VisitorSignIn:
        key = new_secret()
        async with self._database.write() as session:
            await _require_staying(session, widget)
            return await self._sign_in(session, await self._add(session, widget, key_hash=hash_secret(key)), key)

    async def _add(
        self, session: AsyncSession, widget: Widget, *, subject: str | None = None, key_hash: str | None = None
    ) -> Visitor:
        user_id, now = await self._accounts.add(session), self._now()
        values = {
            "user_id": user_id,
            "widget_id": widget.id,
            "subject": subject,
            "key_hash": key_hash,
            "name": None,
            "email": None,
            "created_at": now,
            "seen_at": now,
        }
        if not await insert_if_absent(session, Visitor, values):
            raise _CameMeanwhile
        limits = {
            "requests_per_minute": self._settings.visitor_requests_per_minute,
            "requests_per_day": self._settings.visitor_requests_per_day,
            "concurrent_answers": ANSWERS_MAX,
            "sockets": SOCKETS_MAX,
        }
        await self._quotas.give(session, Subject(SubjectKind.USER, user_id), limits)
        visitor = await queries.visitor_of(session, widget.id, user_id)
        if visitor is None:
            raise RuntimeError(f"expected the visitor {user_id} who was just stored, found none")
        return visitor

    async def _sign_in(self, session: AsyncSession, visitor: Visitor, key: str | None) -> VisitorSignIn:
        if await self._accounts.is_disabled(session, visitor.user_id):
            raise Forbidden("this visitor was turned away", code="visitor_refused")
        visitor.seen_at = self._now()
        lifetime = timedelta(seconds=self._settings.visitor_session_s)
        token, expires_at = self._accounts.sign_in(session, visitor.user_id, lifetime)
        return VisitorSignIn(token, expires_at, VisitorBody(visitor.user_id, visitor.name, visitor.email), key)

    async def _take(self, key: str, limit: int, what: str) -> None:
        if not limit:
            return
        wait_s = await self._limits.take(key, limit=limit, window_s=WINDOW_S)
        if wait_s is not None:
            raise TooManyRequests(
                f"there were {limit} {what}; the limit is {limit} in {WINDOW_S:.0f} s",
                retry_after_s=max(1, math.ceil(wait_s)),
            )


async def _require_staying(session: AsyncSession, widget: Widget) -> None:
    """It may have been deleted since it was read. From here on it waits for this sign-in to be stored, and ends it too."""
    if not await queries.stays(session, widget.id):
        raise no_such_widget()


def _believed(token: str, widget_id: str, secrets: list[str], now: datetime) -> VisitorClaims:
    from app.widgets.visitor_tokens import believed

    return believed(token, widget_id, secrets, now)


def _digest(address: str) -> str:
    return sha256(address.encode()).hexdigest()
