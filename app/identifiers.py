"""Ids and secrets. Ids are random, not counted and not timed, so that knowing one says nothing about another."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from typing import NewType

UserId = NewType("UserId", str)
ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", str)
ResponseId = NewType("ResponseId", str)

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id() -> str:
    """A UUID of version 4 in its usual form, 122 random bits."""
    return str(uuid.uuid4())


def is_id(text: str) -> bool:
    """Whether this could be one of our ids. What cannot be one is answered like one that does not exist."""
    return _ID.fullmatch(text) is not None


def new_secret() -> str:
    """A token nobody can guess, 256 random bits, safe in URLs and headers."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """What is stored of a token. A plain SHA-256 is enough, because the token itself is random and long."""
    return hashlib.sha256(secret.encode()).hexdigest()
