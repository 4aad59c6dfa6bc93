"""`/api/v1/admin/usage`, `/api/v1/admin/users|keys/{id}/quota`, `/api/v1/me/usage` and `/api/v1/me/limits`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from litestar import Response, Router, get, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Stream

from app.accounts.identity import Identity
from app.accounts.keys import KeyService
from app.accounts.service import AccountService
from app.errors import NotFound
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import admins_only
from app.usage.limits import Spender, Subject, SubjectKind
from app.usage.schemas import LimitList, QuotaBody, UsageFormat, UsageList
from app.usage.service import UsageService

NO_STORE = {"Cache-Control": "no-store"}

Since = Annotated[
    date | None, QueryParameter(description="The first day, UTC; thirty days before the last one if left out")
]
Until = Annotated[date | None, QueryParameter(description="The last day, UTC; today if left out")]
GroupBy = Annotated[
    str, QueryParameter(description="What to sum up by, comma separated: day, user, key, persona, model, purpose")
]
Format = Annotated[UsageFormat, QueryParameter(description="json in pages, or csv with everything in one table")]


@dataclass
class UsageOperation(Operation):
    """Says in the OpenAPI document that the answer may be a table, too."""

    def __post_init__(self) -> None:
        success = None if self.responses is None else self.responses["200"]
        if isinstance(success, OpenAPIResponse):
            success.content = {**(success.content or {}), "text/csv": OpenAPIMediaType(schema=Schema())}


@get(
    "/admin/usage",
    summary="Read usage",
    guards=[admins_only],
    operation_class=UsageOperation,
    responses={200: ResponseSpec(UsageList, description="A page, or the whole table")}
    | problem_responses(400, 401, 403),
)
async def list_usage(
    usage: NamedDependency[UsageService],
    since: Since = None,
    until: Until = None,
    user_id: Annotated[str | None, QueryParameter(description="Only of this account")] = None,
    key_id: Annotated[str | None, QueryParameter(description="Only what came with this API key")] = None,
    persona: Annotated[str | None, QueryParameter(description="Only answers of this persona")] = None,
    model: Annotated[str | None, QueryParameter(description="Only answers of this model")] = None,
    group_by: GroupBy = "day,user",
    format: Format = UsageFormat.JSON,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[UsageList] | Stream:
    """For administrators: what answers have cost, however they ended, with the sum of all. It holds what was used by accounts and
    in conversations that are gone, too."""
    wanted = usage.filter(since=since, until=until, user_id=user_id, key_id=key_id, persona=persona, model=model)
    if format is UsageFormat.CSV:
        return Stream(await usage.table(wanted, group_by), media_type="text/csv", headers=NO_STORE)
    return Response(await usage.page(wanted, group_by, limit=limit, cursor=cursor), headers=NO_STORE)


@get("/me/usage", summary="Read one's own usage", responses=problem_responses(400, 401))
async def my_usage(
    caller: NamedDependency[Identity],
    usage: NamedDependency[UsageService],
    since: Since = None,
    until: Until = None,
    group_by: GroupBy = "day",
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[UsageList]:
    """What one's own answers have cost, those of one's API keys included."""
    wanted = usage.filter(since=since, until=until, user_id=caller.user_id)
    return Response(await usage.page(wanted, group_by, limit=limit, cursor=cursor), headers=NO_STORE)


@get("/me/limits", summary="Read one's own limits", responses=problem_responses(401))
async def my_limits(caller: NamedDependency[Identity], usage: NamedDependency[UsageService]) -> Response[LimitList]:
    """Every limit that holds for the caller now, how much of it is used, and when it begins anew. Empty where there is none."""
    return Response(await usage.limits(Spender(caller.user_id, caller.key_id)), headers=NO_STORE)


@get(
    "/admin/users/{user_id:str}/quota",
    summary="Read an account's quota",
    guards=[admins_only],
    responses=problem_responses(401, 403, 404),
)
async def get_user_quota(
    user_id: FromPath[str], usage: NamedDependency[UsageService], accounts: NamedDependency[AccountService]
) -> Response[QuotaBody]:
    """For administrators: the limits of its own that an account has."""
    return Response(await usage.quota(await _user(accounts, user_id)), headers=NO_STORE)


@put(
    "/admin/users/{user_id:str}/quota",
    summary="Set an account's quota",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def set_user_quota(
    user_id: FromPath[str],
    data: JSONBody[QuotaBody],
    caller: NamedDependency[Identity],
    usage: NamedDependency[UsageService],
    accounts: NamedDependency[AccountService],
) -> Response[QuotaBody]:
    """For administrators. Replaces all of them; they hold from the next answer on, for everything done in the account's name."""
    return Response(await usage.set_quota(caller, await _user(accounts, user_id), data), headers=NO_STORE)


@get(
    "/admin/keys/{key_id:str}/quota",
    summary="Read a key's quota",
    guards=[admins_only],
    responses=problem_responses(401, 403, 404),
)
async def get_key_quota(
    key_id: FromPath[str], usage: NamedDependency[UsageService], keys: NamedDependency[KeyService]
) -> Response[QuotaBody]:
    """For administrators: the limits of its own that an API key has."""
    await keys.require(key_id)
    return Response(await usage.quota(Subject(SubjectKind.KEY, key_id)), headers=NO_STORE)


@put(
    "/admin/keys/{key_id:str}/quota",
    summary="Set a key's quota",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def set_key_quota(
    key_id: FromPath[str],
    data: JSONBody[QuotaBody],
    caller: NamedDependency[Identity],
    usage: NamedDependency[UsageService],
    keys: NamedDependency[KeyService],
) -> Response[QuotaBody]:
    """For administrators. Replaces all of them; they hold from the next answer on, beside those of the key's account."""
    await keys.require(key_id)
    return Response(await usage.set_quota(caller, Subject(SubjectKind.KEY, key_id), data), headers=NO_STORE)


async def _user(accounts: AccountService, user_id: str) -> Subject:
    if not await accounts.existing([user_id]):
        raise NotFound("there is no such account")
    return Subject(SubjectKind.USER, user_id)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/",
        route_handlers=[list_usage, my_usage, my_limits, get_user_quota, set_user_quota, get_key_quota, set_key_quota],
        tags=["Usage"],
    )
