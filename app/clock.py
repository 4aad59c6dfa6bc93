"""The two clocks of the application. Whoever needs the time is given one of these, so that tests can hold it still."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Now = Callable[[], datetime]
"""The moment in UTC: what is stored and shown."""

Monotonic = Callable[[], float]
"""Seconds that never run backwards: what durations are measured with."""


def utc_now() -> datetime:
    """The moment of this machine."""
    return datetime.now(UTC)
