"""`/api/v1/admin/keys…`: everybody's API keys, for administrators. Making one for somebody else would be acting as them, so only
the command line does that."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, delete, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from app.accounts.identity import Identity
from app.accounts.keys import KeyService
from app.accounts.schemas import AnyKeyList
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List everybody's API keys", responses=problem_responses(400, 401, 403))
async def list_all_keys(
    keys: NamedDependency[KeyService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
    user_id: Annotated[str | None, QueryParameter(description="Only keys of this account")] = None,
) -> Response[AnyKeyList]:
    """The newest first; ended ones too, because what was used is counted by key."""
    return Response(await keys.page_of_all(limit=limit, cursor=cursor, user_id=user_id), headers=NO_STORE)


@delete("/{key_id:str}", summary="Revoke somebody's API key", responses=problem_responses(401, 403, 404))
async def revoke_any_key(
    key_id: FromPath[str], caller: NamedDependency[Identity], keys: NamedDependency[KeyService]
) -> None:
    """Ends it at once, and closes what was opened with it (4001)."""
    await keys.revoke_any(caller, key_id)


def router() -> Router:
    """The routes, for the administrators' router."""
    return Router("/keys", route_handlers=[list_all_keys, revoke_any_key])
