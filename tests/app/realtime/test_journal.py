"""The journal: what was appended is there after the process has died, and its space comes back when nobody needs it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.realtime import journal_segments
from app.realtime.event_log import EventLog
from app.realtime.hub import Hub
from app.realtime.journal import Journal
from app.realtime.journal_format import HEADER, ForeignJournal, encoded_records, read_records
from app.realtime.journal_recovery import abandoned_journal, journal_folders
from app.realtime.journal_segments import JournalSegments
from app.realtime.recorder import Recorder
from app.replicas.memory_shared_logs import LogShelf, MemorySharedLogs


def payload(response_id: str, number: int, size: int = 0) -> bytes:
    return msgspec.json.encode({"response_id": response_id, "n": number, "text": "x" * size})


def abandoned_frames(root: Path) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for folder in journal_folders(root):
        with abandoned_journal(folder) as journal:
            if journal is not None:
                found |= journal.frames()
    return found


def leave(segments: JournalSegments) -> None:
    """What the death of the process does: the lock is free, the files stay as they are."""
    assert segments._lock is not None
    os.close(segments._lock)
    segments._lock = None
    if segments._current is not None and segments._current.descriptor is not None:
        os.close(segments._current.descriptor)


# --- the file format -------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50)), st.integers(0, 200))
def test_a_file_cut_anywhere_gives_the_whole_records_before_the_cut(payloads: list[bytes], cut: int) -> None:
    content = HEADER + encoded_records(payloads)
    found, torn = read_records(content[: len(HEADER) + cut])
    assert found == payloads[: len(found)]
    assert len(HEADER) + len(encoded_records(found)) + torn == min(len(content), len(HEADER) + cut)
    if len(HEADER) + cut >= len(content):
        assert (found, torn) == (payloads, 0)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1), st.data())
def test_a_flipped_bit_never_yields_a_wrong_record(payloads: list[bytes], data: st.DataObject) -> None:
    content = bytearray(HEADER + encoded_records(payloads))
    position = data.draw(st.integers(len(HEADER), len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    found, _ = read_records(bytes(content))
    assert found == payloads[: len(found)]
    assert len(found) < len(payloads)


def test_a_foreign_file_is_named_as_such() -> None:
    with pytest.raises(ForeignJournal, match="expected the header"):
        read_records(b"SQLite format 3\x00 and more")


@pytest.mark.parametrize("content", [b"", HEADER[:5]])
def test_a_file_cut_inside_its_header_is_empty(content: bytes) -> None:
    assert read_records(content) == ([], len(content))


# --- segments --------------------------------------------------------------------------------------------------------


def test_frames_of_a_dead_process_come_back_in_order(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 100)
    segments.open()
    frames = [payload("r1", number) for number in range(30)]
    for frame in frames:
        segments.append([("r1", [frame]), ("r2", [payload("r2", 0)])])
    leave(segments)
    assert abandoned_frames(tmp_path)["r1"] == frames


def test_the_journal_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 1000)
    segments.open()
    segments.append([("r1", [payload("r1", 1)])])
    assert abandoned_frames(tmp_path) == {}
    leave(segments)
    assert list(abandoned_frames(tmp_path)) == ["r1"]


def test_two_starting_servers_do_not_take_the_same_journal(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 1000)
    segments.open()
    leave(segments)
    with abandoned_journal(tmp_path / "one") as first, abandoned_journal(tmp_path / "one") as second:
        assert first is not None
        assert second is None


def test_a_recovered_journal_is_removed(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 100)
    segments.open()
    for number in range(10):
        segments.append([("r1", [payload("r1", number)])])
    leave(segments)
    with abandoned_journal(tmp_path / "one") as journal:
        assert journal is not None
        journal.frames()
        journal.remove()
    assert journal_folders(tmp_path) == []


def test_files_that_are_no_journals_are_left_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "000001.journal").write_bytes(b"something else entirely")
    (folder / "000002.journal").write_bytes(HEADER + encoded_records([b"not json"]))
    (folder / "000003.journal").write_bytes(HEADER + encoded_records([payload("r1", 1)]) + b"torn")
    with abandoned_journal(folder) as journal:
        assert journal is not None
        assert list(journal.frames()) == ["r1"]
        journal.remove()
    assert sorted(path.name for path in folder.glob("*.journal")) == ["000001.journal", "000002.journal"]


def test_disk_use_is_bounded_while_answers_come_and_go(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 2000)
    segments.open()
    for number in range(300):
        name = f"r{number}"
        segments.append([(name, [payload(name, 1, size=100)])])
        if number >= 2:
            segments.forget(f"r{number - 2}")
        assert segments.disk_bytes < 3 * 2000
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.journal")) == segments.disk_bytes
    segments.close()


def test_an_idle_journal_holds_nothing(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 1 << 20)
    segments.open()
    segments.append([("r1", [payload("r1", 1, size=1000)])])
    segments.forget("r1")
    assert segments.disk_bytes == len(HEADER)
    segments.close()
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_has_not_ended_keeps_its_files_over_a_close(tmp_path: Path) -> None:
    segments = JournalSegments(tmp_path, "one", 1 << 20)
    segments.open()
    segments.append([("r1", [payload("r1", 1)])])
    segments.close()
    assert list(abandoned_frames(tmp_path)) == ["r1"]


# --- a disk that is full ---------------------------------------------------------------------------------------------


class FullDisk:
    """Stands for `os.write`: writes the first `room` bytes of all that comes, then refuses."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, descriptor: int, data: memoryview) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, bytes(data)[: self.room])
        self.room -= written
        return written


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = JournalSegments(tmp_path, "one", 1 << 20)
    segments.open()
    segments.append([("r1", [payload("r1", 1)])])
    disk = FullDisk(room=10)
    monkeypatch.setattr(journal_segments.os, "write", disk)
    with pytest.raises(OSError, match="No space left"):
        segments.append([("r1", [payload("r1", 2)])])
    disk.room = 1 << 20
    segments.append([("r1", [payload("r1", 3)])])
    leave(segments)
    assert abandoned_frames(tmp_path)["r1"] == [payload("r1", 1), payload("r1", 3)]


