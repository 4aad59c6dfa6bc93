"""In whose name a call asks the engine: the key's own, and within it that of each customer the key names. Pure.

A part of the account's namespace, so that whatever forgets the account forgets this too. Nothing a caller sends can name another
key's part: a key's id has one length, and what the caller chooses comes behind it.
"""

from __future__ import annotations

from app.accounts.identity import Identity
from engine.types import Namespace


def namespace_of(caller: Identity, customer: str | None) -> Namespace:
    """Where KV is looked for and kept. A person who is signed in has one of their own beside those of their keys."""
    part = "api" if caller.key_id is None else f"key:{caller.key_id}"
    return Namespace.user(caller.user_id, part if customer is None else f"{part}/{customer}")
