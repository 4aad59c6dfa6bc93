"""A brake on guessing passwords: so many failures for a name, from one address and from all, then a pause."""

from __future__ import annotations

import hashlib
import math

from app.errors import TooManyRequests
from app.replicas.rate_limits import RateLimits

MAX_FAILURES = 10
"""Enough for a person who mistypes, far too few for a guess."""

MAX_FAILURES_ANYWHERE = 100
"""From all addresses together, because some have many, and behind some proxies anybody can name one. So many that nobody locks
somebody else out by the way."""

WINDOW_S = 300.0
"""Failures are forgotten together, this long after the first."""

MAX_SIGN_UPS = 20
"""From one address in such a window: a class of pupils gets through, a machine that fills the database does not."""


class LoginThrottle:
    """Counts the attempts that have not succeeded, on all servers together. An attempt counts from its begin, so that many at
    once do not slip through."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits

    async def begin(self, username: str, address: str) -> None:
        """Count one attempt. Raises TooManyRequests when there were too many."""
        here, anywhere = _key("sign-in", username, address), _key("sign-in", username)
        await self._count(here, MAX_FAILURES, "failed sign-ins with this name")
        try:
            await self._count(anywhere, MAX_FAILURES_ANYWHERE, "failed sign-ins with this name")
        except TooManyRequests:
            await self._limits.give_back(here)
            raise

    async def sign_up(self, address: str) -> None:
        """Count one new account from there. Raises TooManyRequests when there were too many."""
        await self._count(_key("sign-up", address), MAX_SIGN_UPS, "new accounts from this address")

    async def succeeded(self, username: str, address: str) -> None:
        """Forget the failures from there: the right password was given."""
        await self._limits.forget(_key("sign-in", username, address))
        await self._limits.give_back(_key("sign-in", username))

    async def _count(self, key: str, limit: int, what: str) -> None:
        wait_s = await self._limits.take(key, limit=limit, window_s=WINDOW_S)
        if wait_s is not None:
            raise TooManyRequests(
                f"there were {limit} {what}; the limit is {limit} in {WINDOW_S:.0f} s",
                retry_after_s=max(1, math.ceil(wait_s)),
            )


def _key(kind: str, *parts: str) -> str:
    """Of one length, whatever somebody types, and readable by nobody who looks into Redis."""
    return f"{kind}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}"
