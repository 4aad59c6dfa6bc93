"""`/api/v1/widgets…` for administrators."""

from __future__ import annotations

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import admins_only, no_idempotency_key
from app.widgets.schemas import (
    NewWidgetBody,
    SecretBody,
    SecretRotation,
    WidgetBody,
    WidgetCreate,
    WidgetList,
    WidgetPatch,
)
from app.widgets.service import WidgetService

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="List widgets", responses=problem_responses(400, 401, 403))
async def list_widgets(
    widgets: NamedDependency[WidgetService], limit: Limit = LIMIT_DEFAULT, cursor: CursorText = None
) -> Response[WidgetList]:
    """All of them, the newest first."""
    return Response(await widgets.page(limit=limit, cursor=cursor), headers=NO_STORE)


@post(
    "/",
    summary="Make a widget",
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 413, 415),
)
async def create_widget(
    data: JSONBody[WidgetCreate], caller: NamedDependency[Identity], widgets: NamedDependency[WidgetService]
) -> Response[NewWidgetBody]:
    """A chat window for pages of the given origins. `secret`, with which the site signs who its visitors are, is shown once."""
    body = await widgets.create(caller, data)
    return Response(body, headers={**NO_STORE, "Location": f"/api/v1/widgets/{body.id}"})


@get("/{widget_id:str}", summary="Read a widget", responses=problem_responses(401, 403, 404))
async def get_widget(widget_id: FromPath[str], widgets: NamedDependency[WidgetService]) -> Response[WidgetBody]:
    """One of them, without its secret."""
    return Response(await widgets.get(widget_id), headers=NO_STORE)


@patch("/{widget_id:str}", summary="Change a widget", responses=problem_responses(400, 401, 403, 404, 413, 415))
async def patch_widget(
    widget_id: FromPath[str],
    data: JSONBody[WidgetPatch],
    caller: NamedDependency[Identity],
    widgets: NamedDependency[WidgetService],
) -> Response[WidgetBody]:
    """Holds from the next request on; sockets that are open already end with their visitor's token, within the hour."""
    return Response(await widgets.update(caller, widget_id, data), headers=NO_STORE)


@post(
    "/{widget_id:str}/secret",
    summary="Give a widget another secret",
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def rotate_widget_secret(
    widget_id: FromPath[str],
    data: JSONBody[SecretRotation],
    caller: NamedDependency[Identity],
    widgets: NamedDependency[WidgetService],
) -> Response[SecretBody]:
    """The secret before this one holds for `keep_previous_s` more seconds, which is time for the site to change over."""
    return Response(await widgets.rotate_secret(caller, widget_id, data.keep_previous_s), headers=NO_STORE)


@delete("/{widget_id:str}", summary="Delete a widget", responses=problem_responses(401, 403, 404))
async def delete_widget(
    widget_id: FromPath[str], caller: NamedDependency[Identity], widgets: NamedDependency[WidgetService]
) -> None:
    """Closes it to everybody at once. Its visitors and everything they have said are removed within the hour."""
    await widgets.delete(caller, widget_id)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/widgets",
        route_handlers=[list_widgets, create_widget, get_widget, patch_widget, rotate_widget_secret, delete_widget],
        guards=[admins_only],
        tags=["Widgets"],
    )
