"""The word of a site about its visitor: a JWT, signed with the widget's secret (HS256). Called by `visitors`, in a thread.

Imported only when the first one comes, because its library costs a start a tenth of a second. It must never believe what is
signed with anything else, in any other way, or for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from joserfc.jwt import JWTClaimsRegistry

from app.errors import Unauthenticated
from app.text import is_storable
from app.widgets.models import EMAIL_MAX_CHARS, NAME_MAX_CHARS, SUBJECT_MAX_CHARS

ALGORITHMS = ["HS256"]
LIFETIME_MAX_S = 86400
"""A token that holds longer than a day is a password."""

LEEWAY_S = 60
"""Two machines' clocks are this much apart at most."""


@dataclass(frozen=True, slots=True)
class VisitorClaims:
    """Who the site says that its visitor is."""

    subject: str
    name: str | None
    email: str | None


def believed(token: str, widget_id: str, secrets: Sequence[str], now: datetime) -> VisitorClaims:
    """What it says, if it is signed with one of these secrets. Raises Unauthenticated."""
    now_s = int(now.timestamp())
    expected = JWTClaimsRegistry(now=now_s, leeway=LEEWAY_S, sub={"essential": True}, exp={"essential": True})
    for secret in secrets:
        try:
            claims = jwt.decode(token, OctKey.import_key(secret), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            continue
        try:
            expected.validate(claims)
        except (JoseError, ValueError) as problem:
            raise _refused(f"its claims do not hold: {problem}") from None
        if claims["exp"] > now_s + LIFETIME_MAX_S + LEEWAY_S:
            raise _refused(f"it holds for more than {LIFETIME_MAX_S} seconds from now")
        if claims.get("aud", widget_id) not in (widget_id, [widget_id]):
            raise _refused("it is for another audience")
        subject = _text(claims, "sub", SUBJECT_MAX_CHARS)
        if not subject:
            raise _refused("its sub is empty")
        return VisitorClaims(subject, _text(claims, "name", NAME_MAX_CHARS), _text(claims, "email", EMAIL_MAX_CHARS))
    raise _refused("it is not signed with HS256 and this widget's secret")


def _text(claims: dict[str, Any], name: str, max_chars: int) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > max_chars or not is_storable(value):
        raise _refused(f"its {name} is not a text of at most {max_chars} characters")
    return value


def _refused(reason: str) -> Unauthenticated:
    return Unauthenticated(f"the visitor token is not accepted: {reason}", code="visitor_token_refused")
