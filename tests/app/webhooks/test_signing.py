"""Signatures, verified by the official library of Standard Webhooks."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.webhooks.signing import new_secret, signed_headers

BODY = json.dumps({"type": "message.created", "data": {"text": "“ünïcödé” \N{PARTY POPPER}"}}).encode()


def now_s() -> int:
    return int(datetime.now(UTC).timestamp())


def test_the_official_library_takes_our_signatures() -> None:
    secret = new_secret()
    headers = signed_headers("event-1", now_s(), BODY, [secret])
    assert Webhook(secret).verify(BODY, headers) == json.loads(BODY)


@pytest.mark.parametrize("change", ["body", "webhook-id", "webhook-timestamp", "secret"])
def test_whatever_is_changed_is_noticed(change: str) -> None:
    secret = new_secret()
    headers = signed_headers("event-1", now_s(), BODY, [secret])
    body = BODY + b" " if change == "body" else BODY
    if change in headers:
        headers[change] = "event-2" if change == "webhook-id" else str(now_s() + 1)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret() if change == "secret" else secret).verify(body, headers)


def test_while_a_secret_is_replaced_both_verify() -> None:
    secrets = [new_secret(), new_secret()]
    headers = signed_headers("event-1", now_s(), BODY, secrets)
    for secret in secrets:
        Webhook(secret).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, headers)


def test_a_secret_is_one_of_standard_webhooks_and_never_the_same() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(secret.startswith("whsec_") and len(secret) == 50 for secret in made)
