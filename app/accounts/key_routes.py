"""`/api/v1/keys…`: one's own API keys."""

from __future__ import annotations

from litestar import Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.accounts.keys import KeyService
from app.accounts.schemas import KeyCreate, KeyList, NewKeyBody
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import no_idempotency_key

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List API keys", responses=problem_responses(400, 401))
async def list_keys(
    caller: NamedDependency[Identity],
    keys: NamedDependency[KeyService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[KeyList]:
    """One's own keys that hold, the newest first."""
    return Response(await keys.page(caller.user_id, limit=limit, cursor=cursor), headers=NO_STORE)


@post(
    "/",
    summary="Make an API key",
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 409, 413, 415),
)
async def create_key(
    data: JSONBody[KeyCreate], caller: NamedDependency[Identity], keys: NamedDependency[KeyService]
) -> Response[NewKeyBody]:
    """The key is in this answer and nowhere else. It acts as the account that made it, on every route and on the socket."""
    return Response(await keys.create(caller.user_id, data.name, data.expires_in_days), headers=NO_STORE)


@delete("/{key_id:str}", summary="Revoke an API key", responses=problem_responses(401, 403, 404))
async def revoke_key(
    key_id: FromPath[str], caller: NamedDependency[Identity], keys: NamedDependency[KeyService]
) -> None:
    """Ends it at once, and closes what was opened with it (4001)."""
    await keys.revoke(caller.user_id, key_id)


def router() -> Router:
    """The routes, for one application."""
    return Router("/keys", route_handlers=[list_keys, create_key, revoke_key], tags=["API keys"])
