"""`/api/v1/auth/…` and `/api/v1/me`: signing up, in and out, one's password and one's sign-ins."""

from __future__ import annotations

from litestar import Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.authentication import Authenticator, expired_cookie, session_cookie
from app.accounts.identity import Identity
from app.accounts.passwords import PASSWORD_MAX_BYTES
from app.accounts.schemas import (
    LoginBody,
    PasswordChange,
    SignInBody,
    SignInList,
    SignUpBody,
    TicketBody,
    UserBody,
    WaysIn,
)
from app.accounts.service import AccountService, SignIn
from app.accounts.sign_ins import SignInService
from app.client_network import client_network
from app.errors import InvalidInput
from app.json_request import JsonRequest
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
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
    _refuse_foreign_page(request, authenticator)
    if len(data.password.encode()) > PASSWORD_MAX_BYTES:
        raise InvalidInput(f"a password has at most {PASSWORD_MAX_BYTES} bytes")
    return _signed_in(
        await accounts.log_in(data.username, data.password, client_network(request), _browser(request)), settings
    )


@post(
    "/auth/signup",
    summary="Make an account for oneself",
    status_code=201,
    opt={"public": True},
    security=[{}],
    guards=[no_idempotency_key],
    responses=problem_responses(400, 403, 409, 413, 415, 429),
)
async def sign_up(
    request: JsonRequest,
    data: JSONBody[SignUpBody],
    accounts: NamedDependency[AccountService],
    authenticator: NamedDependency[Authenticator],
    settings: NamedDependency[Settings],
) -> Response[SignInBody]:
    """Where `KVASIR_SIGNUP` is `open`: an account of role `user`, signed in as by `auth/login`. Elsewhere 403."""
    _refuse_foreign_page(request, authenticator)
    return _signed_in(
        await accounts.sign_up(data.username, data.password, client_network(request), _browser(request)), settings
    )


@get("/auth/ways", summary="How to sign in here", opt={"public": True}, security=[{}], responses=problem_responses())
async def ways_in(settings: NamedDependency[Settings]) -> Response[WaysIn]:
    """What a sign-in page has to offer."""
    return Response(WaysIn(settings.signup, settings.oidc_name if settings.oidc_issuer else None), headers=NO_STORE)


@post(
    "/auth/password",
    summary="Change one's password",
    status_code=204,
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 413, 415, 429),
)
async def change_password(
    request: JsonRequest,
    data: JSONBody[PasswordChange],
    caller: NamedDependency[Identity],
    accounts: NamedDependency[AccountService],
) -> None:
    """Ends every other sign-in of the account and closes its sockets; API keys hold on. Not with an API key."""
    await accounts.change_password(caller, data.current_password, data.new_password, client_network(request))


@get("/auth/sign-ins", summary="List one's sign-ins", responses=problem_responses(400, 401))
async def list_sign_ins(
    caller: NamedDependency[Identity],
    sign_ins: NamedDependency[SignInService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[SignInList]:
    """Where one is signed in, the newest first."""
    return Response(await sign_ins.page(caller, limit=limit, cursor=cursor), headers=NO_STORE)


@delete("/auth/sign-ins/{sign_in_id:str}", summary="End a sign-in", responses=problem_responses(401, 403, 404))
async def revoke_sign_in(
    sign_in_id: FromPath[str], caller: NamedDependency[Identity], sign_ins: NamedDependency[SignInService]
) -> None:
    """Ends one of one's own sign-ins, and closes its sockets."""
    await sign_ins.revoke(caller, sign_in_id)


@post("/auth/logout", summary="Sign out", status_code=204, responses=problem_responses(401, 403))
async def log_out(
    caller: NamedDependency[Identity], accounts: NamedDependency[AccountService], settings: NamedDependency[Settings]
) -> Response[None]:
    """Ends the sign-in used for this call, closes its sockets and clears the cookie. An API key is revoked instead: 403."""
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
    return Router(
        "/",
        route_handlers=[
            log_in,
            sign_up,
            ways_in,
            log_out,
            change_password,
            list_sign_ins,
            revoke_sign_in,
            create_ticket,
            me,
        ],
        tags=["Accounts"],
    )


def _signed_in(sign_in: SignIn, settings: Settings) -> Response[SignInBody]:
    body = SignInBody(sign_in.token, sign_in.expires_at, UserBody.of(sign_in.user))
    return Response(body, headers=NO_STORE, cookies=[session_cookie(sign_in, settings)])


def _refuse_foreign_page(request: JsonRequest, authenticator: Authenticator) -> None:
    if "origin" in request.headers:
        # It must not be able to sign its reader in as somebody else.
        authenticator.require_own_origin(request)


def _browser(request: JsonRequest) -> str:
    return request.headers.get("user-agent", "")
