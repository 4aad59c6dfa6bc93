"""A thread that gives way is behind the others, and nobody else is."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.config import EngineConfig
from engine.local import LocalEngine
from engine.thread_priority import BEHIND, give_way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")


def own() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_thread_itself_gives_way() -> None:
    before = own()
    with ThreadPoolExecutor(1, initializer=give_way) as behind:
        assert behind.submit(own).result() == BEHIND
    assert own() == before


def test_prompts_are_encoded_behind_the_engine() -> None:
    encoding = LocalEngine(EngineConfig(Path("nowhere"), "m"))._tokenizing
    assert encoding.submit(own).result() == BEHIND
    encoding.shutdown()