def test_a_file_that_cannot_be_mended_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = JournalSegments(tmp_path, "one", 1 << 20)
    segments.open()
    segments.append([("r1", [payload("r1", 1)])])
    disk = FullDisk(room=10)
    monkeypatch.setattr(journal_segments.os, "write", disk)

    def broken_truncate(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(journal_segments.os, "ftruncate", broken_truncate)
        with pytest.raises(OSError, match="No space left"):
            segments.append([("r1", [payload("r1", 2)])])
    disk.room = 1 << 20
    segments.append([("r2", [payload("r2", 1)])])
    leave(segments)
    assert abandoned_frames(tmp_path) == {"r1": [payload("r1", 1)], "r2": [payload("r2", 1)]}


# --- the thread and the recorder -------------------------------------------------------------------------------------


async def test_appends_are_confirmed_on_the_loop_in_their_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    await journal.open()
    confirmed: list[int] = []
    all_done = asyncio.Event()
    for number in range(100):
        journal.append("r1", [payload("r1", number)], lambda failure, number=number: confirmed.append(number))
    journal.append("r1", [], lambda failure: all_done.set())
    await all_done.wait()
    assert confirmed == list(range(100))
    await journal.close()
    assert abandoned_frames(tmp_path)["r1"] == [payload("r1", number) for number in range(100)]


async def test_what_waits_together_is_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write for all that came while the last one was under way (danny-avila/LibreChat#14313)."""
    writes: list[int] = []
    gate = threading.Event()
    write = os.write

    def slow_write(descriptor: int, data: memoryview) -> int:
        gate.wait()
        writes.append(len(data))
        return write(descriptor, data)

    journal = Journal(tmp_path, "one")
    await journal.open()
    monkeypatch.setattr(journal_segments.os, "write", slow_write)
    done = asyncio.Event()
    for number in range(50):
        journal.append(f"r{number}", [payload(f"r{number}", 1)], lambda failure: None)
    journal.append("r0", [], lambda failure: done.set())
    gate.set()
    await done.wait()
    await journal.close()
    # The header, whatever the thread took before the rest was there, and the rest.
    assert len(writes) <= 3


@pytest.fixture
async def recorded(tmp_path: Path) -> tuple[Recorder, Hub, Journal]:
    journal = Journal(tmp_path, "one")
    await journal.open()
    hub = Hub()
    return Recorder(journal, MemorySharedLogs(LogShelf()), hub), hub, journal


async def test_a_frame_is_in_the_file_before_anybody_can_read_it(
    recorded: tuple[Recorder, Hub, Journal], tmp_path: Path
) -> None:
    recorder, hub, journal = recorded
    log = EventLog("c1", "r1")
    hub.open_log(log)
    seen: list[int] = []

    def look() -> None:
        on_disk = (tmp_path / "one" / "000001.journal").read_bytes()
        frames = cursor.take(100)
        assert all(frame in on_disk for frame in frames)
        seen.append(len(frames))

    cursor = hub.read(log, 0, look)
    for number in range(20):
        recorder.record(log, [("response.output_text.delta", {"text": f"word{number}"})])
        assert log.last_seq < log.staged_seq
        await asyncio.sleep(0)
    await recorder.settled(log)
    assert sum(seen) == log.last_seq == 20
    cursor.close()
    await journal.close()


async def test_an_answer_whose_frames_cannot_be_kept_is_reported_once_and_can_still_end(
    recorded: tuple[Recorder, Hub, Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, hub, journal = recorded
    log, other = EventLog("c1", "r1"), EventLog("c1", "r2")
    broken: list[str] = []
    recorder.on_broken(lambda log, failure: broken.append(f"{log.response_id}: {failure.strerror}"))
    hub.open_log(log)
    hub.open_log(other)
    recorder.record(log, [("response.created", {}), ("response.output_text.delta", {"text": "kept"})])
    await recorder.settled(log)
    with monkeypatch.context() as patch:
        patch.setattr(journal_segments.os, "write", FullDisk(room=5))
        recorder.record(log, [("response.output_text.delta", {"text": "lost"})])
        recorder.record(log, [("response.output_text.delta", {"text": "lost too"})])
        await recorder.settled(log)
    recorder.record(log, [("response.output_text.delta", {"text": "not recorded any more"})])
    recorder.record(other, [("response.created", {})])
    await recorder.settled(log)
    assert broken == ["r1: No space left on device"]
    assert log.snapshot().text == "kept"
    terminal = recorder.terminal(log, "response.failed", {})
    recorder.end(log, terminal)
    assert (terminal.seq, log.is_ended, other.last_seq) == (3, True, 1)
    await journal.close()
