"""A brake on guessing passwords: so many failures for one name from one address, then a pause. In memory and bounded."""

from __future__ import annotations

import math
from collections import OrderedDict

from app.clock import Monotonic
from app.errors import TooManyRequests

MAX_FAILURES = 10
"""Enough for a person who mistypes, far too few for a guess."""

WINDOW_S = 300.0
"""Failures are forgotten together, this long after the first."""

MAX_KEYS = 10_000
"""The oldest go first beyond that, so that invented names cannot fill the memory."""


class LoginThrottle:
    """Counts the attempts that have not succeeded. An attempt counts from its begin, so that many at once do not slip through."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._attempts: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def begin(self, username: str, address: str) -> None:
        """Count one attempt. Raises TooManyRequests when there were too many."""
        key, now = (username, address), self._monotonic()
        since, count = self._attempts.get(key, (now, 0))
        if now - since >= WINDOW_S:
            since, count = now, 0
        if count >= MAX_FAILURES:
            raise TooManyRequests(
                f"{count} sign-ins with this name have failed; the limit is {MAX_FAILURES} in {WINDOW_S:.0f} s",
                retry_after_s=math.ceil(since + WINDOW_S - now),
            )
        self._attempts[key] = (since, count + 1)
        while len(self._attempts) > MAX_KEYS:
            self._attempts.popitem(last=False)

    def succeeded(self, username: str, address: str) -> None:
        """Forget the failures: the right password was given."""
        self._attempts.pop((username, address), None)
