"""A thread that gives way is behind the others, and nobody else is."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.thread_priority import BEHIND, give_way


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_only_the_thread_itself_gives_way() -> None:
    def own() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = own()
    with ThreadPoolExecutor(1, initializer=give_way) as behind:
        assert behind.submit(own).result() == BEHIND
    assert own() == before
