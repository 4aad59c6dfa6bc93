"""The disk as a tier: one file for a run of pages of one session, found again after a restart.

    folder / <hash of the namespace's kind and name> / <hash of its part and the session's name> / <random>.kv

So a session, or all of a user, is forgotten by removing a folder, whatever model and secret its files were made with. Used by
the lanes of `engine.tiers.transfers`, and by the engine thread at its start only: everything here may take long. What cannot be
written or read is counted and a miss, never an error of an answer.

A file is written beside its place (`.tmp`), synced and renamed. `_lock` guards the books and every change of names, never a
read or write of content: a disk that hangs there holds up no deletion.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from engine.cached_page import StoredPage
from engine.config import PAGE_TOKENS
from engine.errors import EngineError
from engine.packed_tokens import count_tokens
from engine.page_keys import PageKey
from engine.tiers.disk_content import DiskCounters, FoundPage, FoundSession, PageContent, WantedPage
from engine.tiers.durable_folder import (
    empty_folder,
    files_in,
    folders_in,
    make_folder,
    remove_if_empty,
    sync_folder,
    write_all,
)
from engine.tiers.record_format import RecordFormat
from engine.tiers.segment_file import (
    SegmentDamaged,
    SegmentForeign,
    SegmentHeader,
    SegmentPage,
    checksum_of,
    encode_header,
    namespace_folder,
    session_folder,
)
from engine.tiers.segment_index import Segment, SegmentIndex
from engine.tiers.segment_reader import read_header, read_records
from engine.types import Namespace, SessionKey

SUFFIX: Final = ".kv"
UNFINISHED_SUFFIX: Final = ".tmp"


class DiskUnusable(EngineError):
    """The folder for KV cannot be made, read or cleared."""


class DiskStore:
    """Owns the folder. What it holds never exceeds `limit_bytes`, half-written files included."""

    def __init__(
        self,
        folder: Path,
        *,
        fingerprint: str,
        root: PageKey,
        format: RecordFormat,
        limit_bytes: int,
        ttl_s: float,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self.folder = folder
        self.format = format
        self.ttl_s = ttl_s
        self.counters = DiskCounters()
        self.foreign_sessions: dict[SessionKey, int] = {}
        """Sessions that had files of another model or secret at the start, and how many tokens those reach."""
        self._fingerprint = fingerprint
        self._root = root
        self._wall_clock = wall_clock
        self._index = SegmentIndex(limit_bytes)
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._gone: deque[str] = deque()

    @property
    def used_bytes(self) -> int:
        return self._index.used_bytes

    @property
    def limit_bytes(self) -> int:
        return self._index.limit_bytes

    def counters_now(self) -> DiskCounters:
        """A copy that stays as it is."""
        with self._counting:
            return replace(self.counters)

    def take_gone(self) -> list[str]:
        """Files that have gone since the last call, for whatever reason. Takes no lock."""
        gone = []
        while self._gone:
            gone.append(self._gone.popleft())
        return gone

    # --- starting ----------------------------------------------------------------------------------------------------

    def open(self) -> list[FoundSession]:
        """Rebuild the books from the files, remove those of no use, and return what there is. Raises DiskUnusable."""
        sessions: dict[SessionKey, FoundSession] = {}
        try:
            make_folder(self.folder)
            with self._lock:
                for folder in folders_in(self.folder):
                    for inner in folders_in(folder):
                        for path in files_in(inner):
                            self._find(path, sessions)
                        remove_if_empty(inner)
                    remove_if_empty(folder)
                self._evict(self._index.surplus())
        except OSError as problem:
            raise DiskUnusable(f"the folder {self.folder} for KV cannot be used: {problem}") from problem
        gone = set(self.take_gone())
        for session in sessions.values():
            session.pages = [page for page in session.pages if page.stored.segment not in gone]
        return [session for session in sessions.values() if session.pages]

    def _find(self, path: Path, sessions: dict[SessionKey, FoundSession]) -> None:
        """Take one file into the books, or remove it."""
        name = str(path.relative_to(self.folder))
        if path.suffix not in (SUFFIX, UNFINISHED_SUFFIX):
            return
        facts = path.stat()
        idle_s = max(self._now_s() - facts.st_mtime, 0.0)
        if path.suffix == UNFINISHED_SUFFIX or idle_s > self.ttl_s:
            self._count("unfinished" if path.suffix == UNFINISHED_SUFFIX else "expired")
            path.unlink()
            return
        try:
            with path.open("rb", buffering=0) as file:
                header, _ = read_header(file.fileno())
            if path.parent != self._folder_of(header.session):
                raise SegmentDamaged("the file is in another place than it says")
        except SegmentForeign:
            self._count("foreign")
            self._index.add(name, Segment(None, facts.st_size, 0, facts.st_mtime, is_foreign=True))
        except (SegmentDamaged, EOFError, OSError):
            self._count("damaged")
            path.unlink()
        else:
            is_foreign = not self._is_ours(header)
            segment = Segment(header.session, facts.st_size, len(header.pages), facts.st_mtime, is_foreign)
            self._index.add(name, segment)
            if is_foreign:
                self._count("foreign")
                reach = max((page.index * PAGE_TOKENS + count_tokens(page.packed) for page in header.pages), default=0)
                self.foreign_sessions[header.session] = max(reach, self.foreign_sessions.get(header.session, 0))
                return
            found = sessions.setdefault(header.session, FoundSession(header.session, idle_s))
            found.idle_s = min(found.idle_s, idle_s)
            found.pages += [
                FoundPage(PageContent(page.key, page.parent, page.index, page.packed), StoredPage(name, place))
                for place, page in enumerate(header.pages)
            ]

    def _is_ours(self, header: SegmentHeader) -> bool:
        return (header.fingerprint, header.root, header.format) == (self._fingerprint, self._root, self.format)

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(
        self,
        session: SessionKey,
        pages: Sequence[PageContent],
        records: Sequence[memoryview],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> str | None:
        """Write one file and return its name; None where it has no room, fails, or was deleted or not wanted meanwhile.

        Room is made before the first byte: by files of other models, then by those used least recently, never by other files
        of the same session.
        """
        entries = tuple(
            SegmentPage(page.key, page.parent, page.index, page.packed, checksum_of(record))
            for page, record in zip(pages, records, strict=True)
        )
        header = encode_header(SegmentHeader(self._fingerprint, self._root, session, self.format, entries))
        segment = Segment(session, len(header) + sum(map(len, records)), len(pages), self._now_s())
        path = self._folder_of(session) / f"{uuid4().hex}{SUFFIX}"
        name = str(path.relative_to(self.folder))
        try:
            with self._lock:
                victims = self._index.room_for(segment.num_bytes, session)
                if victims is None:
                    self._count("too_large")
                    return None
                self._evict(victims)
                self._index.begin(name, segment.num_bytes)
            if not self._write_file(path, name, [memoryview(header), *records], segment, is_wanted):
                return None
        except OSError:
            self._count("write_failures")
            return None
        finally:
            self._end_write(path, name)
        self._count("written_pages", len(pages))
        return name

    def _write_file(
        self, path: Path, name: str, parts: Sequence[memoryview], segment: Segment, is_wanted: Callable[[], bool]
    ) -> bool:
        temporary = path.with_suffix(UNFINISHED_SUFFIX)
        with self._lock:
            # Who deletes has said before that it is not wanted: what begins here is seen by the deletion, or does not begin.
            if not is_wanted():
                return False
            make_folder(path.parent)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for part in parts:
                write_all(file.fileno(), part)
            self._touch(file.fileno(), segment.last_used_s)
            os.fsync(file.fileno())
        with self._lock:
            if self._index.is_void(name) or not is_wanted():
                return False
            temporary.rename(path)
        sync_folder(path.parent)
        with self._lock:
            if self._index.is_void(name) or not is_wanted():
                return False
            self._index.commit(name, segment)
        return True

    def _end_write(self, path: Path, name: str) -> None:
        """Take back whatever there is of a write that has not become a file."""
        with self._lock:
            if self._index.is_writing(name):
                try:
                    path.with_suffix(UNFINISHED_SUFFIX).unlink(missing_ok=True)
                    path.unlink(missing_ok=True)
                    remove_if_empty(path.parent)
                except OSError:
                    self._count("write_failures")
                self._index.give_up(name)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, name: str, wanted: Sequence[WantedPage], out: memoryview) -> int:
        """Read records into `out`, one after the other; how many from the beginning are there and right.

        A file with anything wrong is removed as a whole: a disk that damaged one page of it is not asked for the others.
        """
        good = 0
        try:
            with (self.folder / name).open("rb", buffering=0) as file:
                header, offset = read_header(file.fileno())
                if not self._is_ours(header) or self._folder_of(header.session) != (self.folder / name).parent:
                    raise SegmentDamaged("the file is another one than was written")
                for count in read_records(file.fileno(), header, offset, wanted, out):
                    good = count
                self._touch(file.fileno(), self._now_s())
        except FileNotFoundError:
            self._drop(name)
        except (SegmentDamaged, SegmentForeign, EOFError):
            self._count("damaged")
            self._drop(name)
        except OSError:
            self._count("read_failures")
            self._drop(name)
        else:
            if segment := self._index.get(name):
                segment.last_used_s = self._now_s()
        self._count("read_pages", good)
        return good

    def use(self, names: Sequence[str]) -> None:
        """Count these files as used now, though nobody reads them."""
        for name in names:
            try:
                os.utime(self.folder / name, (self._now_s(), self._now_s()))
            except OSError:
                self._drop(name)
            else:
                if segment := self._index.get(name):
                    segment.last_used_s = self._now_s()

    # --- removing ----------------------------------------------------------------------------------------------------

    def delete_session(self, session: SessionKey) -> None:
        """Forget a session: when this returns no file of it is left, of any model, and none that is being written will be.

        Raises OSError where a file cannot be removed.
        """
        folder = self._folder_of(session)
        with self._lock:
            self._empty(folder)
            remove_if_empty(folder.parent)
        sync_folder(folder.parent)
        sync_folder(self.folder)

    def delete_namespace(self, namespace: Namespace) -> None:
        """Forget everything of a user, all parts of the namespace included: like `delete_session`."""
        folder = self.folder / namespace_folder(namespace)
        problem: OSError | None = None
        with self._lock:
            for inner in folders_in(folder):
                try:
                    self._empty(inner)
                except OSError as failed:
                    # One session whose files cannot be removed is no reason to keep the others.
                    problem = failed
            if problem is not None:
                raise problem
            remove_if_empty(folder)
        sync_folder(self.folder)

    def delete_segments(self, names: Sequence[str]) -> None:
        """Remove these files, of which nobody needs a page any more."""
        for name in names:
            self._drop(name)

    def delete_expired(self) -> None:
        """Remove what nobody has used for `ttl_s`, files of other models too."""
        with self._lock:
            expired = self._index.unused_since(self._now_s() - self.ttl_s)
            self._count("expired", len(expired))
            for name in expired:
                self._unlink(name)

    def _empty(self, folder: Path) -> None:
        relative = str(folder.relative_to(self.folder))
        self._index.void(relative)
        try:
            empty_folder(folder)
        finally:
            # Where that failed, files that are left still take their room.
            left = {str(path.relative_to(self.folder)) for path in files_in(folder)}
            for name in [name for name in self._index if name.startswith(relative + "/")]:
                if name not in left:
                    self._index.remove(name)
                self._gone.append(name)

    def _evict(self, names: Sequence[str]) -> None:
        for name in names:
            self._count("evicted")
            self._unlink(name)

    def _drop(self, name: str) -> None:
        """Remove a file that is of no use; where that fails it still takes its room, and is not offered again."""
        with self._lock:
            try:
                self._unlink(name)
            except OSError:
                self._count("write_failures")
                self._gone.append(name)

    def _unlink(self, name: str) -> None:
        path = self.folder / name
        path.unlink(missing_ok=True)
        self._index.remove(name)
        self._gone.append(name)
        remove_if_empty(path.parent)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _folder_of(self, session: SessionKey) -> Path:
        return self.folder / session_folder(session)

    def _now_s(self) -> float:
        return self._wall_clock().timestamp()

    def _touch(self, descriptor: int, time_s: float) -> None:
        os.utime(descriptor, (time_s, time_s))

    def _count(self, counter: str, amount: int = 1) -> None:
        with self._counting:
            setattr(self.counters, counter, getattr(self.counters, counter) + amount)
