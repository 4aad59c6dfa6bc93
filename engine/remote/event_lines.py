"""The lines of a server-sent event stream, out of bytes that were cut anywhere. Pure.

Only `data:` is of interest to us; a stream of chat completions has one line of it in each event. Lines are put together before
they are decoded, so a character that was cut in two is whole again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LINE_MAX_BYTES: Final = 1 << 20
"""One piece of an answer has hundreds of bytes; without a bound a server that sends no newline would fill the memory."""


class LineTooLong(ValueError):
    """The stream is none."""

    def __init__(self) -> None:
        super().__init__(f"a line of the event stream has more than {LINE_MAX_BYTES} bytes")


class EventLines:
    """Owns the beginning of a line that has not ended yet."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def push(self, piece: bytes) -> Iterator[str]:
        """The data of every line that ends in this piece. Raises LineTooLong, UnicodeDecodeError."""
        self._rest += piece
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        if len(self._rest) > LINE_MAX_BYTES:
            raise LineTooLong
        for line in lines:
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:").strip().decode()
