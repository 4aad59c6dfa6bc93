"""How often Python looks for objects that hold only each other: hardly ever while a command starts, as usual afterwards.

A start makes hundreds of thousands of objects that all stay. Looking through them every few hundred takes a fifth of its time.
"""

from __future__ import annotations

import gc
from typing import Final

WHILE_STARTING: Final = (1_000_000, 20, 20)
"""New objects between two looks. More than a start makes; and should it take long, for a download, still a bound."""

AS_USUAL: Final = (700, 10, 10)
"""Python's own numbers up to 3.12; later ones take the first and decide the rest by themselves."""

WHILE_SERVING: Final = (10_000, 20, 50)
"""One look through everything takes a tenth of a second with 500 sockets, and every stream waits for it. With Python's own
numbers 50 streams had one every few seconds (`python -m tests.bench.sockets`: lag p99 150 to 220 ms, with these 16 to 32)."""


def begin_start() -> None:
    """Called before a command's modules are imported. Commands that end soon leave it at that."""
    gc.set_threshold(*WHILE_STARTING)


def end_start() -> None:
    """Called by a command that stays, when it has imported what it needs."""
    gc.set_threshold(*AS_USUAL)


def settle() -> None:
    """For a server: it looks seldom, and what is there now is never looked through again, and no answer waits for that."""
    gc.freeze()
    gc.set_threshold(*WHILE_SERVING)
