"""How frames lie in a journal file: a header line, then records. Pure.

    kvasir journal 1\\n | length u32 | crc32 u32 | payload | length u32 | crc32 u32 | payload | …       (little-endian)

A payload is a frame of a response's log exactly as it is sent, so it names its response and its `seq` itself. A process that
is killed can leave half a record at the end; reading stops there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

HEADER = b"kvasir journal 1\n"
_RECORD = struct.Struct("<II")


class ForeignJournal(Exception):
    """A file that is not a journal of this version."""


def encoded_records(payloads: Sequence[bytes]) -> bytes:
    """Records of these payloads, ready to be appended."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_RECORD.pack(len(payload), zlib.crc32(payload)), payload)
    return b"".join(parts)


def read_records(content: bytes) -> tuple[list[bytes], int]:
    """The whole records of a file, in order, and the number of bytes behind them that are none.

    Raises ForeignJournal when it does not begin with the header. A header that was cut off while it was written is an
    empty journal.
    """
    if not content.startswith(HEADER):
        if HEADER.startswith(content):
            return [], len(content)
        raise ForeignJournal(f"expected the header {HEADER!r}, got {content[: len(HEADER)]!r}")
    payloads: list[bytes] = []
    position = len(HEADER)
    while position + _RECORD.size <= len(content):
        length, checksum = _RECORD.unpack_from(content, position)
        start = position + _RECORD.size
        payload = content[start : start + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            break
        payloads.append(payload)
        position = start + length
    return payloads, len(content) - position
