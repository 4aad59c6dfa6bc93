"""A brake on guessing passwords: so many failures for a name, from one address and from all, then a pause. In memory, bounded."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping

from app.clock import Monotonic
from app.errors import TooManyRequests

MAX_FAILURES = 10
"""Enough for a person who mistypes, far too few for a guess."""

MAX_FAILURES_ANYWHERE = 100
"""From all addresses together, because some have many, and behind some proxies anybody can name one. So many that nobody locks
somebody else out by the way."""

WINDOW_S = 300.0
"""Failures are forgotten together, this long after the first."""

MAX_SIGN_UPS = 20
"""From one address in such a window: a class of pupils gets through, a machine that fills the database does not."""

MAX_KEYS = 10_000
"""The oldest go first beyond that, so that invented names cannot fill the memory."""


Key = tuple[str | None, str | None]
"""A name and an address. None instead of an address stands for all of them; None instead of a name, for names yet to be made."""


class LoginThrottle:
    """Counts the attempts that have not succeeded. An attempt counts from its begin, so that many at once do not slip through."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._attempts: OrderedDict[Key, tuple[float, int]] = OrderedDict()

    def begin(self, username: str, address: str) -> None:
        """Count one attempt. Raises TooManyRequests when there were too many."""
        limits: dict[Key, int] = {(username, address): MAX_FAILURES, (username, None): MAX_FAILURES_ANYWHERE}
        self._count(limits, "failed sign-ins with this name")

    def _count(self, limits: Mapping[Key, int], what: str) -> None:
        now = self._monotonic()
        counted: dict[Key, tuple[float, int]] = {}
        for key, limit in limits.items():
            since, count = self._attempts.get(key, (now, 0))
            if now - since >= WINDOW_S:
                since, count = now, 0
            if count >= limit:
                raise TooManyRequests(
                    f"there were {count} {what}; the limit is {limit} in {WINDOW_S:.0f} s",
                    retry_after_s=math.ceil(since + WINDOW_S - now),
                )
            counted[key] = (since, count + 1)
        self._attempts |= counted
        while len(self._attempts) > MAX_KEYS:
            self._attempts.popitem(last=False)

    def sign_up(self, address: str) -> None:
        """Count one new account from there. Raises TooManyRequests when there were too many."""
        self._count({(None, address): MAX_SIGN_UPS}, "new accounts from this address")

    def succeeded(self, username: str, address: str) -> None:
        """Forget the failures from there: the right password was given."""
        self._attempts.pop((username, address), None)
        if (anywhere := self._attempts.get((username, None))) is not None:
            since, count = anywhere
            self._attempts[username, None] = (since, count - 1)
