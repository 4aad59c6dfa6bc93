"""The books of the disk's tier: which files there are, what they take of the quota, and which one goes first.

Used by `engine.tiers.disk_store` under its lock. Pure: it opens and removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.types import SessionKey


@dataclass(slots=True)
class Segment:
    """One whole file. A foreign one is of another model, secret or version; of another version its session is not known."""

    session: SessionKey | None
    num_bytes: int
    num_pages: int
    last_used_s: float
    is_foreign: bool = False


@dataclass(slots=True)
class _Write:
    num_bytes: int
    is_void: bool = False


class SegmentIndex:
    """Owns the quota. Invariant: whole files and begun ones together never exceed `limit_bytes`, once `surplus` is removed."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._segments: dict[str, Segment] = {}
        self._writes: dict[str, _Write] = {}

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[str]:
        return iter(self._segments)

    def get(self, name: str) -> Segment | None:
        return self._segments.get(name)

    def add(self, name: str, segment: Segment) -> None:
        """A file that is there already."""
        self._segments[name] = segment
        self.used_bytes += segment.num_bytes

    def remove(self, name: str) -> None:
        """The file is gone."""
        if segment := self._segments.pop(name, None):
            self.used_bytes -= segment.num_bytes

    def begin(self, name: str, num_bytes: int) -> None:
        """A write takes its room before its first byte. There must be as much."""
        if self.used_bytes + num_bytes > self.limit_bytes:
            raise ValueError(f"{num_bytes} bytes do not fit beside {self.used_bytes} of {self.limit_bytes}")
        self._writes[name] = _Write(num_bytes)
        self.used_bytes += num_bytes

    def is_void(self, name: str) -> bool:
        """Whether what is being written was deleted meanwhile."""
        return self._writes[name].is_void

    def void(self, folder: str) -> None:
        """What is being written into this folder must not become a file."""
        for name, write in self._writes.items():
            if name.startswith(folder + "/"):
                write.is_void = True

    def commit(self, name: str, segment: Segment) -> None:
        """The write has become a whole file."""
        del self._writes[name]
        self._segments[name] = segment

    def give_up(self, name: str) -> None:
        """The write has come to nothing, and its bytes are gone."""
        if write := self._writes.pop(name, None):
            self.used_bytes -= write.num_bytes

    def is_writing(self, name: str) -> bool:
        return name in self._writes

    def room_for(self, num_bytes: int, session: SessionKey | None) -> list[str] | None:
        """The files to remove so that `num_bytes` fit, foreign ones first, then those used least recently.

        None, where removing everything but the files of `session` would not do.
        """
        missing = self.used_bytes + num_bytes - self.limit_bytes
        victims: list[str] = []
        candidates = [
            name for name, segment in self._segments.items() if segment.session != session or segment.is_foreign
        ]
        for name in sorted(candidates, key=self._order) if missing > 0 else ():
            victims.append(name)
            missing -= self._segments[name].num_bytes
            if missing <= 0:
                break
        return victims if missing <= 0 else None

    def surplus(self) -> list[str]:
        """The files to remove so that the rest is within the limit, which may have been a larger one before."""
        missing = self.used_bytes - self.limit_bytes
        victims: list[str] = []
        for name in sorted(self._segments, key=self._order):
            if missing <= 0:
                break
            victims.append(name)
            missing -= self._segments[name].num_bytes
        return victims

    def unused_since(self, time_s: float) -> list[str]:
        """The files that nobody has used since then."""
        return [name for name, segment in self._segments.items() if segment.last_used_s < time_s]

    def _order(self, name: str) -> tuple[bool, float]:
        segment = self._segments[name]
        return not segment.is_foreign, segment.last_used_s
