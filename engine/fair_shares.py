"""How many tokens each account has been served, compared with what an even division would have given it.

Used by `engine.waiting_queue`, in the engine thread. Pure.

Virtual time, as in fair queueing: `even` is what each account that is here would have got had all been served alike, so it
grows by tokens / accounts. Who is below it was served less than its share and goes first. Who comes after being away starts at
`even`: no credit for the time it asked for nothing, and no debt but its own. It must never be told how much of a prompt was
found in a cache: the order of the queue would tell one account what another has asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from engine.types import Namespace, NamespaceKind


@dataclass(frozen=True, slots=True)
class Account:
    """Who shares are counted for: a namespace without its `part`, which clients choose and could multiply at will."""

    kind: NamespaceKind
    name: str


def account_of(namespace: Namespace | None) -> Account | None:
    """Requests without a namespace share one account, None."""
    return None if namespace is None else Account(namespace.kind, namespace.name)


class FairShares:
    """Owns the counters. Accounts that are away and owe nothing are forgotten, so they stay as few as those that are here."""

    def __init__(self) -> None:
        self._present: Counter[Account | None] = Counter()
        self._served: dict[Account | None, float] = {}
        self._even = 0.0

    def enter(self, account: Account | None) -> None:
        """A request of the account has come, to wait or to run."""
        self._present[account] += 1
        self._served.setdefault(account, self._even)

    def leave(self, account: Account | None) -> None:
        """A request that had come has ended."""
        self._present[account] -= 1
        if not self._present[account]:
            del self._present[account]
        if not self._present:
            self._served.clear()
            self._even = 0.0
            return
        self._forget_paid()

    def forfeit_credit(self, account: Account | None) -> None:
        """The account asks again after a time in which nothing of it waited: it was not kept waiting, so it is owed nothing."""
        self._served[account] = max(self._served[account], self._even)

    def serve(self, account: Account | None, tokens: int) -> None:
        """Count tokens of an account that is here: of its prompts, cached or not, and of its answers."""
        self._served[account] += tokens
        self._even += tokens / len(self._present)

    def served(self, account: Account | None) -> float:
        """What the account has got, on the scale of the even division. Less means sooner."""
        return self._served[account]

    @property
    def num_accounts(self) -> int:
        """Accounts that are remembered."""
        return len(self._served)

    def _forget_paid(self) -> None:
        away = [account for account in self._served if account not in self._present]
        for account in away:
            if self._served[account] <= self._even:
                del self._served[account]
