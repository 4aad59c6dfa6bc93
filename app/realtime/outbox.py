"""The frames that wait for one socket beside its streams: acknowledgements, errors, conversation events.

Filled by whoever has something to say to the socket, emptied by its writer. Bounded, so that a reader who does not read
costs a fixed amount of memory; answers' frames never come here, they stay in their logs and the writer keeps a position.
"""

from __future__ import annotations

from collections import deque


class Outbox:
    """A first-in first-out queue of encoded frames. Pure: whoever puts wakes the writer."""

    def __init__(self, max_frames: int) -> None:
        self._max_frames = max_frames
        self._frames: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes) -> bool:
        """Add a frame, unless the outbox is full: then False, and the socket has to be closed."""
        if len(self._frames) >= self._max_frames:
            return False
        self._frames.append(frame)
        return True

    def take(self) -> bytes | None:
        """The oldest frame, or None."""
        return self._frames.popleft() if self._frames else None
