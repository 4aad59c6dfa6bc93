"""Reads a file of `export` again, JSON or NDJSON, piece by piece: memory holds one message, however long the conversation is.

Called by `importing`, in a thread of its own. It checks what one message or the head says, and not how messages hang together.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from app.accounts.models import USERNAME_MAX_CHARS
from app.conversations.export import FORMAT_NAME, FORMAT_VERSION
from app.conversations.json_pieces import JsonPieces, NotJson
from app.conversations.models import MessageStatus
from app.conversations.schemas import TITLE_MAX_CHARS, ExternalId, Metadata, Tags, require_metadata
from app.conversations.usage import UsageBody
from app.errors import InvalidInput
from app.feedback.models import Scale
from app.feedback.schemas import Comment, require_rating
from app.personas.schemas import PersonaName
from app.service.transcript import ExportedChange
from app.text import STORABLE_PATTERN
from engine.types import Role

STATE_CHANGES_MAX = 10_000
PIECE_MAX_BYTES = 4 * 1024 * 1024
"""Of one message with everything around its text; far more than any answer has."""

Moment = Annotated[datetime, Meta(tz=True)]
YEARS = range(1970, 9999)
"""A year before the last one of the calendar: in another time zone it may be the next."""

Piece = TypeVar("Piece")
Decoded = TypeVar("Decoded")


class ImportFormat(StrEnum):
    """What a file may be; the values are media types."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"


class ImportedConversation(msgspec.Struct, frozen=True):
    """What is taken over. What belongs to the conversation it was, its id, version and moments of change, is not."""

    created_at: Moment
    title: Annotated[str, Meta(max_length=TITLE_MAX_CHARS, pattern=STORABLE_PATTERN)] = ""
    archived: bool = False
    tags: Tags = []
    metadata: Metadata = {}
    external_id: ExternalId | None = None
    persona: PersonaName | None = None
    leaf_id: Annotated[str, Meta(max_length=64)] | None = None
    temporary: bool = False

    def __post_init__(self) -> None:
        require_metadata(self.metadata)
        _require_year(self.created_at)


class ImportedAuthor(msgspec.Struct, frozen=True):
    """Who wrote in the model's place. Only the name is taken over: the account was that server's."""

    name: Annotated[str, Meta(min_length=1, max_length=USERNAME_MAX_CHARS, pattern=STORABLE_PATTERN)]


class ImportedFeedback(msgspec.Struct, frozen=True):
    """What its person thinks of a message; whoever imports it has thought so."""

    rating: int
    scale: Scale = Scale.THUMBS
    comment: Comment | None = None

    def __post_init__(self) -> None:
        require_rating(self.rating, self.scale)


class ImportedMessage(msgspec.Struct, frozen=True):
    """One message. `id` and `parent_id` only say how messages hang together; here they get ids of their own."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    parent_id: Annotated[str, Meta(min_length=1, max_length=64)] | None
    role: Role
    content: Annotated[str, Meta(pattern=STORABLE_PATTERN)]
    created_at: Moment
    status: MessageStatus = MessageStatus.COMPLETED
    usage: UsageBody | None = None
    author: ImportedAuthor | None = None
    feedback: ImportedFeedback | None = None

    def __post_init__(self) -> None:
        _require_year(self.created_at)


class ImportedHead(msgspec.Struct, frozen=True):
    """The file without its messages."""

    format: str
    version: int
    conversation: ImportedConversation
    state_changes: Annotated[list[ExportedChange], Meta(max_length=STATE_CHANGES_MAX)] = []


class _Line(msgspec.Struct, frozen=True):
    message: ImportedMessage


class ImportFile:
    """One file, mapped and not read. Raises InvalidInput wherever it is not what `export` writes."""

    def __init__(self, mapped: mmap.mmap, kind: ImportFormat) -> None:
        self._mapped = mapped
        self._kind = kind

    def head(self) -> ImportedHead:
        """What the conversation is, and how who answers has changed."""
        if self._kind is ImportFormat.NDJSON:
            head = _decoded(next(self._lines(), b""), ImportedHead, "the first line")
        else:
            head = _decoded(self._json_head(), ImportedHead, "the file")
        if (head.format, head.version) != (FORMAT_NAME, FORMAT_VERSION):
            raise _invalid(
                f"expected a file of {FORMAT_NAME!r} in version {FORMAT_VERSION},"
                f" got {head.format[:80]!r} in version {head.version}"
            )
        return head

    def messages(self) -> Iterator[ImportedMessage]:
        """Every message, in the order of the file."""
        pieces = islice(self._lines(), 1, None) if self._kind is ImportFormat.NDJSON else self._items()
        for number, piece in enumerate(_or_invalid(pieces), start=1):
            place = f"message {number}"
            if len(piece) > PIECE_MAX_BYTES:
                raise _invalid(f"{place} has {len(piece)} bytes; the limit is {PIECE_MAX_BYTES}")
            if self._kind is ImportFormat.NDJSON:
                message = _decoded(piece, _Line, place).message
            else:
                message = _decoded(piece, ImportedMessage, place)
            if message.role not in (Role.USER, Role.ASSISTANT):
                raise _invalid(f"{place} is of the {message.role}; expected one of the user or of the assistant")
            yield message

    def _json_head(self) -> bytes:
        """The document without its messages."""
        pieces = JsonPieces(self._mapped)
        kept: list[bytes] = []
        for key, start in _or_invalid(pieces.members()):
            if key != b"messages":
                with _not_json_is_invalid():
                    end = pieces.end(start)
                if end - start > PIECE_MAX_BYTES:
                    raise _invalid(
                        f"the file has {end - start} bytes before its messages; the limit is {PIECE_MAX_BYTES}"
                    )
                kept.append(b'"' + key + b'":' + self._mapped[start:end])
        return b"{" + b",".join(kept) + b"}"

    def _items(self) -> Iterator[bytes]:
        pieces = JsonPieces(self._mapped)
        for key, start in pieces.members():
            if key == b"messages":
                for begin, end in pieces.items(start):
                    yield self._mapped[begin : min(end, begin + PIECE_MAX_BYTES + 1)]

    def _lines(self) -> Iterator[bytes]:
        start = 0
        while start < len(self._mapped):
            end = self._mapped.find(b"\n", start)
            end = len(self._mapped) if end < 0 else end
            # No more of it than shows that it is too long.
            if line := self._mapped[start : min(end, start + PIECE_MAX_BYTES + 1)].strip():
                yield line
            start = end + 1


@contextmanager
def _not_json_is_invalid() -> Iterator[None]:
    try:
        yield
    except NotJson as problem:
        raise _invalid(f"the file is not JSON: {problem}") from None


def _or_invalid(pieces: Iterator[Piece]) -> Iterator[Piece]:
    with _not_json_is_invalid():
        yield from pieces


def _require_year(moment: datetime) -> None:
    if moment.year not in YEARS:
        raise ValueError(f"expected a year from {YEARS[0]} to {YEARS[-1]}, got {moment.year}")


def _decoded(piece: bytes, kind: type[Decoded], place: str) -> Decoded:
    try:
        return msgspec.json.decode(piece, type=kind)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise _invalid(f"{place} is not as it is exported: {problem}") from None


def _invalid(detail: str) -> InvalidInput:
    return InvalidInput(detail, code="import_invalid")
