"""Fixtures of the tiers' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import SteppedClock
from tests.support.tiers import HangingDisk, TinyTiers, disk_store


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyTiers]:
    clock = SteppedClock()
    disk = disk_store(tmp_path / "kv", clock)
    disk.open()
    tiny = TinyTiers(tmp_path / "kv", clock, disk=disk)
    yield tiny
    tiny.tiers.close()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[TinyTiers]:
    """Tiers whose disk hangs where a test tells it to."""
    clock = SteppedClock()
    disk = HangingDisk.over(tmp_path / "kv", clock)
    disk.open()
    tiny = TinyTiers(tmp_path / "kv", clock, disk=disk)
    yield tiny
    disk.release.set()
    tiny.tiers.close()
