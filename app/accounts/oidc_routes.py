"""`/oidc/login` and `/oidc/callback`: where a browser goes to sign in at the provider of the settings, and comes back from.

Outside of `/api/v1`, because people and not programs come here, and because a provider may send parameters of its own along.
"""

from __future__ import annotations

from typing import Any

import structlog
from litestar import Router, get
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.response import Redirect

from app.accounts.authentication import session_cookie
from app.accounts.oidc import Attempt, OidcFailed, OidcSignIn
from app.errors import NotFound
from app.json_request import JsonRequest
from app.settings import Settings

logger = structlog.stdlib.get_logger(__name__)

ATTEMPT_COOKIE = "kvasir_oidc"
ATTEMPT_S = 600
"""How long a person may take at the provider."""

FAILED = "/?signin=oidc-failed"
"""Where a sign-in that did not work leads: the page then says so above the form."""

HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@get("/login")
async def oidc_login(oidc: NamedDependency[OidcSignIn], settings: NamedDependency[Settings]) -> Redirect:
    """To the provider."""
    if not oidc.is_configured:
        raise NotFound("this server knows no OpenID Connect provider")
    try:
        url, attempt = await oidc.begin()
    except OidcFailed as problem:
        return _failed(problem, settings)
    return _redirect(url, _attempt_cookie(settings, attempt.as_cookie(), ATTEMPT_S))


@get("/callback")
async def oidc_callback(
    request: JsonRequest, oidc: NamedDependency[OidcSignIn], settings: NamedDependency[Settings]
) -> Redirect:
    """From the provider, signed in or not."""
    if not oidc.is_configured:
        raise NotFound("this server knows no OpenID Connect provider")
    query: dict[str, Any] = dict(request.query_params)
    try:
        if "code" not in query:
            raise OidcFailed("the provider has sent no code")
        attempt = Attempt.of_cookie(request.cookies.get(ATTEMPT_COOKIE, ""))
        sign_in = await oidc.complete(
            attempt,
            str(query.get("state", "")),
            str(query["code"]),
            query.get("iss"),
            request.headers.get("user-agent", ""),
        )
    except OidcFailed as problem:
        return _failed(problem, settings)
    return _redirect("/", session_cookie(sign_in, settings), _attempt_cookie(settings, "", 0))


def _failed(problem: OidcFailed, settings: Settings) -> Redirect:
    logger.warning("oidc_failed", reason=str(problem))
    return _redirect(FAILED, _attempt_cookie(settings, "", 0))


def _redirect(address: str, *cookies: Cookie) -> Redirect:
    return Redirect(address, status_code=303, headers=HEADERS, cookies=list(cookies))


def _attempt_cookie(settings: Settings, value: str, max_age_s: int) -> Cookie:
    # Lax, because the browser comes back from another site, by a link.
    return Cookie(
        key=ATTEMPT_COOKIE,
        value=value,
        path="/oidc",
        max_age=max_age_s,
        httponly=True,
        samesite="lax",
        secure=settings.secure_cookies,
    )


def router() -> Router:
    """The routes, for one application."""
    return Router("/oidc", route_handlers=[oidc_login, oidc_callback], include_in_schema=False)
