"""Everything the engine remembers between turns: which KV is kept, for whom, in which tier, and when it moves on.

Used by `engine.core`, in the engine thread. It joins the pure books (`prefix_cache`, `sessions`, `prefixes`) with the tiers that
hold the bytes. Nothing in here may fail an answer: what cannot be kept or found again is computed again.

    turn taken → lease begins → admitted: pages shared, copied, brought from host or disk → … → turn ends: pages published
    idle → reaper: device → host → disk → gone          dropped: gone from every tier, files included
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from typing import Final

from engine.cached_page import CachedPage
from engine.config import PAGE_TOKENS
from engine.errors import EngineError
from engine.misses import Departure
from engine.packed_tokens import count_tokens, pack_tokens
from engine.prefixes import Prefix, Prefixes
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.session import Retention, Session
from engine.sessions import Demotion, Sessions
from engine.snapshot import PrefixState, PrefixStatus, SessionState
from engine.step_size import StepLoad
from engine.tiers.disk_content import FoundSession
from engine.tiers.restores import Restore, RestoreItem
from engine.tiers.tiers import Tiers
from engine.types import CachedFrom, GenerationRequest, Namespace, NamespaceKind, SessionKey

logger = logging.getLogger(__name__)

PARKED_PAGES_PER_STEP: Final = 40
"""Pages of idle sessions that one step brings to the host: some ten to thirty milliseconds."""

RESTORED_BYTES_PER_STEP: Final = 32 << 20
"""What one step copies back while answers are running: some ten milliseconds, which nobody notices between two tokens."""


class Memory:
    """Owns the leases and what moves between tiers; the scheduler owns who holds pages now."""

    def __init__(
        self,
        scheduler: Scheduler,
        sessions: Sessions,
        prefixes: Prefixes,
        tiers: Tiers,
        *,
        clock: Callable[[], float],
        reuse: bool = True,
        save_s: float = 0.0,
    ) -> None:
        self.sessions = sessions
        self.prefixes = prefixes
        self.tiers = tiers
        self.reuse = reuse
        self._scheduler = scheduler
        self._cache = scheduler.cache
        scheduler.worth_fetching = self._is_worth_fetching
        self._clock = clock
        self._save_s = save_s
        self._restores: dict[Sequence, Restore] = {}
        self._parking: deque[tuple[Session, Callable[[], None]]] = deque()
        """Sessions on their way to the host, and whom to tell when they are there."""
        self._storing: dict[SessionKey, list[Callable[[], None]]] = {}
        """Sessions on their way to the disk, and whom to tell when they are there."""
        self._from_disk: set[Sequence] = set()
        self._found_prefixes: dict[str, FoundSession] = {}
        self.queried_tokens = 0
        self.hit_tokens = CachedFrom()
        self.num_expired = 0

    # --- turns -------------------------------------------------------------------------------------------------------

    def begin_turn(self, sequence: Sequence, request: GenerationRequest) -> None:
        """Say whose KV the sequence may use, and begin its session's turn."""
        if not self.reuse:
            return
        sequence.namespace = request.namespace
        if request.namespace is not None:
            sequence.public_tokens = self.prefixes.public_tokens(request.persona, sequence.tokens)
            self.prefixes.use(request.persona or "")
        if (key := request.session_key) is not None:
            session = sequence.session = self.sessions.begin(key, request.priority)
            # The very object that its pages have: it is compared with theirs, page by page.
            sequence.namespace = session.key.namespace
            sequence.page_keys = session.known_keys(sequence.tokens, sequence.public_tokens)

    def give_up_turn(self, sequence: Sequence) -> None:
        """The sequence could not be queued."""
        if sequence.session is not None:
            self.sessions.end(sequence.session)

    def count_hits(self, sequence: Sequence) -> None:
        """Once per request, when its first tokens are about to be computed."""
        found, before = sequence.cached_from or CachedFrom(), self.hit_tokens
        self.queried_tokens += sequence.num_prompt_tokens
        self.hit_tokens = CachedFrom(
            before.device + found.device,
            before.host + found.host,
            before.disk + found.disk,
            before.prefix + found.prefix,
        )
        key = sequence.session.key if sequence.session is not None else None
        prompt = sequence.tokens[: sequence.num_prompt_tokens]
        self.sessions.record_miss(key, prompt, found.total, disabled=not self.reuse)

    def end_turn(self, sequence: Sequence, keep_tokens: int | None, ttft_ms: float | None) -> None:
        """The sequence ends; the KV of its first `keep_tokens` tokens is kept, as far as it is there. With None it is not to
        be trusted, and nothing that it computed is kept."""
        session = sequence.session
        committed = sequence.tokens[: min(keep_tokens or 0, sequence.num_computed)]
        self.leave(sequence, keep_tokens)
        if session is not None:
            if committed:
                cached = sequence.cached_from or CachedFrom()
                self.sessions.commit(session, committed, cached.total, ttft_ms)
                if len(committed) == session.num_tokens:
                    session.page_keys = sequence.page_keys[: len(committed) // PAGE_TOKENS]
                    session.public_tokens = sequence.public_tokens
            self.sessions.end(session)
        if sequence.public_tokens and not self.prefixes.is_public(sequence.tokens[: sequence.public_tokens]):
            # Its persona was dropped or replaced while it ran, and what it had published of that is nobody's.
            self._cache.remove_unowned(Namespace.public())

    def leave(self, sequence: Sequence, keep_tokens: int | None) -> None:
        """Take a sequence out of the engine, wherever it is in it."""
        self._from_disk.discard(sequence)
        if (restore := self._restores.pop(sequence, None)) is not None:
            self.tiers.abandon(restore)
        self._scheduler.remove(sequence, keep_tokens)

    # --- one step ----------------------------------------------------------------------------------------------------

    def admit(self, now: float) -> bool:
        """Let waiting sequences in, and bring on what others wait for. Whether anything changed."""
        admissions = self._scheduler.admit(now)
        for admission in admissions:
            if admission.missing:
                items = [RestoreItem(item.source, item.target) for item in admission.missing]
                self._restores[admission.sequence] = self.tiers.begin_restore(items)
                if any(item.source.device is None and item.source.host is None for item in items):
                    self._from_disk.add(admission.sequence)
        if not self._restores:
            return bool(admissions)
        done_before = sum(restore.done_pages for restore in self._restores.values())
        ended = set(self.tiers.work(RESTORED_BYTES_PER_STEP if self._scheduler.running else None))
        done = sum(restore.done_pages for restore in self._restores.values())
        for sequence, restore in list(self._restores.items()):
            if restore in ended:
                del self._restores[sequence]
                self._scheduler.restored(sequence, restore.done_pages)
        return bool(admissions or ended or done > done_before)

    def tend(self) -> None:
        """What is due: transfers that have ended, and sessions that have been idle long enough."""
        for key in self.tiers.poll():
            self._stored(key)
        for demotion in self.sessions.due():
            self.num_expired += demotion.to is None
            self._demote(demotion, Departure.EXPIRED, _nobody)
        self._park_some()
        self.let_go(self.prefixes.lost())

    def next_due(self) -> float | None:
        """When `tend` has something to do by itself."""
        if self._parking:
            return self._clock()
        times = (self.sessions.next_due(), self.tiers.next_deadline())
        return min((time for time in times if time is not None), default=None)

    # --- leaving -----------------------------------------------------------------------------------------------------

    def evict(self, key: SessionKey, on_done: Callable[[bool], None]) -> None:
        """Move a session one tier down now; true when it is there, false where it cannot."""
        session = self.sessions.get(key)
        demotion = self.sessions.evict(session) if session is not None else None
        if demotion is None:
            on_done(False)
        else:
            self._demote(demotion, Departure.EVICTED, lambda: on_done(True))

    def drop(self, session: Session, reason: Departure, on_gone: Callable[[bool], None]) -> None:
        """Forget a session in every tier; true when no file of it is left, false where the disk does not answer."""
        self._cache.disown(session)
        self.sessions.remove(session, reason)
        self.tiers.delete_session(session.key, on_gone)

    def drop_session(self, key: SessionKey, on_gone: Callable[[bool], None]) -> None:
        """The same by its key. Files that another model left are deleted also where no session is known."""
        session = self.sessions.get(key)
        if session is not None:
            self.drop(session, Departure.DROPPED, on_gone)
        else:
            self.tiers.delete_session(key, on_gone)

    def drop_namespace(self, namespace: Namespace, on_gone: Callable[[bool], None]) -> None:
        """Forget everything of a user."""
        for session in self.sessions.within(namespace):
            self._cache.disown(session)
            self.sessions.remove(session, Departure.DROPPED)
        self._cache.remove_namespace(namespace)
        self.tiers.delete_namespace(namespace, on_gone)

    def let_go(self, owners: Iterable[Session], *, files_too: bool = True) -> None:
        """Prefixes that are not kept any more give up their pages."""
        for owner in owners:
            self._cache.disown(owner)
            if files_too:
                self.tiers.delete_session(owner.key, _nobody_cares)

    def store(self, owner: Session) -> None:
        """Write to disk what is not there yet."""
        self.tiers.store(owner.key, sorted(owner.pages, key=_by_index))

    def save_and_close(self) -> None:
        """The engine ends: personas' prefixes and sessions go to disk, those used last first, as far as there is time."""
        owners = [prefix.owner for prefix in self.prefixes]
        owners += sorted(self.sessions, key=lambda session: -session.last_turn_at)
        self.tiers.save(
            ((owner.key, sorted(owner.pages, key=_by_index)) for owner in owners), self._clock() + self._save_s
        )
        self.tiers.close()

    def adopt(self, found: Iterable[FoundSession], foreign: Mapping[SessionKey, int]) -> None:
        """Take in what a restart finds on disk. Personas' prefixes wait until they are registered again."""
        for session in found:
            if session.key.namespace.kind is NamespaceKind.PUBLIC:
                self._found_prefixes[session.key.name] = session
            else:
                reach = (page.content.index * PAGE_TOKENS + count_tokens(page.content.packed) for page in session.pages)
                owner = self.sessions.restore(session.key, max(reach), session.idle_s)
                self._adopt_pages(session, owner)
        for key, tokens in foreign.items():
            self.sessions.misses.depart(key, Departure.VERSION, tokens)

    def set_prefix(self, name: str, ids: Items[int]) -> None:
        """Register a prefix; what is on disk of exactly these ids is taken from there."""
        self.let_go(self.prefixes.register(name, ids))
        self._cache.remove_unowned(Namespace.public())
        found, prefix = self._found_prefixes.pop(name, None), self.prefixes.get(name)
        if found is None or prefix is None:
            return
        packed = {page.content.index: page.content.packed for page in found.pages}
        if b"".join(packed[index] for index in sorted(packed)) == pack_tokens(prefix.ids):
            self._adopt_pages(found, prefix.owner)
        else:
            self.tiers.delete_session(found.key, _nobody_cares)

    def end_prefix(self, prefix: Prefix, sequence: Sequence, *, is_built: bool) -> None:
        """The sequence that computed or loaded a prefix ends."""
        from_disk = sequence in self._from_disk
        self._from_disk.discard(sequence)
        self.leave(sequence, len(prefix.ids) if is_built else None)
        if not is_built:
            self.let_go(self.prefixes.failed(prefix))
        elif self.prefixes.built(prefix, "disk" if from_disk else "computed"):
            self.store(prefix.owner)
        else:
            self.let_go([prefix.owner])

    def unclaimed_prefixes(self) -> Iterator[PrefixStatus]:
        """Prefixes on disk that nobody has registered since the start: of personas that are gone, unless they still come."""
        for name, found in self._found_prefixes.items():
            tokens = sum(count_tokens(page.content.packed) for page in found.pages)
            yield PrefixStatus(name, PrefixState.COLD, tokens, len(found.pages), "disk")

    def drop_prefix(self, name: str, on_gone: Callable[[bool], None]) -> None:
        """Forget a prefix in every tier."""
        self.let_go(self.prefixes.drop(name), files_too=False)
        self._cache.remove_unowned(Namespace.public())
        self._found_prefixes.pop(name, None)
        self.tiers.delete_session(SessionKey(Namespace.public(), name), on_gone)

    def _adopt_pages(self, found: FoundSession, owner: Session) -> None:
        for content, stored in found.pages:
            try:
                page = self._cache.adopt(
                    content.key, content.parent, owner.key.namespace, content.index, content.packed, stored, owner
                )
            except EngineError as problem:
                logger.warning("a page on disk is left alone: %s", problem)
            else:
                self.tiers.adopt(page)

    def write_behind(self, count: int) -> Iterator[tuple[SessionKey, list[CachedPage]]]:
        """About so many pages of the host that are not on disk, of sessions whose went there longest ago first."""
        unsaved, again = self._cache.host.unsaved, list[Session]()
        while unsaved and count > 0:
            session = next(iter(unsaved))
            del unsaved[session]
            pages = [page for page in session.pages if page.host is not None and page.disk is None]
            if not pages or session.retention is Retention.PREFIX:
                continue
            # Asked again in any case: writing may fail, and one that is being answered now is idle later.
            again.append(session)
            if session.state is not SessionState.ACTIVE:
                count -= len(pages)
                yield session.key, sorted(pages, key=_by_index)
        unsaved.update(dict.fromkeys(again))

    def _is_worth_fetching(self, pages: Items[CachedPage]) -> bool:
        """Whether these neighbours are brought back sooner than computed, by what both have taken so far."""
        num_tokens = sum(page.num_tokens for page in pages)
        load = StepLoad().with_prompt(num_tokens, pages[0].index * PAGE_TOKENS)
        step_size = self._scheduler.step_size
        seconds = step_size.seconds(load) if step_size.knows_prompts else 0.0
        return self.tiers.worth_fetching(pages, num_tokens / seconds if seconds > 0 else None)

    def _demote(self, demotion: Demotion, reason: Departure, on_done: Callable[[], None]) -> None:
        session, to = demotion
        if to is None:
            self.drop(session, reason, lambda _: on_done())
        elif to is SessionState.HOST:
            self._parking.append((session, on_done))
        else:
            waiting = self._storing.setdefault(session.key, [])
            waiting.append(on_done)
            if len(waiting) == 1:
                self.store(session)

    def _park_some(self) -> None:
        """Bring idle sessions to the host, a part of their pages in each step: memory never used before is slow to write."""
        left = PARKED_PAGES_PER_STEP
        while self._parking and left > 0:
            session, on_done = self._parking[0]
            is_leaving = session.is_leaving and session.leaving_to is SessionState.HOST
            pages = [page for page in session.pages_leaving(SessionState.HOST) if page.device is not None]
            if is_leaving and len(pages) > left:
                # From the end, so that what is left is a beginning that can be used.
                self._cache.leave_device(sorted(pages, key=_by_index)[-left:])
                return
            if is_leaving:
                self._cache.leave_device(pages)
                self.sessions.demoted(session, SessionState.HOST)
                left -= len(pages)
            self._parking.popleft()
            on_done()

    def _stored(self, key: SessionKey) -> None:
        """What of a session could be written is on disk: if it was to go there, it gives up its other places."""
        waiting = self._storing.pop(key, [])
        session = self.sessions.get(key)
        if session is not None and waiting and self.sessions.demoted(session, SessionState.DISK):
            self._cache.leave_memory(session.pages_leaving(SessionState.DISK))
        for tell in waiting:
            tell()


def _by_index(page: CachedPage) -> int:
    return page.index


def _nobody() -> None:
    """Nobody asked for it, so nobody is told."""


def _nobody_cares(_: bool) -> None:
    """The same, where the outcome is told."""
