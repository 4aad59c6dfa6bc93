"""SQL of responses. Every read for a caller joins the conversation's owner, so somebody else's response is not found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.conversations.models import Conversation, Message, MessageStatus
from app.conversations.search_index import index_message
from app.database import chunks, insert_if_absent
from app.errors import NotFound
from app.identifiers import is_id
from app.responses.models import Response, ResponseLog
from app.usage.ledger import record_answer
from app.usage.limits import Spender
from app.webhooks.event_types import EventType
from app.webhooks.outbox import record_event
from engine.types import Role

AS_IT_IS = {"synchronize_session": False}
"""Nothing that it changes has been read in the same unit of work, so no object is looked for that would have to follow."""

UNFINISHED = tuple(status for status in MessageStatus if not status.is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Everything that is written when a response ends. `log` is its stored form, the terminal frame included; `owner` the server
    that ends it, and `previous_owner` the dead one that it takes the response over from."""

    response_id: str
    owner: str
    message_id: str
    conversation_id: str
    status: MessageStatus
    finish_reason: str
    text: str
    token_ids: bytes | None
    usage: dict[str, Any]
    error: dict[str, Any] | None
    last_seq: int
    log: bytes
    started_at: datetime | None
    ended_at: datetime
    spender: Spender
    model: str | None
    previous_owner: str | None = None


class Stored(Enum):
    """What came of writing an end."""

    HERE = auto()
    GONE = auto()
    """It is not there any more: deleted with its conversation, or lost by a database that was set back."""
    ELSEWHERE = auto()
    """Another server had taken this one for dead, and has ended it."""


class State(NamedTuple):
    """What SQL says of a response while it is made."""

    status: MessageStatus
    wanted_status: MessageStatus | None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How far the text of a running response has come."""

    response_id: str
    message_id: str
    conversation_id: str
    text: str
    last_seq: int
    started_at: datetime | None


async def owned_response(session: AsyncSession, user_id: str, response_id: str) -> Response:
    """The caller's response. Raises NotFound for an unknown id, a malformed one and somebody else's."""
    if is_id(response_id):
        found = await session.scalar(_owned(user_id).where(Response.id == response_id))
        if found is not None:
            return found
    raise NotFound("there is no such response")


async def owned_responses(
    session: AsyncSession, user_id: str, response_ids: Sequence[str]
) -> list[tuple[Response, int]]:
    """Those of these responses that are the caller's, each with the last event that SQL knows of."""
    wanted = [response_id for response_id in response_ids if is_id(response_id)]
    statement = (
        _owned(user_id)
        .where(Response.id.in_(wanted))
        .join(Message, Message.id == Response.message_id)
        .add_columns(Message.last_seq)
    )
    return [(row[0], row[1]) for row in await session.execute(statement)]


async def exists(session: AsyncSession, response_id: str) -> bool:
    """Whether there is such a response, whoever's it is."""
    return await session.get(Response, response_id) is not None


async def last_seq(session: AsyncSession, message_id: str) -> int:
    """The last event of a response that SQL knows of; its message says so."""
    return (await session.scalar(select(Message.last_seq).where(Message.id == message_id))) or 0


async def stored_log(session: AsyncSession, response_id: str) -> bytes | None:
    """The log of an ended response."""
    return await session.scalar(select(ResponseLog.frames).where(ResponseLog.response_id == response_id))


async def log_bytes(session: AsyncSession, conversation_id: str) -> int:
    """What the stored logs of a conversation take."""
    size = select(func.coalesce(func.sum(func.length(ResponseLog.frames)), 0))
    joined = size.join(Response, Response.id == ResponseLog.response_id)
    return (await session.scalar(joined.where(Response.conversation_id == conversation_id))) or 0


async def first_response_to(session: AsyncSession, message_id: str) -> Response | None:
    """The response that was made together with this message of the user; None where the model was silent."""
    statement = select(Response).where(Response.parent_id == message_id).order_by(Response.ordinal).limit(1)
    return (await session.scalars(statement)).first()


