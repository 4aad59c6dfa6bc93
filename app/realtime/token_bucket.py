"""How often somebody may do something: so many a second, and a burst after a pause. Pure: the clock is handed in."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Full at the start. Holds at most `burst` tokens and gains `rate` of them per second."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock()

    def take(self) -> bool:
        """Use one token; False when there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
