"""`/api/v1/admin/audit`."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from app.audit.schemas import AuditList
from app.audit.service import AuditLog
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="Read the audit log", responses=problem_responses(400, 401, 403))
async def list_audit(
    audit: NamedDependency[AuditLog],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
    actor_id: Annotated[str | None, QueryParameter(description="Only what this account did")] = None,
    action: Annotated[str | None, QueryParameter(description="Only this kind of act, as in user.disable")] = None,
    target_id: Annotated[str | None, QueryParameter(description="Only what was done to this id")] = None,
) -> Response[AuditList]:
    """What administrators did, the newest first. Nobody can change or delete it here."""
    page = await audit.page(limit=limit, cursor=cursor, actor_id=actor_id, action=action, target_id=target_id)
    return Response(page, headers=NO_STORE)


def router() -> Router:
    """The routes, for the administrators' router."""
    return Router("/audit", route_handlers=[list_audit])
