"""`/api/v1/conversations/{id}/handoff` for whom it belongs to; `/api/v1/inbox…` and `/api/v1/canned-answers…` for agents."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Stream

from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.clock import Now
from app.conversations.export import MEDIA_TYPES
from app.conversations.routes import ExportOperation
from app.conversations.schemas import ConversationBody, ExportFormat, MessageList
from app.idempotency import REPLAYED_HEADER, IdempotentRequest
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.realtime.hub import Hub
from app.route_guards import agents_only
from app.service.canned import CannedAnswers
from app.service.desk import ServiceDesk
from app.service.feed import InboxFeed
from app.service.inbox import Inbox
from app.service.inbox_stream import InboxStream
from app.service.schemas import (
    AgentAnswer,
    AgentMessage,
    CannedBody,
    CannedCreate,
    CannedList,
    CannedPatch,
    HandoffRequest,
    InboxCounters,
    InboxItem,
    InboxList,
    InboxState,
)
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}
ACT = problem_responses(401, 403, 404, 409)

ConversationPath = FromPath[str]


@post(
    "/conversations/{conversation_id:str}/handoff",
    summary="Ask for a person",
    status_code=200,
    responses=problem_responses(400, 401, 403, 404, 409, 413, 415),
    tags=["Conversations"],
)
async def request_person(
    conversation_id: ConversationPath,
    data: JSONBody[HandoffRequest],
    caller: NamedDependency[Identity],
    desk: NamedDependency[ServiceDesk],
) -> Response[ConversationBody]:
    """Puts one's conversation into the agents' inbox (`queued`); the model is silent from here on. Asking twice, or while a
    person answers already, changes nothing. An agent who has a conversation puts it back for the others with it."""
    return _conversation(await desk.request_person(caller, conversation_id, data.reason))


@delete(
    "/conversations/{conversation_id:str}/handoff",
    summary="Wait for a person no longer",
    status_code=200,
    responses=ACT,
    tags=["Conversations"],
)
async def withdraw(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], desk: NamedDependency[ServiceDesk]
) -> Response[ConversationBody]:
    """The model answers again. 409 where a person has come already."""
    return _conversation(await desk.withdraw(caller, conversation_id))


@get("/", summary="List who waits", responses=problem_responses(400, 401, 403))
async def list_inbox(
    caller: NamedDependency[Identity],
    inbox: NamedDependency[Inbox],
    in_state: Annotated[
        InboxState, QueryParameter(name="state", description="Those who wait, or those whom somebody answers")
    ] = InboxState.QUEUED,
    mine: Annotated[bool, QueryParameter(description="Only those whom the caller answers")] = False,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[InboxList]:
    """For agents. Unlike other lists the oldest first: who has waited longest is next."""
    page = await inbox.page(caller, in_state, only_mine=mine, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@get("/counters", summary="Count who waits", responses=problem_responses(401, 403))
async def count_inbox(caller: NamedDependency[Identity], inbox: NamedDependency[Inbox]) -> Response[InboxCounters]:
    """For agents: how many wait, for how long the first of them does, and how many are answered."""
    return Response(await inbox.counters(caller), headers=NO_STORE)


@get(
    "/events",
    summary="Follow the inbox",
    media_type="text/event-stream",
    responses=problem_responses(401, 403),
)
async def follow_inbox(
    caller: NamedDependency[Identity],
    inbox_feed: NamedDependency[InboxFeed],
    hub: NamedDependency[Hub],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    now: NamedDependency[Now],
) -> InboxStream:
    """For agents, as server-sent events: `ready`, then `conversation.status_changed`, `message.created` and `typing`, each with
    its `conversation_id` and without what was said; `resync_required` where some were missed."""
    return InboxStream(
        hub,
        inbox_feed,
        credential_id=caller.credential_id,
        still_holds=partial(accounts.still_holds, caller),
        expires_in_s=caller.seconds_left(now()),
        heartbeat_s=settings.sse_heartbeat_s,
        send_timeout_s=settings.send_timeout_s,
    )


@get("/{conversation_id:str}", summary="Read who waits", responses=problem_responses(401, 403, 404))
async def read_inbox_item(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], inbox: NamedDependency[Inbox]
) -> Response[InboxItem]:
    """For agents: the conversation and whom it belongs to, without what was said."""
    return Response(await inbox.get(caller, conversation_id), headers=NO_STORE)


@get(
    "/{conversation_id:str}/messages",
    summary="Read what was said",
    responses=problem_responses(400, 401, 403, 404),
)
async def read_messages(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    inbox: NamedDependency[Inbox],
    leaf: Annotated[
        str | None, QueryParameter(description="A message whose branch is wanted; the newest message where left out")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[MessageList]:
    """For agents: the path to a leaf, the newest message first. Each reading is in the audit log."""
    page = await inbox.messages(caller, conversation_id, leaf_id=leaf, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@get(
    "/{conversation_id:str}/export",
    summary="Export what was said",
    operation_class=ExportOperation,
    responses=problem_responses(400, 401, 403, 404),
)
async def export_transcript(
    conversation_id: ConversationPath,
    caller: NamedDependency[Identity],
    inbox: NamedDependency[Inbox],
    format: Annotated[ExportFormat, QueryParameter(description="What kind of file")] = ExportFormat.JSON,
) -> Stream:
    """For agents: the transcript. Each export is in the audit log."""
    export = await inbox.export(caller, conversation_id, format)
    return Stream(export.pieces(), media_type=MEDIA_TYPES[format], headers=export.headers)


@post("/{conversation_id:str}/take", summary="Take over", status_code=200, responses=ACT)
async def take(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], desk: NamedDependency[ServiceDesk]
) -> Response[ConversationBody]:
    """For agents: the caller answers from here on (`human`); an answer that the model is making ends with what was shown of it.
    Of two who take at once one gets it, and the other a 409 `taken` with the `agent` who has it."""
    return _conversation(await desk.take(caller, conversation_id))


@post(
    "/{conversation_id:str}/messages",
    summary="Answer a person",
    responses=problem_responses(400, 401, 403, 404, 409, 413, 415, 422),
)
async def answer_person(
    conversation_id: ConversationPath,
    data: JSONBody[AgentMessage],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    desk: NamedDependency[ServiceDesk],
) -> Response[AgentAnswer]:
    """For agents: a message of the role `assistant` whose `author` is the caller, in the next context of the model. Whoever
    answers has taken the conversation with it."""
    body, replayed = await desk.answer(caller, conversation_id, data.content, idempotent)
    return Response(body, headers={**NO_STORE, **(REPLAYED_HEADER if replayed else {})})


@post(
    "/{conversation_id:str}/typing",
    summary="Say that one is writing",
    status_code=204,
    responses=ACT,
)
async def agent_types(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], desk: NamedDependency[ServiceDesk]
) -> None:
    """For agents: whoever watches the conversation is shown it, for as long as it is said again every few seconds."""
    await desk.agent_types(caller, conversation_id)


@post("/{conversation_id:str}/return", summary="Give back to the model", status_code=200, responses=ACT)
async def give_back(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], desk: NamedDependency[ServiceDesk]
) -> Response[ConversationBody]:
    """For agents: the model answers the next message (`bot`), and knows what was said meanwhile. What another agent has only
    administrators give back."""
    return _conversation(await desk.give_back(caller, conversation_id))


@post("/{conversation_id:str}/resolve", summary="Be done with it", status_code=200, responses=ACT)
async def resolve(
    conversation_id: ConversationPath, caller: NamedDependency[Identity], desk: NamedDependency[ServiceDesk]
) -> Response[ConversationBody]:
    """For agents: nothing is waited for (`resolved`). The next message of its person begins anew with the model (`bot`)."""
    return _conversation(await desk.resolve(caller, conversation_id))


@get("/", summary="List canned answers", responses=problem_responses(400, 401, 403))
async def list_canned(
    canned_answers: NamedDependency[CannedAnswers], limit: Limit = LIMIT_DEFAULT, cursor: CursorText = None
) -> Response[CannedList]:
    """For agents: all of them, the newest first."""
    return Response(await canned_answers.page(limit=limit, cursor=cursor), headers=NO_STORE)


@post("/", summary="Make a canned answer", responses=problem_responses(400, 401, 403, 413, 415, 422))
async def create_canned(
    data: JSONBody[CannedCreate],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    canned_answers: NamedDependency[CannedAnswers],
) -> Response[CannedBody]:
    """For agents."""
    body, replayed = await canned_answers.create(caller, data, idempotent)
    return Response(body, headers={**NO_STORE, **(REPLAYED_HEADER if replayed else {})})


@patch(
    "/{canned_answer_id:str}",
    summary="Change a canned answer",
    responses=problem_responses(400, 401, 403, 404, 413, 415),
)
async def patch_canned(
    canned_answer_id: FromPath[str],
    data: JSONBody[CannedPatch],
    caller: NamedDependency[Identity],
    canned_answers: NamedDependency[CannedAnswers],
) -> Response[CannedBody]:
    """For agents."""
    return Response(await canned_answers.update(caller, canned_answer_id, data), headers=NO_STORE)


@delete("/{canned_answer_id:str}", summary="Delete a canned answer", responses=problem_responses(401, 403, 404))
async def delete_canned(
    canned_answer_id: FromPath[str], caller: NamedDependency[Identity], canned_answers: NamedDependency[CannedAnswers]
) -> None:
    """For agents."""
    await canned_answers.delete(caller, canned_answer_id)


def _conversation(body: ConversationBody) -> Response[ConversationBody]:
    return Response(body, headers=NO_STORE)


def routers() -> list[Router]:
    """The routes, for one application."""
    of_person = Router("/", route_handlers=[request_person, withdraw])
    inbox = Router(
        "/inbox",
        guards=[agents_only],
        route_handlers=[
            list_inbox,
            count_inbox,
            follow_inbox,
            read_inbox_item,
            read_messages,
            export_transcript,
            take,
            answer_person,
            agent_types,
            give_back,
            resolve,
        ],
        tags=["Customer service"],
    )
    canned = Router(
        "/canned-answers",
        guards=[agents_only],
        route_handlers=[list_canned, create_canned, patch_canned, delete_canned],
        tags=["Customer service"],
    )
    return [of_person, inbox, canned]
