"""Where a page of this room's lists goes on: lists are in the order in which things were made, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from app.pagination import decode_cursor, encode_cursor
from app.text import require_storable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MomentCursor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The last item of a page: when it was made, in microseconds since 1970, and its id."""

    created_us: Annotated[int, Meta(ge=0, le=253_402_300_799_999_999)]
    id: Annotated[str, Meta(max_length=36)]


class Made(Protocol):
    """An item of such a list."""

    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> datetime: ...


def cursor_at(last: Made) -> str:
    """What a client gets when there is more behind this item."""
    return encode_cursor(MomentCursor((last.created_at - EPOCH) // timedelta(microseconds=1), last.id))


def place_of(cursor: str | None) -> tuple[datetime, str] | None:
    """The item that a page begins behind; None for the first page. Raises InvalidInput."""
    if cursor is None:
        return None
    place = decode_cursor(cursor, MomentCursor)
    return EPOCH + timedelta(microseconds=place.created_us), require_storable(place.id, "cursor")
