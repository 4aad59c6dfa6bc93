"""`/api/v1/me/deletion`: the end of one's own account."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, Router, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from app.accounts.authentication import expired_cookie
from app.accounts.identity import Identity
from app.admin.deletion import AccountDeletion
from app.client_network import client_network
from app.json_request import JsonRequest
from app.problems import problem_responses
from app.route_guards import no_idempotency_key
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}


class AccountDelete(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`password` may be left out where the account has none."""

    password: Annotated[str, Meta(max_length=1024)] | None = None


@post(
    "/me/deletion",
    summary="Delete one's own account",
    status_code=204,
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 409, 413, 415, 429),
    tags=["Accounts"],
)
async def delete_own_account(
    request: JsonRequest,
    data: JSONBody[AccountDelete],
    caller: NamedDependency[Identity],
    deletion: NamedDependency[AccountDeletion],
    settings: NamedDependency[Settings],
) -> Response[None]:
    """Removes the account with its conversations, event logs, KV, keys and sign-ins, for good. Not with an API key."""
    await deletion.of_oneself(caller, data.password, client_network(request))
    return Response(None, status_code=204, headers=NO_STORE, cookies=[expired_cookie(settings)])


def router() -> Router:
    """The route, for one application."""
    return Router("/", route_handlers=[delete_own_account])
