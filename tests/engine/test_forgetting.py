"""Cases the random operations of tests/laws have found, each as small as it became."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.types import Namespace, Priority
from tests.laws.checked_engine import CheckedEngine
from tests.support.small_engine import SmallEngine

ANNA = Namespace.user("anna")


@pytest.fixture
def checked() -> Iterator[CheckedEngine]:
    small = SmallEngine(device_pages=16, host_pages=6, disk_bytes=1 << 16, prefix_pages=6, context_tokens=160)
    checked = CheckedEngine(small)
    yield checked
    checked.end()
    small.close()


def test_an_answer_without_a_session_ends_too_when_its_user_is_deleted(checked: CheckedEngine) -> None:
    checked.ask(ANNA, None, list(range(100, 140)), 5, Priority.INTERACTIVE)
    checked.step()
    checked.delete_user(ANNA)
    assert not checked.live
