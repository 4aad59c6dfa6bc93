"""Whether a frame of the server is as `/schema/asyncapi.json` describes it. Every frame a test receives has to be."""

from __future__ import annotations

from functools import cache
from typing import Any, Union

import msgspec

from app.frame_data import SERVER_DATA, server_frame


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    kinds = tuple(server_frame(kind) for kind in SERVER_DATA)
    return msgspec.json.Decoder(Union[kinds])  # noqa: UP007 - the types are only known here


def require_described(text: str | bytes) -> None:
    """Fails with the place where the frame is another than its description."""
    try:
        _decoder().decode(text)
    except msgspec.ValidationError as difference:
        raise AssertionError(f"not as described: {difference}: {text!r}") from difference
