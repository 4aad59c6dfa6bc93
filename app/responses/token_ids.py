"""The ids of an answer as they are stored with its message, so that the next turn can use them without encoding again.

They mean something to one model only. The first eight bytes say to which, and with any other the text is encoded instead:

    sha256(model fingerprint)[:8] | id u32 | id u32 | …       (little-endian)
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

MARK_BYTES = 8


def packed_token_ids(ids: Sequence[int], fingerprint: str) -> bytes:
    """The form that is stored."""
    return _mark(fingerprint) + struct.pack(f"<{len(ids)}I", *ids)


def unpacked_token_ids(stored: bytes | None, fingerprint: str) -> tuple[int, ...] | None:
    """The ids, where they are known and belong to this model."""
    if stored is None or stored[:MARK_BYTES] != _mark(fingerprint):
        return None
    return struct.unpack(f"<{(len(stored) - MARK_BYTES) // 4}I", stored[MARK_BYTES:])


def _mark(fingerprint: str) -> bytes:
    return hashlib.sha256(fingerprint.encode()).digest()[:MARK_BYTES]
