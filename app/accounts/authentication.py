"""Who is calling, by `Authorization: Bearer`, by a socket's ticket or by the cookie; in that order, and the first given counts.

`Authenticator` serves REST (through the middleware here) and sockets alike, so both know the same people and the same rules.
"""

from __future__ import annotations

from typing import Any, Protocol

from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from app.accounts.identity import CredentialSource, Identity
from app.accounts.models import UserRole
from app.accounts.origins import Origins
from app.accounts.service import AccountService, SignIn
from app.errors import Forbidden, Unauthenticated
from app.identifiers import UserId
from app.settings import Settings

COOKIE = "kvasir_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

AnyConnection = ASGIConnection[Any, Any, Any, Any]


class VisitorPages(Protocol):
    """Whose pages visitors come from: `app.widgets`."""

    async def admits(self, user_id: UserId, origin: str) -> bool:
        """Whether this visitor's widget is for pages of that origin."""


class Authenticator:
    """Turns what came with a request into an Identity."""

    def __init__(self, accounts: AccountService, origins: Origins, visitor_pages: VisitorPages) -> None:
        self._accounts = accounts
        self._origins = origins
        self._visitor_pages = visitor_pages

    async def identify(self, connection: AnyConnection, *, check_origin: bool, ticket: str | None = None) -> Identity:
        """The caller. `check_origin` is for everything that a page of somebody else could make a browser do: it then needs
        an allowed Origin where the cookie is the credential. A visitor of a widget always needs one of its widget's.

        Raises Unauthenticated or Forbidden.
        """
        identity = await self._holder(connection, check_origin=check_origin, ticket=ticket)
        origin = connection.headers.get("origin")
        # A program sends none, and no page can do without.
        is_visitors_page = identity.role is UserRole.VISITOR and origin is not None
        if is_visitors_page and not await self._visitor_pages.admits(identity.user_id, origin or ""):
            raise Forbidden("expected a request from a page this widget is for", code="origin_refused")
        return identity

    async def _holder(self, connection: AnyConnection, *, check_origin: bool, ticket: str | None) -> Identity:
        if (authorization := connection.headers.get("authorization")) is not None:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise Unauthenticated("expected an Authorization header of the form: Bearer TOKEN")
            return await self._accounts.identify(token.strip(), CredentialSource.BEARER)
        if ticket is not None:
            return await self._accounts.redeem_socket_ticket(ticket)
        if cookie := connection.cookies.get(COOKIE):
            if check_origin:
                self.require_own_origin(connection)
            return await self._accounts.identify(cookie, CredentialSource.COOKIE)
        raise Unauthenticated("expected a bearer token or the session cookie")

    def require_own_origin(self, connection: AnyConnection) -> None:
        """Raises Forbidden unless the request comes from a page that may act with the cookie."""
        origin = connection.headers.get("origin")
        if not self._origins.allows(origin, connection.headers.get("host")):
            came = "no Origin" if origin is None else "a foreign Origin"
            raise Forbidden(f"expected a request from this server's own pages, got {came}", code="origin_refused")


class AuthenticationMiddleware(ASGIMiddleware):
    """Lets only known callers through to a route, except where the route says `public=True`; visitors of widgets only where it
    says `visitors=True`. REST only: sockets call the Authenticator themselves, because after the upgrade a refusal is a close
    code."""

    scopes = (ScopeType.HTTP,)
    exclude_opt_key = "public"

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        connection: AnyConnection = ASGIConnection(scope, receive, send)
        authenticator: Authenticator = scope["litestar_app"].state.context.authenticator
        unsafe = scope["method"] not in SAFE_METHODS  # type: ignore[typeddict-item]  # HTTP scopes only
        identity = await authenticator.identify(connection, check_origin=unsafe)
        if identity.role is UserRole.VISITOR and not scope["route_handler"].opt.get("visitors"):
            raise Forbidden("a visitor of a widget may only chat there", code="visitors_only_chat")
        scope["user"] = identity
        await next_app(scope, receive, send)


def session_cookie(sign_in: SignIn, settings: Settings) -> Cookie:
    """The cookie a browser stays signed in with."""
    return Cookie(
        key=COOKIE,
        value=sign_in.token,
        path="/",
        max_age=settings.session_days * 86400,
        httponly=True,
        samesite="lax",
        secure=settings.secure_cookies,
    )


def expired_cookie(settings: Settings) -> Cookie:
    """What makes a browser forget that cookie."""
    return Cookie(
        key=COOKIE, value="", path="/", max_age=0, httponly=True, samesite="lax", secure=settings.secure_cookies
    )
