"""Signatures as Standard Webhooks has them: HMAC-SHA256 over id, time and body, with a secret that begins with `whsec_`. Pure."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """A secret that nobody has."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(event_id: str, timestamp_s: int, body: bytes, with_secrets: Iterable[str]) -> dict[str, str]:
    """The three headers. Signed with each secret: while one replaces another, who has either can verify it."""
    signatures = [_signature(secret, event_id, timestamp_s, body) for secret in with_secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, event_id: str, timestamp_s: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = b"%s.%d.%s" % (event_id.encode(), timestamp_s, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
