"""Who goes first where threads want the same core. Called by a thread for itself."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

BEHIND = 10
"""A nice value: beside a thread of the usual priority one of this gets a quarter of a core."""


def give_way() -> None:
    """Let the calling thread be behind the others from now on. Does nothing where only processes have priorities."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BEHIND)


def wait_for_idle_cores() -> None:
    """Let the calling thread compute from now on only where nobody else does. Does nothing where there is no such priority, or a
    sandbox keeps it."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
