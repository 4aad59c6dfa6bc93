"""The whole engine with every tier, so small that all of them are full all the time: the tiny model, a few pages of each.

It is put together by `engine.assembly` as in a server. Only the clock, the model, and the disk's threads are a test's own.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import torch

from engine.assembly import assemble
from engine.cached_page import CachedPage
from engine.config import EngineConfig
from engine.core import Engine
from engine.kv_cache import KVCache
from engine.memory_map import count_pages, state_of
from engine.model.batch import ForwardBatch
from engine.model.loader import LoadedModel
from engine.prompt_lookup import PromptLookup
from engine.sampler import SamplingState
from engine.scheduler import Scheduler
from engine.step_plan import Scheduled
from engine.tiers.segment_file import namespace_folder, session_folder
from engine.types import EngineEvent, EngineFailure, Namespace, RequestId, SessionKey
from tests.support.clock import SteppedClock
from tests.support.stepped_transfers import SteppedTransfers
from tests.support.tiny_model import SPEC, VOCABULARY, TinyDecoder, TinyTokenizer, reference_ids, tiny_info

PAGE_BYTES = KVCache.bytes_per_page(SPEC)
DAMAGES = ("flip", "scramble a page", "cut", "remove", "another's content", "unfinished")
FAILURE = EngineFailure("engine_stopped", "stopped by a test")


def guess(_lookup: PromptLookup, tokens: Sequence[int], most: int) -> tuple[int, ...]:
    """Right for a while, and then mostly wrong: the tiny model itself never repeats anything."""
    right = reference_ids(tokens, sum(tokens[-3:]) % (most + 1), stop_at=frozenset())
    return (*right, *(token % VOCABULARY for token in range(len(tokens), len(tokens) + most - len(right))))


class FaultyDecoder(TinyDecoder):
    """Fails once when told to, after the keys of the step were written."""

    fail_next = False

    def forward(self, batch: ForwardBatch, cache: KVCache) -> torch.Tensor:
        logits = super().forward(batch, cache)
        self.batches.clear()
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("a fault on purpose")
        return logits


class SmallEngine:
    """Owns the engine, its clock and its folder, over any number of restarts."""

    def __init__(
        self,
        *,
        device_pages: int,
        host_pages: int,
        disk_bytes: int,
        prefix_pages: int,
        context_tokens: int,
        max_step_tokens: int = 32,
        batch_window_ms: int = 0,
        speculation_tokens: int = 0,
        between_ids: Sequence[int] = (),
    ) -> None:
        # In memory where that is possible: what is tested is the order of things, and not how long a sync takes.
        # Names of files and the secret are the same in every run, so that a run can be repeated.
        chance = random.Random(1)
        self._names = patch("engine.tiers.disk_store.uuid4", lambda: UUID(int=chance.getrandbits(128)))
        self._names.start()
        self._guesses = patch.multiple(PromptLookup, chance=0.9, draft=guess)
        self._guesses.start()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.clock = SteppedClock()
        self.computed: dict[RequestId, Counter[int]] = {}
        """How often each place was run through the model, for each request; as a part of a draft that counts as nothing, but it
        is there."""
        self.context_tokens = context_tokens
        self.between_ids = between_ids
        self.config = EngineConfig(
            Path("tiny"),
            "tiny",
            threads=1,
            kv_memory_bytes=device_pages * PAGE_BYTES,
            host_memory_bytes=host_pages * PAGE_BYTES,
            prefix_memory_bytes=prefix_pages * PAGE_BYTES,
            disk_folder=self.folder / "kv",
            disk_bytes=disk_bytes,
            max_step_tokens=max_step_tokens,
            max_running=4,
            batch_window_ms=batch_window_ms,
            speculation_tokens=speculation_tokens,
        )
        self.start()

    def start(self) -> None:
        self.decoder = FaultyDecoder()
        loaded = LoadedModel(
            self.decoder, TinyTokenizer(between_ids=self.between_ids), tiny_info(self.context_tokens), SPEC
        )
        with (
            patch("engine.assembly.Transfers", SteppedTransfers),
            patch("engine.assembly.read_or_make_secret", lambda folder: b"secret"),
        ):
            self.engine, _ = assemble(
                self.config,
                loaded,
                clock=self.clock.monotonic,
                wall_clock=self.clock.now,
                wake=lambda: None,
                on_progress=lambda words: None,
            )
        run = self.engine._runner.run

        def counting(scheduled: Sequence[Scheduled], states: Sequence[SamplingState]) -> list[int | None]:
            for item in scheduled:
                places = self.computed.setdefault(item.sequence.request_id, Counter())
                places.update(range(item.start, item.end))
                places.update(dict.fromkeys(range(item.end, item.draft_end), 0))
            return run(scheduled, states)

        self.engine._runner.run = counting  # type: ignore[method-assign]

    @property
    def transfers(self) -> SteppedTransfers:
        transfers = self.engine._memory.tiers._transfers
        assert isinstance(transfers, SteppedTransfers)
        return transfers

    def stop(self) -> list[EngineEvent]:
        """End the engine in order; the events that were left."""
        self.engine.stop(FAILURE)
        return self.engine.take_events()

    def kill(self) -> None:
        """The process is gone, and a file that was being written stays half-written."""
        self.transfers.close()

    def close(self) -> None:
        self._names.stop()
        self._guesses.stop()
        shutil.rmtree(self.folder)

    # --- the disk ----------------------------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        return sorted((self.folder / "kv").rglob("*.kv"))

    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files())

    def has_files_of(self, session: SessionKey) -> bool:
        return (self.folder / "kv" / session_folder(session)).exists()

    def has_files_of_user(self, namespace: Namespace) -> bool:
        return (self.folder / "kv" / namespace_folder(namespace)).exists()

    def damage(self, how: str, seed: int, session: SessionKey | None = None) -> None:
        """Do something to a file, of this session if it has one, that a disk might do, or somebody who has the disk."""
        chance = random.Random(seed)
        files = self.files()
        if not files:
            return
        its_own = [path for path in files if session and path.parent == self.folder / "kv" / session_folder(session)]
        path = chance.choice(its_own or files)
        content = bytearray(path.read_bytes())
        if not content:
            return
        match how:
            case "flip":
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
                path.write_bytes(content)
            case "scramble a page":
                # All over the last page, behind the header: only the page's checksum stands in the way.
                for place in range(max(0, len(content) - PAGE_BYTES + 2), len(content), 4):
                    content[place] ^= 1 << chance.randrange(8)
                path.write_bytes(content)
            case "cut":
                path.write_bytes(content[: chance.randrange(len(content))])
            case "remove":
                path.unlink()
            case "another's content":
                # No larger one: the quota is the engine's business, and this is not its doing.
                others = [other for other in files if other.stat().st_size <= len(content)]
                path.write_bytes(chance.choice(others).read_bytes())
            case "unfinished":
                path.with_suffix(".tmp").write_bytes(content[: chance.randrange(len(content))])


def check_books(engine: Engine) -> None:
    """Everything that must hold between two steps, whatever happened before."""
    memory, scheduler = engine._memory, engine._scheduler
    scheduler.check_integrity()
    pages = list(scheduler.cache)
    memory.sessions.check_integrity(pages)
    memory.prefixes.check_integrity()
    if not scheduler.has_work:
        pool = scheduler.pool
        assert pool.num_free + pool.num_evictable == pool.num_pages, "at idle every page is cached or free"
    if not memory.tiers.has_transfers:
        memory.tiers.check_integrity(pages)
        counted = {(tier, state): count for tier, state, count in count_pages(scheduler, memory)}
        assert {place: counted.get(place, 0) for place in PLACES} == _counted_one_by_one(scheduler, pages)


PLACES = [(tier, state) for tier in ("device", "host", "disk") for state in ("prefix", "leased", "cached")]


def _counted_one_by_one(scheduler: Scheduler, pages: Sequence[CachedPage]) -> dict[tuple[str, str], int]:
    counts = dict.fromkeys(PLACES, 0)
    for page in pages:
        state = state_of(page).value
        counts["device", state] += page.device is not None and scheduler.pool.is_evictable(page.device)
        counts["host", state] += page.host is not None
        counts["disk", state] += page.disk is not None
    return counts
