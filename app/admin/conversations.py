"""`/api/v1/admin/users/{id}/conversations` and `/api/v1/admin/conversations…`: what people say, for administrators, where the
setting `KVASIR_ADMIN_READS_MESSAGES` allows it; every reading is audited."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from app.accounts.identity import Identity
from app.admin.reading import MessageReading
from app.conversations.export import MEDIA_TYPES
from app.conversations.routes import ExportOperation
from app.conversations.schemas import ConversationList, ExportFormat, MessageList
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses

NO_STORE = {"Cache-Control": "no-store"}


@get(
    "/users/{user_id:str}/conversations",
    summary="List somebody's conversations",
    responses=problem_responses(400, 401, 403, 404),
)
async def list_conversations_of(
    user_id: FromPath[str],
    caller: NamedDependency[Identity],
    reading: NamedDependency[MessageReading],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[ConversationList]:
    """403 `admin_reading_off` unless the setting allows it. Audited."""
    page = await reading.conversations_of(caller, user_id, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@get(
    "/conversations/{conversation_id:str}/messages",
    summary="Read somebody's messages",
    responses=problem_responses(400, 401, 403, 404),
)
async def list_messages_of(
    conversation_id: FromPath[str],
    caller: NamedDependency[Identity],
    reading: NamedDependency[MessageReading],
    leaf: Annotated[
        str | None, QueryParameter(description="A message whose branch is wanted; the newest message where left out")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[MessageList]:
    """403 `admin_reading_off` unless the setting allows it. Audited."""
    page = await reading.messages(caller, conversation_id, leaf_id=leaf, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@get(
    "/conversations/{conversation_id:str}/export",
    summary="Export somebody's conversation",
    operation_class=ExportOperation,
    responses=problem_responses(400, 401, 403, 404),
)
async def export_conversation_of(
    conversation_id: FromPath[str],
    caller: NamedDependency[Identity],
    reading: NamedDependency[MessageReading],
    format: Annotated[ExportFormat, QueryParameter(description="What kind of file")] = ExportFormat.JSON,
) -> Stream:
    """403 `admin_reading_off` unless the setting allows it. Audited."""
    export = await reading.export(caller, conversation_id, format)
    return Stream(export.pieces(), media_type=MEDIA_TYPES[format], headers=export.headers)


def router() -> Router:
    """The routes, for the administrators' router."""
    return Router("/", route_handlers=[list_conversations_of, list_messages_of, export_conversation_of])