async def conversation_of_message(session: AsyncSession, user_id: str, message_id: str) -> str:
    """The conversation of the caller's message. Raises NotFound."""
    if is_id(message_id):
        found = await session.scalar(
            select(Message.conversation_id)
            .join(Conversation, Conversation.id == Message.conversation_id)
            .where(Message.id == message_id, Conversation.user_id == user_id)
        )
        if found is not None:
            return found
    raise NotFound("there is no such message")


async def unfinished(session: AsyncSession, *, owner: str | None = None) -> list[Response]:
    """Responses without an end, oldest first; of one server process, or of all."""
    statement = select(Response).where(Response.status.in_(UNFINISHED)).order_by(Response.created_at, Response.ordinal)
    if owner is not None:
        statement = statement.where(Response.owner == owner)
    return list((await session.scalars(statement)).all())


async def unfinished_in(session: AsyncSession, conversation_id: str) -> list[tuple[Response, int]]:
    """The responses of a conversation without an end, in their order, each with the last event that SQL knows of."""
    statement = (
        select(Response, Message.last_seq)
        .join(Message, Message.id == Response.message_id)
        .where(Response.conversation_id == conversation_id, Response.status.in_(UNFINISHED))
        .order_by(Response.ordinal)
    )
    return [(row[0], row[1]) for row in await session.execute(statement)]


async def elders(session: AsyncSession, response_id: str, conversation_id: str, owner: str) -> int:
    """How many answers of the conversation other servers have to end before it is the turn of this one."""
    ordinal = select(Response.ordinal).where(Response.id == response_id).scalar_subquery()
    statement = select(func.count()).where(
        Response.conversation_id == conversation_id,
        Response.status.in_(UNFINISHED),
        Response.owner != owner,
        Response.ordinal < ordinal,
    )
    return await session.scalar(statement) or 0


async def owners_of_unfinished(session: AsyncSession) -> set[str]:
    """The servers that have answers to end."""
    statement = select(Response.owner).where(Response.status.in_(UNFINISHED)).distinct()
    return set((await session.scalars(statement)).all())


async def states(session: AsyncSession, response_ids: Collection[str]) -> dict[str, State]:
    """What there is of these responses; those that were deleted are missing."""
    found: dict[str, State] = {}
    for chunk in chunks(response_ids):
        rows = await session.execute(
            select(Response.id, Response.status, Response.wanted_status, Response.owner).where(Response.id.in_(chunk))
        )
        for row in rows:
            wanted = None if row.wanted_status is None else MessageStatus(row.wanted_status)
            found[row.id] = State(MessageStatus(row.status), wanted, row.owner)
    return found


async def want_silence(session: AsyncSession, conversation_id: str) -> list[str]:
    """Tell every server that makes an answer in this conversation to end it; which answers those are."""
    wanted = update(Response).where(Response.conversation_id == conversation_id, Response.status.in_(UNFINISHED))
    await session.execute(wanted.where(Response.wanted_status.is_(None)).values(wanted_status=MessageStatus.CANCELLED))
    unfinished = select(Response.id).where(Response.conversation_id == conversation_id, Response.status.in_(UNFINISHED))
    return list((await session.scalars(unfinished)).all())


async def want_status(session: AsyncSession, response_id: str, status: MessageStatus) -> None:
    """Tell the server that makes it how it is to end, unless it has ended or was told before."""
    await session.execute(
        update(Response)
        .where(Response.id == response_id, Response.status.in_(UNFINISHED), Response.wanted_status.is_(None))
        .values(wanted_status=status)
    )


async def conversation(session: AsyncSession, conversation_id: str) -> Conversation | None:
    """A conversation, whoever's it is: for the server itself."""
    return await session.get(Conversation, conversation_id)


async def spender_of(session: AsyncSession, response: Response) -> Spender:
    """On whose account a response is made."""
    columns = select(Conversation.user_id, Conversation.persona).where(Conversation.id == response.conversation_id)
    row = (await session.execute(columns)).one()
    return Spender(row.user_id, response.key_id, row.persona)


