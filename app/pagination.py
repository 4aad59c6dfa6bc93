"""Cursors of lists: opaque to clients, a keyset inside, and checked before anything is asked of the database."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec
from litestar.params import QueryParameter

from app.errors import InvalidInput

LIMIT_DEFAULT = 50
LIMIT_MAX = 200
"""A page of the longest messages is then still answered in one piece."""

CURSOR_MAX_CHARS = 512

Limit = Annotated[int, QueryParameter(ge=1, le=LIMIT_MAX, description="Items on a page")]
CursorText = Annotated[
    str | None, QueryParameter(description="`next_cursor` of the page before; left out for the first page")
]

Cursor = TypeVar("Cursor", bound=msgspec.Struct)


def encode_cursor(cursor: msgspec.Struct) -> str:
    """What a client gets as `next_cursor`."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def decode_cursor(text: str, kind: type[Cursor]) -> Cursor:
    """Where a page begins. Raises InvalidInput for anything that this list has not given out."""
    if len(text) <= CURSOR_MAX_CHARS:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            return msgspec.json.decode(raw, type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            pass
    raise invalid_cursor()


def invalid_cursor() -> InvalidInput:
    """What a wrong cursor is answered with."""
    return InvalidInput("the cursor is not one of this list; leave it out to begin again", code="invalid_cursor")
