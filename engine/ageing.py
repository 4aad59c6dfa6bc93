"""How urgent a request is: its priority, and what waiting adds to it.

Used by `engine.waiting_queue` for who starts next, and by `engine.scheduler` for who gives way. Pure.

    waited      0 s          10 s          20 s          30 s
    interactive 1            0 overdue
    bot         2            1             0 overdue
    background  3            2             1             0 overdue
"""

from __future__ import annotations

from engine.types import Priority

AGEING_S = 10.0
"""Seconds of waiting that lift a request by one class. Longer than a person waits for a first word on a machine that is only
busy, so that the order of classes means something; short enough that the lowest class moves twice a minute whatever comes."""

OVERDUE = 0
"""The rank before all classes: who has it goes by the time waited alone, so it cannot be overtaken for ever."""

_RANKS = {Priority.INTERACTIVE: 1, Priority.BOT: 2, Priority.BACKGROUND: 3}


def rank(priority: Priority, waited_s: float) -> int:
    """Lower goes first. Never more than the rank of the class itself, and OVERDUE after `overdue_after_s`."""
    return max(OVERDUE, _RANKS[priority] - int(max(0.0, waited_s) // AGEING_S))


def overdue_after_s(priority: Priority) -> float:
    """Seconds after which waiting alone decides."""
    return _RANKS[priority] * AGEING_S


def is_lower(one: Priority, other: Priority) -> bool:
    """Whether `one` is of a lower class than `other`, however long either has waited."""
    return _RANKS[one] > _RANKS[other]
