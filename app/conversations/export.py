"""A whole conversation as a file, in pieces: memory and transactions stay as small as one piece, however long it is.

The tree is written in the order in which messages were added. Made by the service.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from app.conversations import queries
from app.conversations.live import LiveAnswers
from app.conversations.models import Conversation, Message, MessageStatus
from app.conversations.schemas import ConversationBody, ExportFormat, MessageBody, PersonBody
from app.database import Database
from app.feedback.lookup import Rated, rating_line, ratings_of
from app.service.transcript import ExportedChange, state_changes
from engine.types import Role

MESSAGES_PER_PIECE = 100
FORMAT_NAME = "kvasir.conversation"
FORMAT_VERSION = 1

MEDIA_TYPES = {
    ExportFormat.JSON: "application/json",
    ExportFormat.NDJSON: "application/x-ndjson",
    ExportFormat.MARKDOWN: "text/markdown",
}
SUFFIXES = {ExportFormat.JSON: "json", ExportFormat.NDJSON: "ndjson", ExportFormat.MARKDOWN: "md"}


FENCE = re.compile(r" {0,3}(?P<run>`{3,}|~{3,})(?P<rest>.*)")


class ExportCut(Exception):
    """The conversation was deleted while it was written; the reader sees a broken transfer and not a file that looks whole."""


class ExportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a file. Its children are left out: they are those whose `parent_id` it is."""

    id: str
    parent_id: str | None
    role: Role
    content: str
    status: MessageStatus
    usage: dict[str, Any] | None
    created_at: datetime
    response_id: str | None
    author: PersonBody | None
    feedback: Rated | None


class _Numbered(NamedTuple):
    """A message with the number of its parent, and what its person thinks of it."""

    message: Message
    parent_ordinal: int | None
    feedback: Rated | None


def _open_fence(markdown: str) -> str:
    """The line that ends a code block which the text leaves open, as one that was stopped does; empty when none is open.
    Otherwise everything behind it in the file would be code."""
    fence = ""
    for line in markdown.splitlines():
        marks = FENCE.match(line)
        if marks is None:
            continue
        run, rest = marks["run"], marks["rest"]
        if not fence:
            # A line with further backticks is inline code.
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(fence) and not rest.strip():
            fence = ""
    return f"{fence}\n" if fence else ""


class ConversationExport:
    """One export of a conversation its owner has been found to own; as it was at this moment, later messages stay out."""

    def __init__(
        self, database: Database, live: LiveAnswers, conversation: Conversation, export_format: ExportFormat
    ) -> None:
        self._database = database
        self._live = live
        self._format = export_format
        self._conversation = ConversationBody.of(conversation)
        self._owner = conversation.user_id
        self._last_ordinal = conversation.last_ordinal

    @property
    def headers(self) -> dict[str, str]:
        """What makes a browser save it under a sensible name."""
        suffix = SUFFIXES[self._format]
        plain = re.sub(r"[^A-Za-z0-9]+", "-", self._conversation.title).strip("-") or "conversation"
        full = quote(f"{self._conversation.title or 'conversation'}.{suffix}", safe="")
        return {
            "Content-Disposition": f"attachment; filename=\"{plain}.{suffix}\"; filename*=UTF-8''{full}",
            "Cache-Control": "no-store",
        }

    async def pieces(self) -> AsyncIterator[bytes]:
        """The file. Raises ExportCut."""
        write = {
            ExportFormat.JSON: self._json,
            ExportFormat.NDJSON: self._ndjson,
            ExportFormat.MARKDOWN: self._markdown,
        }[self._format]
        async for piece in write():
            yield piece

    async def _json(self) -> AsyncIterator[bytes]:
        head = msgspec.json.encode(await self._head())
        yield head[:-1] + b',"messages":['
        first = True
        async for batch in self._batches():
            joined = b",".join(msgspec.json.encode(self._body(each)) for each in batch)
            yield joined if first else b"," + joined
            first = False
        yield b"]}"

    async def _ndjson(self) -> AsyncIterator[bytes]:
        yield msgspec.json.encode({"type": "conversation", **await self._head()}) + b"\n"
        async for batch in self._batches():
            yield b"".join(
                msgspec.json.encode({"type": "message", "message": self._body(each)}) + b"\n" for each in batch
            )

    async def _markdown(self) -> AsyncIterator[bytes]:
        changes: dict[int, list[ExportedChange]] = {}
        for change in await self._changes():
            changes.setdefault(change.after, []).append(change)
        yield f"# {self._conversation.title or 'Conversation'}\n{_lines_of(changes.get(0, ()))}".encode()
        async for batch in self._batches():
            yield "".join(
                self._section(each) + _lines_of(changes.get(each.message.ordinal, ())) for each in batch
            ).encode()

    def _section(self, numbered: _Numbered) -> str:
        message, parent_ordinal, feedback = numbered
        body = self._body(numbered)
        status = "" if body.status == "completed" else f" · {body.status}"
        who = body.role if body.author is None else f"{body.role} ({body.author.name})"
        head = f"\n## {message.ordinal} · {who} · {body.created_at:%Y-%m-%d %H:%M:%S} UTC{status}\n"
        # Only where the conversation branches is it worth saying what a message follows.
        follows = (
            "" if (parent_ordinal or 0) == message.ordinal - 1 else f"\n*Follows {parent_ordinal or 'nothing'}.*\n"
        )
        rated = "" if feedback is None else f"\n*{rating_line(feedback)}*\n"
        return f"{head}{follows}\n{body.content}\n{_open_fence(body.content)}{rated}"

    async def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "conversation": self._conversation,
            "state_changes": await self._changes(),
        }

    async def _changes(self) -> list[ExportedChange]:
        async with self._database.read() as session:
            return await state_changes(session, self._conversation.id, up_to=self._last_ordinal)

    def _body(self, numbered: _Numbered) -> ExportedMessage:
        body = MessageBody.of(numbered.message, [], self._live, numbered.feedback)
        return ExportedMessage(**{field: getattr(body, field) for field in ExportedMessage.__struct_fields__})

    async def _batches(self) -> AsyncIterator[list[_Numbered]]:
        after = 0
        while after < self._last_ordinal:
            async with self._database.read() as session:
                batch = await queries.messages_in_order(
                    session, self._conversation.id, after=after, up_to=self._last_ordinal, limit=MESSAGES_PER_PIECE
                )
                ratings = await ratings_of(session, self._owner, [message.id for message, _ in batch])
            if not batch:
                raise ExportCut(f"expected messages up to {self._last_ordinal}, found none after {after}")
            yield [_Numbered(message, parent, ratings.get(message.id)) for message, parent in batch]
            after = batch[-1][0].ordinal


def _lines_of(changes: Iterable[ExportedChange]) -> str:
    """Changes of who answers, a line each."""
    return "".join(f"\n*{change.line}*\n" for change in changes)
