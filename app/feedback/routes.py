"""`/api/v1/messages/{id}/feedback`, and `/api/v1/admin/feedback` for administrators."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from litestar import Response, Router, delete, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from app.accounts.identity import Identity
from app.feedback.schemas import FeedbackBody, FeedbackPut, FeedbackSumsList
from app.feedback.service import FeedbackService
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import admins_only

NO_STORE = {"Cache-Control": "no-store"}


@put(
    "/messages/{message_id:str}/feedback",
    summary="Rate an answer",
    responses=problem_responses(400, 401, 403, 404, 413, 415),
    tags=["Conversations"],
)
async def put_feedback(
    message_id: FromPath[str],
    data: JSONBody[FeedbackPut],
    caller: NamedDependency[Identity],
    feedback: NamedDependency[FeedbackService],
) -> Response[FeedbackBody]:
    """Thumbs up or down (`rating` 1 or -1), or one to five stars (`scale` `stars`), of an answer of the model or of an agent. The
    last word counts."""
    return Response(await feedback.put(caller.user_id, message_id, data), headers=NO_STORE)


@delete(
    "/messages/{message_id:str}/feedback",
    summary="Take a rating back",
    responses=problem_responses(401, 403, 404),
    tags=["Conversations"],
)
async def delete_feedback(
    message_id: FromPath[str], caller: NamedDependency[Identity], feedback: NamedDependency[FeedbackService]
) -> None:
    """Idempotent."""
    await feedback.delete(caller.user_id, message_id)


@get(
    "/admin/feedback",
    summary="Read how content people are",
    guards=[admins_only],
    responses=problem_responses(400, 401, 403),
    tags=["Administration"],
)
async def list_feedback(
    feedback: NamedDependency[FeedbackService],
    since: Annotated[
        date | None, QueryParameter(description="The first day, UTC; thirty days before the last one if left out")
    ] = None,
    until: Annotated[date | None, QueryParameter(description="The last day, UTC; today if left out")] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[FeedbackSumsList]:
    """For administrators: ratings by day and persona, without what anybody wrote."""
    page = await feedback.sums(since=since, until=until, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router("/", route_handlers=[put_feedback, delete_feedback, list_feedback])
