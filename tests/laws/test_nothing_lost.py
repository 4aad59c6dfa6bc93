"""L6, nothing lost: kill -9 at any moment; every acknowledged message and every delta a client has seen is there afterwards.

Here the moment of the kill is any byte of what the process has written: readers note what they see, the journal is cut at
some length it had at or after that moment, and what is rebuilt must have it all. `tests/e2e/test_kill.py` does the same to
real processes and through the whole stack.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.realtime.event_log import EventLog, rebuilt_log
from app.realtime.hub import Cursor, Hub
from app.realtime.journal import Journal
from app.realtime.journal_format import HEADER
from app.realtime.journal_recovery import AbandonedJournal
from app.realtime.recorder import Recorder
from app.replicas.memory_shared_logs import LogShelf, MemorySharedLogs

steps = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)
"""What an engine does: which answer, the texts of one step, and whether the loop gets to breathe before the next one."""


@dataclass(frozen=True)
class Moment:
    """What readers had seen, and how much the process had written by then."""

    seen: dict[str, list[bytes]]
    written_bytes: int


async def lived(folder: Path, plan: Sequence[tuple[int, list[str], bool]]) -> list[Moment]:
    """Play the plan with a reader on every log; the moments at which somebody saw something new."""
    journal, hub = Journal(folder, "one"), Hub()
    await journal.open()
    recorder = Recorder(journal, MemorySharedLogs(LogShelf()), hub)
    seen: dict[str, list[bytes]] = {}
    moments: list[Moment] = []
    cursors: dict[str, Cursor] = {}
    file = folder / "one" / "000001.journal"

    def look() -> None:
        for response_id, cursor in cursors.items():
            seen[response_id] += cursor.take(100)
        moments.append(Moment({name: list(frames) for name, frames in seen.items()}, file.stat().st_size))

    logs = {number: EventLog("c", f"r{number}") for number in range(4)}
    for log in logs.values():
        hub.open_log(log)
        seen[log.response_id] = []
        cursors[log.response_id] = hub.read(log, 0, look)
    for number, texts, breathes in plan:
        recorder.record(logs[number], [("response.output_text.delta", {"text": text}) for text in texts])
        if breathes:
            await asyncio.sleep(0.0005)
    for log in logs.values():
        await recorder.settled(log)
    for cursor in cursors.values():
        cursor.close()
    await journal.close()
    return moments


def rebuilt(folder: Path, cut_bytes: int) -> dict[str, list[bytes]]:
    """What a restart finds after a kill that let so much be written."""
    with tempfile.TemporaryDirectory() as elsewhere:
        copy = Path(elsewhere) / "one"
        shutil.copytree(folder / "one", copy)
        file = copy / "000001.journal"
        file.write_bytes(file.read_bytes()[:cut_bytes])
        frames = AbandonedJournal(copy).frames()
    return {
        response_id: rebuilt_log("c", response_id, found).frames_after(0, 10_000)
        for response_id, found in frames.items()
    }


@given(steps, st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_moment_the_process_dies_what_was_seen_can_be_rebuilt(
    plan: list[tuple[int, list[str], bool]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moments = asyncio.run(lived(folder, plan))
        written = (folder / "one" / "000001.journal").stat().st_size
        moment = data.draw(st.sampled_from(moments))
        cut = data.draw(st.integers(moment.written_bytes, written))
        found = rebuilt(folder, cut)
        for response_id, frames in moment.seen.items():
            assert found.get(response_id, [])[: len(frames)] == frames


@given(steps, st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_a_journal_cut_at_any_byte_gives_a_beginning_of_every_log_and_never_a_wrong_frame(
    plan: list[tuple[int, list[str], bool]], share: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moments = asyncio.run(lived(folder, plan))
        written = (folder / "one" / "000001.journal").stat().st_size
        found = rebuilt(folder, len(HEADER) + int((written - len(HEADER)) * share))
        for response_id, frames in found.items():
            assert moments[-1].seen[response_id][: len(frames)] == frames
