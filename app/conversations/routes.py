"""`/api/v1/conversations…`. Messages and answers that are added are the routes of `app.responses`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, RequestBody, Schema
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from app.accounts.identity import Identity
from app.conversations.export import MEDIA_TYPES
from app.conversations.import_file import ImportFormat
from app.conversations.importing import Importing, ImportRequest
from app.conversations.listing import Narrowing
from app.conversations.schemas import (
    ConversationBody,
    ConversationCreate,
    ConversationList,
    ConversationPatch,
    ExportFormat,
    MessageList,
)
from app.conversations.service import ConversationService, etag
from app.conversations.words import query_words
from app.errors import UnsupportedMediaType
from app.idempotency import REPLAYED_HEADER, IdempotencyKey, IdempotentRequest
from app.json_request import JsonRequest
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.service.states import ConversationState
from app.text import require_storable

NO_STORE = {"Cache-Control": "no-store"}

QUERY_MAX_CHARS = 500

ConversationPath = FromPath[str]


@post("/", summary="Begin a conversation", responses=problem_responses(400, 401, 403, 409, 413, 415, 422))
async def create_conversation(
    data: JSONBody[ConversationCreate],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    conversations: NamedDependency[ConversationService],
) -> Response[ConversationBody]:
    """An empty conversation. With an `Idempotency-Key`, sending it again answers with the one already made."""
    body, replayed = await conversations.create(caller.user_id, data, idempotent)
    headers = {"Location": f"/api/v1/conversations/{body.id}", "ETag": etag(body.version)}
    return Response(body, headers={**NO_STORE, **headers, **(REPLAYED_HEADER if replayed else {})})


@get("/", summary="List conversations", responses=problem_responses(400, 401))
async def list_conversations(
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
    archived: Annotated[bool | None, QueryParameter(description="Only archived ones, or only the others")] = None,
    tag: Annotated[str | None, QueryParameter(description="Only those with this tag")] = None,
    in_state: Annotated[
        ConversationState | None, QueryParameter(name="state", description="Only those in this state")
    ] = None,
    external_id: Annotated[str | None, QueryParameter(description="Only the one with this external_id")] = None,
    q: Annotated[
        str | None,
        QueryParameter(
            max_length=QUERY_MAX_CHARS, description="Only those with all these words in one message or the title"
        ),
    ] = None,
) -> Response[ConversationList]:
    """One's own conversations, the one updated last first; temporary ones are left out. Words of a search are whole words, of
    any script, in any order; capitals and accents do not matter, and nothing in a query is an operator."""
    narrowing = Narrowing(
        archived=archived,
        state=in_state,
        tag=tag,
        external_id=external_id,
        words=None if q is None else query_words(require_storable(q, "q")),
    )
    page = await conversations.page(caller.user_id, narrowing, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@get("/{conversation_id:str}", summary="Read a conversation", responses=problem_responses(401, 404))
async def get_conversation(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
) -> Response[ConversationBody]:
    """Its fields; its messages have a route of their own."""
    body = await conversations.get(caller.user_id, conversation_id)
    return Response(body, headers={**NO_STORE, "ETag": etag(body.version)})


@patch(
    "/{conversation_id:str}",
    summary="Change a conversation",
    responses=problem_responses(400, 401, 403, 404, 409, 412, 413, 415),
)
async def patch_conversation(
    conversation_id: ConversationPath,
    data: JSONBody[ConversationPatch],
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
    if_match: Annotated[
        str | None, HeaderParameter(name="If-Match", description="The ETag this change is based on")
    ] = None,
) -> Response[ConversationBody]:
    """Changes the fields that are given. With `If-Match` only while nobody else has changed them: 412 has `current_version`."""
    body = await conversations.update(caller.user_id, conversation_id, data, if_match)
    return Response(body, headers={**NO_STORE, "ETag": etag(body.version)})


@delete("/{conversation_id:str}", summary="Delete a conversation", responses=problem_responses(401, 403, 404))
async def delete_conversation(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
) -> None:
    """Removes it with all its messages, its event logs and what the engine keeps of it, in memory and on disk; running answers
    are stopped. There is no way back."""
    await conversations.delete(caller.user_id, conversation_id)


@get("/{conversation_id:str}/messages", summary="Read messages", responses=problem_responses(400, 401, 404))
async def list_messages(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
    leaf: Annotated[
        str | None, QueryParameter(description="A message whose branch is wanted; the newest message where left out")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[MessageList]:
    """The path to a leaf, the newest message first; the next page is nearer to the root."""
    page = await conversations.messages(caller.user_id, conversation_id, leaf_id=leaf, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@dataclass
class ExportOperation(Operation):
    """Says in the OpenAPI document that the answer comes in several media types."""

    def __post_init__(self) -> None:
        success = None if self.responses is None else self.responses["200"]
        if isinstance(success, OpenAPIResponse):
            success.content = {media_type: OpenAPIMediaType(schema=Schema()) for media_type in MEDIA_TYPES.values()}


@get(
    "/{conversation_id:str}/export",
    summary="Export a conversation",
    operation_class=ExportOperation,
    responses=problem_responses(400, 401, 404),
)
async def export_conversation(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    conversations: NamedDependency[ConversationService],
    format: Annotated[ExportFormat, QueryParameter(description="What kind of file")] = ExportFormat.JSON,
) -> Stream:
    """The whole tree, in the order in which it grew."""
    export = await conversations.export(caller.user_id, conversation_id, format)
    return Stream(export.pieces(), media_type=MEDIA_TYPES[format], headers=export.headers)


@dataclass
class ImportOperation(Operation):
    """Says in the OpenAPI document what the body is, which no parameter of the handler does."""

    def __post_init__(self) -> None:
        schema = Schema(description="What `export` gives")
        self.request_body = RequestBody(
            content={kind.value: OpenAPIMediaType(schema=schema) for kind in ImportFormat}, required=True
        )


@post(
    "/import",
    summary="Import a conversation",
    operation_class=ImportOperation,
    # Its own limit is in the service, which counts while it comes.
    request_max_body_size=None,
    responses=problem_responses(400, 401, 403, 409, 413, 415, 422),
)
async def import_conversation(
    request: JsonRequest,
    caller: NamedDependency[Identity],
    importing: NamedDependency[Importing],
    idempotency_key: IdempotencyKey = None,
) -> Response[ConversationBody]:
    """Takes what `export` gives as json or ndjson, of this server or another one, as a new conversation of one's own: the whole
    tree with its texts and times, under new ids. Answers that were being made are `interrupted`. Nothing of it is there before
    all of it is."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in list(ImportFormat):
        raise UnsupportedMediaType(
            f"expected one of {', '.join(ImportFormat)}, got {content_type or 'no content type'!r}"
        )
    wanted = ImportRequest(
        user_id=caller.user_id,
        kind=ImportFormat(content_type),
        body=request.stream(),
        path=request.scope["path"],
        idempotency_key=idempotency_key,
    )
    body, replayed = await importing.run(wanted)
    headers = {"Location": f"/api/v1/conversations/{body.id}", "ETag": etag(body.version)}
    return Response(body, headers={**NO_STORE, **headers, **(REPLAYED_HEADER if replayed else {})})


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/conversations",
        route_handlers=[
            create_conversation,
            list_conversations,
            get_conversation,
            patch_conversation,
            delete_conversation,
            list_messages,
            export_conversation,
            import_conversation,
        ],
        tags=["Conversations"],
    )
