"""When credentials were last used: noted in memory with every request, written to SQL now and then, because a write with every
request would cost more than it tells. Owned by the account service. Lives on the event loop."""

from __future__ import annotations

from datetime import datetime


class LastUses:
    """What is not in SQL yet."""

    def __init__(self) -> None:
        self._noted: dict[str, datetime] = {}

    def note(self, credential_id: str, moment: datetime) -> None:
        """This credential was used now."""
        self._noted[credential_id] = moment

    def latest(self, credential_id: str, stored: datetime | None) -> datetime | None:
        """The later of what SQL has and what was noted since."""
        return self._noted.get(credential_id, stored)

    def take(self) -> dict[str, datetime]:
        """Everything that was noted; it is the caller's to write down."""
        noted, self._noted = self._noted, {}
        return noted
