"""`/api/v1/auth/…` and `/api/v1/me`."""

from __future__ import annotations

from litestar import Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from app.accounts.authentication import Authenticator, expired_cookie, session_cookie
from app.accounts.identity import Identity
from app.accounts.schemas import LoginBody, SignInBody, TicketBody, UserBody
from app.accounts.service import PASSWORD_MAX_BYTES, AccountService
from app.errors import InvalidInput
from app.json_request import JsonRequest
from app.problems import problem_responses
from app.route_guards import no_idempotency_key
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}


@post(
    "/auth/login",
    summary="Sign in by password",
    status_code=200,
    opt={"public": True},
    security=[{}],
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 413, 415, 429),
)
async def log_in(
    request: JsonRequest,
    data: JSONBody[LoginBody],
    accounts: NamedDependency[AccountService],
    authenticator: NamedDependency[Authenticator],
    settings: NamedDependency[Settings],
) -> Response[SignInBody]:
    """Answers with a bearer token, and sets the session cookie. The answer to an unknown name is that to a wrong password."""
    if "origin" in request.headers:
        # A foreign page must not be able to sign its reader in as somebody else.
        authenticator.require_own_origin(request)
    if len(data.password.encode()) > PASSWORD_MAX_BYTES:
        raise InvalidInput(f"a password has at most {PASSWORD_MAX_BYTES} bytes")
    sign_in = await accounts.log_in(data.username, data.password, request.client.host if request.client else "")
    body = SignInBody(sign_in.token, sign_in.expires_at, UserBody.of(sign_in.user))
    return Response(body, headers=NO_STORE, cookies=[session_cookie(sign_in, settings)])


@post("/auth/logout", summary="Sign out", status_code=204, responses=problem_responses(401, 403))
async def log_out(
    caller: NamedDependency[Identity], accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> Response[None]:
    """Ends the sign-in used for this call, closes its sockets and clears the cookie."""
    await accounts.log_out(caller)
    return Response(None, status_code=204, headers=NO_STORE, cookies=[expired_cookie(settings)])


@post(
    "/auth/tickets",
    summary="Get a ticket for a socket",
    guards=[no_idempotency_key],
    responses=problem_responses(401, 403),
)
async def create_ticket(
    caller: NamedDependency[Identity], accounts: NamedDependency[AccountService]
) -> Response[TicketBody]:
    """A ticket opens one socket, within 30 seconds. For clients that cannot set headers on a socket."""
    return Response(TicketBody(await accounts.make_socket_ticket(caller)), headers=NO_STORE)


@get("/me", summary="Who am I", responses=problem_responses(401))
async def me(caller: NamedDependency[Identity], accounts: NamedDependency[AccountService]) -> Response[UserBody]:
    """The account that is signed in."""
    return Response(UserBody.of(await accounts.user(caller.user_id)), headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router("/", route_handlers=[log_in, log_out, create_ticket, me], tags=["Accounts"])
