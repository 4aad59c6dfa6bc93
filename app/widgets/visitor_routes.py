"""`/api/v1/widgets/{id}/look|visitors|tickets|conversations…`: what a widget needs of REST, and all that visitors may reach.

The rest of a chat (messages, answers, hand-off, rating) goes over the socket. `cors` lets pages of the widget's origins read
these routes and no others.
"""

from __future__ import annotations

from litestar import Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from app.accounts.identity import Identity
from app.accounts.schemas import TicketBody
from app.accounts.service import AccountService
from app.client_network import client_network
from app.conversations.schemas import ConversationBody, ConversationList, MessageList
from app.idempotency import REPLAYED_HEADER, IdempotentRequest
from app.json_request import JsonRequest
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import no_idempotency_key
from app.widgets.schemas import VisitorEntry, VisitorSignIn, WidgetLook
from app.widgets.service import WidgetService
from app.widgets.visitors import VisitorService

NO_STORE = {"Cache-Control": "no-store"}
VISITORS = {"visitors": True}


@get(
    "/look",
    summary="What a widget looks like",
    opt={"public": True},
    security=[{}],
    responses=problem_responses(403, 404),
)
async def get_look(
    request: JsonRequest, widget_id: FromPath[str], widgets: NamedDependency[WidgetService]
) -> Response[WidgetLook]:
    """For the pages the widget is for; pages of other origins get a 403."""
    return Response(await widgets.look(widget_id, request.headers.get("origin")), headers=NO_STORE)


@post(
    "/visitors",
    summary="Come in as a visitor",
    status_code=200,
    opt={"public": True},
    security=[{}],
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429),
)
async def enter(
    request: JsonRequest,
    widget_id: FromPath[str],
    data: JSONBody[VisitorEntry],
    visitors: NamedDependency[VisitorService],
) -> Response[VisitorSignIn]:
    """Exchanges the site's signed word about its visitor (`token`: JWT, HS256, `sub` and `exp` within a day, perhaps `name` and
    `email`) for a bearer token that works on this widget only, for an hour. Anonymous visitors, where the widget takes them, come
    without a token, and come back with the `visitor_key` they were given."""
    signed_in = await visitors.enter(widget_id, data, request.headers.get("origin"), client_network(request))
    return Response(signed_in, headers=NO_STORE)


@post(
    "/tickets",
    summary="Get a ticket for a visitor's socket",
    opt=VISITORS,
    guards=[no_idempotency_key],
    responses=problem_responses(401, 403, 404),
)
async def create_visitor_ticket(
    widget_id: FromPath[str],
    caller: NamedDependency[Identity],
    visitors: NamedDependency[VisitorService],
    accounts: NamedDependency[AccountService],
) -> Response[TicketBody]:
    """A ticket opens one socket, within 30 seconds, from a page the widget is for."""
    await visitors.require_visitor(caller, widget_id)
    return Response(TicketBody(await accounts.make_socket_ticket(caller)), headers=NO_STORE)


@get(
    "/conversations", summary="List a visitor's conversations", opt=VISITORS, responses=problem_responses(401, 403, 404)
)
async def list_visitor_conversations(
    widget_id: FromPath[str],
    caller: NamedDependency[Identity],
    visitors: NamedDependency[VisitorService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[ConversationList]:
    """The visitor's own, the one updated last first."""
    return Response(await visitors.conversations(caller, widget_id, limit=limit, cursor=cursor), headers=NO_STORE)


@post(
    "/conversations",
    summary="Begin a visitor's conversation",
    opt=VISITORS,
    responses=problem_responses(400, 401, 403, 404, 422, 429),
)
async def create_visitor_conversation(
    widget_id: FromPath[str],
    caller: NamedDependency[Identity],
    idempotent: NamedDependency[IdempotentRequest | None],
    visitors: NamedDependency[VisitorService],
) -> Response[ConversationBody]:
    """Of the widget's persona. Who the visitor is to the site is in its `metadata`, for agents."""
    body, replayed = await visitors.begin_conversation(caller, widget_id, idempotent)
    return Response(body, headers={**NO_STORE, **(REPLAYED_HEADER if replayed else {})})


@get(
    "/conversations/{conversation_id:str}/messages",
    summary="Read a visitor's messages",
    opt=VISITORS,
    responses=problem_responses(400, 401, 403, 404),
)
async def list_visitor_messages(
    widget_id: FromPath[str],
    conversation_id: FromPath[str],
    caller: NamedDependency[Identity],
    visitors: NamedDependency[VisitorService],
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[MessageList]:
    """The path to the newest message, the newest first."""
    page = await visitors.messages(caller, widget_id, conversation_id, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/widgets/{widget_id:str}",
        route_handlers=[
            get_look,
            enter,
            create_visitor_ticket,
            list_visitor_conversations,
            create_visitor_conversation,
            list_visitor_messages,
        ],
        tags=["Widget visitors"],
    )