async def message_text(session: AsyncSession, message_id: str) -> tuple[str, int]:
    """What the database has of an answer, and up to which frame that goes."""
    row = (await session.execute(select(Message.content, Message.last_seq).where(Message.id == message_id))).one()
    return row.content, row.last_seq


async def write_growth(session: AsyncSession, growth: Growth) -> None:
    """Keep the text so far, unless the response has ended or was deleted meanwhile."""
    if await _hold_conversation(session, growth.conversation_id) is None:
        return
    await session.execute(
        update(Response)
        .where(Response.id == growth.response_id, Response.status.in_(UNFINISHED))
        .values(status=MessageStatus.IN_PROGRESS, started_at=growth.started_at),
        execution_options=AS_IT_IS,
    )
    await session.execute(
        update(Message)
        .where(Message.id == growth.message_id, Message.status.in_(UNFINISHED))
        .values(content=growth.text, last_seq=growth.last_seq, status=MessageStatus.IN_PROGRESS),
        execution_options=AS_IT_IS,
    )


async def write_ending(session: AsyncSession, ending: Ending) -> Stored:
    """Write the end of a response, once or again. What it has cost is recorded in any case.

    Taking over and ending is one unit of work: a row that says a new owner and no end would be looked for in the wrong journal.
    """
    await record_answer(
        session,
        ending.spender,
        response_id=ending.response_id,
        model=ending.model,
        status=ending.status,
        usage=ending.usage,
        ended_at=ending.ended_at,
    )
    if (user_id := await _hold_conversation(session, ending.conversation_id)) is None:
        return Stored.GONE
    is_ours = Response.owner == ending.owner
    is_left = and_(Response.owner == ending.previous_owner, Response.status.in_(UNFINISHED))
    changed = await session.execute(
        update(Response)
        .where(Response.id == ending.response_id, or_(is_ours, is_left))
        .values(
            owner=ending.owner,
            status=ending.status,
            finish_reason=ending.finish_reason,
            usage=ending.usage,
            error=ending.error,
            started_at=ending.started_at,
            ended_at=ending.ended_at,
        )
        .returning(Response.id),
        execution_options=AS_IT_IS,
    )
    if changed.first() is None:
        return Stored.ELSEWHERE if await exists(session, ending.response_id) else Stored.GONE
    await session.execute(
        update(Message)
        .where(Message.id == ending.message_id)
        .values(
            content=ending.text,
            status=ending.status,
            usage=ending.usage,
            token_ids=ending.token_ids,
            last_seq=ending.last_seq,
        ),
        execution_options=AS_IT_IS,
    )
    log = {"response_id": ending.response_id, "last_seq": ending.last_seq, "frames": ending.log}
    await insert_if_absent(session, ResponseLog, log)
    await index_message(session, user_id, ending.conversation_id, ending.message_id, ending.text)
    kind = EventType(f"response.{ending.status}")
    await record_event(session, kind, ending.conversation_id, _told_of(ending), now=ending.ended_at)
    return Stored.HERE


def _told_of(ending: Ending) -> dict[str, Any]:
    """What webhooks say of it."""
    return {
        "response": {
            "id": ending.response_id,
            "status": ending.status,
            "finish_reason": ending.finish_reason,
            "usage": ending.usage,
            "error": ending.error,
        },
        "message": {
            "id": ending.message_id,
            "role": Role.ASSISTANT,
            "content": ending.text,
            "status": ending.status,
            "response_id": ending.response_id,
            "created_at": ending.ended_at,
        },
    }


async def _hold_conversation(session: AsyncSession, conversation_id: str) -> str | None:
    """Keep the conversation from being deleted until this unit of work ends. Whose it is; None when it is gone.

    A deletion takes this row first and the rows below it after that. Taking them in another order would deadlock with it.
    """
    statement = select(Conversation.user_id).where(Conversation.id == conversation_id)
    return await session.scalar(statement.with_for_update(read=True, key_share=True))


def _owned(user_id: str) -> Select[Response]:
    return (
        select(Response)
        .join(Conversation, Conversation.id == Response.conversation_id)
        .where(Conversation.user_id == user_id)
    )
