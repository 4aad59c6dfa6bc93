"""Tells when sequences are there and nothing has been computed for too long: a bug, whatever the load.

Used by `engine.scheduler`, with each plan that is carried out. Pure: the time is handed in. Where a plan can see by itself that
nothing can ever run it raises at once; this is for waits that should end by themselves and do not, as for a tier that never
answers (vllm-project/vllm#45388).
"""

from __future__ import annotations

MAX_IDLE_PASSES = 50
"""Plans in a row that compute nothing though nothing is being brought. There should be none."""

MAX_IDLE_S = 1.0
"""Seconds without a computed token, beyond those that bringing KV back may take."""


class Watchdog:
    """Counts plans and seconds since anything ran. `patience_s` is how long bringing KV back from another tier may take."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._idle_since: float | None = None
        self._idle_passes = 0

    def ran(self) -> None:
        """A plan computed something."""
        self._idle_since = None
        self._idle_passes = 0

    def idled(self, now: float, *, is_restoring: bool) -> float | None:
        """A plan computed nothing although there is work. The seconds since anything ran, where those are too many."""
        if self._idle_since is None:
            self._idle_since = now
        idle_s = now - self._idle_since
        self._idle_passes = 0 if is_restoring else self._idle_passes + 1
        patience_s = MAX_IDLE_S + (self._patience_s if is_restoring else 0.0)
        return idle_s if idle_s > patience_s or self._idle_passes > MAX_IDLE_PASSES else None
