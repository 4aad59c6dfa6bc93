"""Who is told that a credential has ended, so that what was opened with it ends too. Told by the services of this room, right
after the commit; the hub of sockets listens, and whoever carries the news to other server processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

RevokedListener = Callable[[str], None]
"""Called on the loop with the id of a credential whose sockets have to close. It must not block and must not raise."""


class Revocations:
    """Owns the listeners. A credential that is announced need not be revoked: after a change of role an API key holds on, and
    what was opened with it closes all the same."""

    def __init__(self) -> None:
        self._listeners: list[RevokedListener] = []

    def listen(self, listener: RevokedListener) -> None:
        """Have `listener` told of every one from now on."""
        self._listeners.append(listener)

    def announce(self, credential_ids: Iterable[str]) -> None:
        """Tell everybody. Called when the change is durable, never before."""
        for credential_id in credential_ids:
            for listener in self._listeners:
                listener(credential_id)
