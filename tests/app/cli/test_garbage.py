"""Python looks for garbage hardly ever while a command starts, seldom in a server, and as usual in every other command."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import click
import pytest

from app.cli import main
from app.cli.garbage import AS_USUAL, WHILE_SERVING, WHILE_STARTING, begin_start, end_start, settle


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_a_start_is_not_looked_through_and_what_a_server_then_has_never_again() -> None:
    assert main.get_command(click.Context(main), "config") is not None
    assert gc.get_threshold() == WHILE_STARTING
    settle()
    assert gc.get_threshold() == WHILE_SERVING
    assert gc.get_freeze_count() > 0


def test_a_chat_goes_on_as_usual() -> None:
    begin_start()
    end_start()
    assert gc.get_threshold() == AS_USUAL
    assert gc.get_freeze_count() == 0
