"""The index of pages of KV that can be used again, in every tier: found by what their tokens are and whose they are.

    tokens   [ 0 … 15 | 16 … 31 | 32 … 47 | 48 … 52 ]           looked up one by one, by key; tokens are compared on each hit
    pages    [ public | public  |  anna's | anna's, 5 tokens ]  the last one is copied, from its first token that differs on
                                                                the copy is written anew

Used by `engine.scheduler` (matching, publishing, making room) and `engine.core` (sessions, tiers), in the engine thread. It
decides; the bytes are moved by `engine.tiers` through the two callbacks. Pure: no torch, no clock.

A page belongs to one namespace. The public one is looked up and published only for pages that lie within a persona's own
prefix, so what users write never gets there. Nothing here is promised: any page may go at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from engine.cached_page import NOBODY, CachedPage, StoredPage
from engine.config import PAGE_TOKENS
from engine.errors import EngineError
from engine.eviction_order import EvictionOrder, page_retention
from engine.host_pages import HostPages
from engine.packed_tokens import PackedTokens, common_tokens, pack_tokens, part_of
from engine.page_families import PageFamilies
from engine.page_keys import PageKey, PageKeys
from engine.pages import PageId, PagePool
from engine.prefix_match import PrefixMatch
from engine.sessions import Retention, Session
from engine.types import Namespace

PUBLIC: Final = Namespace.public()

Move = Callable[[Sequence[CachedPage]], None]


class PrefixCache:
    """Owns the index, and one reference to the device page of every page in it.

    Without `move_with` there is no tier but the device.
    """

    def __init__(self, pool: PagePool, keys: PageKeys) -> None:
        self.pool = pool
        self.keys = keys
        self._park: Move = _nothing
        self._leave_host: Move = _nothing
        self._forget: Move = _nothing
        self._pages: dict[PageKey, CachedPage] = {}
        self._on_device: dict[PageId, CachedPage] = {}
        self._families = PageFamilies()
        self._uses = 0
        self._device_order = EvictionOrder(self._may_leave_device, page_retention)
        self.host = HostPages()
        self.num_unowned = 0
        """Pages that no session and no persona owns."""

    def move_with(self, *, park: Move, leave_host: Move, forget: Move) -> None:
        """Say who moves bytes. `park` is called with pages that are about to leave the device, and may give them a host slot;
        `leave_host` takes that away again; `forget` is told of pages that have left the index, with all their places."""
        self._park, self._leave_host, self._forget = park, leave_host, forget

    # --- finding -----------------------------------------------------------------------------------------------------

    def page_keys(
        self, tokens: Sequence[int], namespace: Namespace, public_tokens: int, known: list[PageKey]
    ) -> list[PageKey]:
        """Keys of all whole pages of these tokens. `known` are the first of them, and is extended."""
        start, end = len(known), len(tokens) // PAGE_TOKENS
        packed = pack_tokens(tokens[start * PAGE_TOKENS : end * PAGE_TOKENS])
        parent = known[-1] if known else self.keys.root
        for index in range(start, end):
            page_tokens = part_of(packed, (index - start) * PAGE_TOKENS, (index - start + 1) * PAGE_TOKENS)
            parent = self.keys.following(parent, namespace_of(index, namespace, public_tokens), page_tokens)
            known.append(parent)
        return known

    def match(
        self, tokens: Sequence[int], namespace: Namespace, public_tokens: int, keys: Sequence[PageKey]
    ) -> PrefixMatch:
        """The longest beginning of `tokens` that is there, in any tier. The last token is never part of it: its logits are
        wanted. Nothing changes."""
        limit = len(tokens) - 1
        packed = pack_tokens(tokens[:limit])
        pages: list[CachedPage] = []
        num_public = public_tokens // PAGE_TOKENS
        for index, key in enumerate(keys[: limit // PAGE_TOKENS]):
            page = self._pages.get(key)
            expected = part_of(packed, index * PAGE_TOKENS, (index + 1) * PAGE_TOKENS)
            whose = PUBLIC if index < num_public else namespace
            if page is None or not page.holds(whose, index, expected):
                break
            pages.append(page)
        start = len(pages) * PAGE_TOKENS
        parent = keys[len(pages) - 1] if pages else self.keys.root
        tail, best = None, (0, False, False)
        for whose, end in ((namespace, limit), (PUBLIC, min(limit, public_tokens))):
            wanted = part_of(packed, start, min(end, start + PAGE_TOKENS))
            for page in self._families.of(parent, whose, wanted) if wanted else ():
                # Of those that are alike equally far the one that is nearest.
                rank = (common_tokens(page.packed, wanted), page.device is not None, page.host is not None)
                if rank > best:
                    tail, best = page, rank
        return PrefixMatch(tuple(pages), tail, best[0])

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[CachedPage]:
        return iter(self._pages.values())

    def __contains__(self, page: CachedPage) -> bool:
        return self._pages.get(page.key) is page

    def is_on_device(self, key: PageKey) -> bool:
        """Whether the page of this key can be used as it is."""
        page = self._pages.get(key)
        return page is not None and page.device is not None

    def use(self, pages: Iterable[CachedPage]) -> None:
        """These pages were used now, together: of them the last ones leave first."""
        self._uses += 1
        for page in pages:
            page.last_used = self._uses
            if page.device is not None:
                self._device_order.add(page)
            if page.host is not None:
                self.host.add(page)

    # --- adding ------------------------------------------------------------------------------------------------------

    def publish(
        self,
        tokens: Sequence[int],
        keys: Sequence[PageKey],
        device_pages: Sequence[PageId],
        namespace: Namespace,
        public_tokens: int,
        owner: Session | None,
        indices: Iterable[int],
    ) -> None:
        """Index the whole pages `indices` of a sequence, whose KV is computed. Where one is there already, it stays."""
        published = []
        for index in indices:
            whose = namespace_of(index, namespace, public_tokens)
            page_tokens = pack_tokens(tokens[index * PAGE_TOKENS : (index + 1) * PAGE_TOKENS])
            parent = keys[index - 1] if index else self.keys.root
            page = self._add(keys[index], parent, whose, index, page_tokens)
            if page.holds(whose, index, page_tokens):
                published.append(page)
                self._settle(page, device_pages[index], owner)
        self.use(published)

    def publish_tail(
        self,
        tokens: Sequence[int],
        keys: Sequence[PageKey],
        device_pages: Sequence[PageId],
        namespace: Namespace,
        owner: Session | None,
    ) -> None:
        """Index the page after the last whole one of `tokens`, which holds the rest of them, in the namespace itself."""
        index = len(tokens) // PAGE_TOKENS
        rest = pack_tokens(tokens[index * PAGE_TOKENS :])
        if not rest:
            return
        parent = keys[index - 1] if index else self.keys.root
        for sibling in self._families.of(parent, namespace, rest):
            is_longer = len(sibling.packed) > len(rest) and sibling.packed.startswith(rest)
            if is_longer and owner in sibling.owners and sibling.device is not None:
                self.use([sibling])
                return
        page = self._add(self.keys.following(parent, namespace, rest), parent, namespace, index, rest)
        if page.holds(namespace, index, rest):
            self._settle(page, device_pages[index], owner)
            self.use([page])

    def adopt(
        self,
        key: PageKey,
        parent: PageKey,
        namespace: Namespace,
        index: int,
        packed: PackedTokens,
        stored: StoredPage,
        owner: Session,
    ) -> CachedPage:
        """Index a page that was found on disk. Raises EngineError where its key is not that of its tokens."""
        if self.keys.following(parent, namespace, packed) != key:
            raise EngineError(f"page {index} of a stored session has another key than its tokens have")
        page = self._add(key, parent, namespace, index, packed)
        if not page.holds(namespace, index, packed):
            raise EngineError(f"page {index} of a stored session has the key of another page")
        page.disk = page.disk or stored
        self._own(page, owner)
        return page

    def restored(self, page: CachedPage, device: PageId) -> None:
        """The bytes of an indexed page are in this device page too, which a sequence holds."""
        if page in self and page.device is None:
            self._place(page, device)
            self._line_up(page)

    def stored(self, page: CachedPage) -> None:
        """The bytes of an indexed page are on the disk too, so it loses nothing by leaving the host."""
        self.host.add(page)

    def own(self, pages: Iterable[CachedPage], owner: Session) -> None:
        """These pages are on the path of `owner`; public ones are everybody's and not counted."""
        for page in pages:
            if page.owners is not owner.alone and page.namespace == owner.key.namespace:
                self._own(page, owner)

    # --- removing ----------------------------------------------------------------------------------------------------

    def make_room(self, count: int) -> None:
        """Have `count` pages free, as far as there are any to evict."""
        if (wanted := count - self.pool.num_free) > 0:
            self.leave_device(list(islice(self._device_order.take(), wanted)))

    def leave_device(self, pages: Sequence[CachedPage]) -> None:
        """Give up the device pages of these; what belongs to a session is parked first. Who uses one now keeps it."""
        leaving = [page for page in pages if page.device is not None]
        parked = [page for page in leaving if page_retention(page) > Retention.NOBODY and _is_only_on_device(page)]
        # Those with another copy go first, so that the host knows which of its copies are the last ones.
        for page in leaving:
            if not _is_only_on_device(page):
                self._unplace(page)
        if parked:
            self._park(parked)
        for page in leaving:
            self._unplace(page)
        for page in parked:
            self.host.add(page)
        self.prune([*leaving, *self.host.take_named()])

    def leave_memory(self, pages: Sequence[CachedPage]) -> None:
        """Give up the places of these on device and host. What is not on disk is lost."""
        for page in pages:
            self._unplace(page)
        self._leave_host(pages)
        self.prune(pages)

    def release(self, device_pages: Sequence[PageId]) -> None:
        """A sequence gives its pages back; those that are indexed stay, as long as nobody needs the place."""
        self.pool.free(device_pages)
        self.use([self._on_device[device] for device in device_pages if device in self._on_device])

    def disown(self, owner: Session) -> list[CachedPage]:
        """`owner` is gone: the pages nobody else owns are removed, from every tier. Returns those."""
        removed = []
        for page in list(owner.pages):
            owner.pages.discard(page)
            page.owners -= owner.alone
            if not page.owners:
                self.num_unowned += 1
                removed.append(page)
            else:
                self._line_up(page)
                self.host.note_unsaved([page])
        self.remove(removed)
        self.host.unsaved.pop(owner, None)
        return removed

    def remove(self, pages: Sequence[CachedPage]) -> None:
        """Take pages out of the index and give up every place of theirs but files, which go with their session."""
        for page in pages:
            self._unplace(page)
            if self._pages.get(page.key) is page:
                del self._pages[page.key]
                self._families.discard(page)
                self.num_unowned -= not page.owners
            for owner in page.owners:
                owner.pages.discard(page)
            page.owners = NOBODY
        self._forget(pages)

    def prune(self, pages: Iterable[CachedPage]) -> None:
        """Some places of these were given up or lost: take those out of the index whose bytes are nowhere any more."""
        pages = list(pages)
        self.host.note_unsaved(pages)
        self.remove([page for page in pages if page in self and not _has_place(page)])

    def remove_unowned(self, namespace: Namespace) -> None:
        """Take the pages of a namespace out of the index that nobody owns."""
        self.remove([page for page in self if page.namespace == namespace and not page.owners])

    def remove_namespace(self, namespace: Namespace) -> None:
        """Take every page of a user out of the index, all parts of the namespace included."""
        self.remove([page for page in self if namespace.covers(page.namespace)])

    # --- books -------------------------------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raise where the index contradicts itself."""
        for key, page in self._pages.items():
            if page.key != key or not 1 <= page.num_tokens <= PAGE_TOKENS or not _has_place(page):
                raise EngineError(f"page {page.index} of a chain is indexed wrongly, or its bytes are nowhere")
            if self.keys.following(page.parent, page.namespace, page.packed) != key:
                raise EngineError(f"page {page.index} of a chain has another key than its tokens have")
            if page not in self._families.of_page(page):
                raise EngineError(f"page {page.index} of a chain is not in its family")
            for owner in page.owners:
                if page not in owner.pages or owner.key.namespace != page.namespace:
                    raise EngineError(f"page {page.index} of a chain has an owner that does not know it")
        if any(page.device != device or page not in self for device, page in self._on_device.items()):
            raise EngineError("a device page is in the books of a page that is elsewhere")
        self._device_order.check_integrity(self._on_device.values())
        self.host.check_integrity(self)
        if len(self._families) != len(self._pages):
            raise EngineError("a family holds a page that is not indexed")
        if self.num_unowned != sum(not page.owners for page in self):
            raise EngineError(f"{self.num_unowned} pages are counted as nobody's, and that is not how many there are")

    def device_pages(self) -> Iterator[PageId]:
        """The device pages that the cache holds a reference to."""
        return iter(self._on_device)

    def on_device(self, device: PageId) -> CachedPage | None:
        """What is known of a device page."""
        return self._on_device.get(device)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _add(self, key: PageKey, parent: PageKey, namespace: Namespace, index: int, packed: PackedTokens) -> CachedPage:
        page = self._pages.get(key)
        if page is None:
            # One key is one object, wherever it came from.
            before = self._pages.get(parent)
            parent = before.key if before is not None else parent
            page = self._pages[key] = CachedPage(key, parent, namespace, index, packed)
            self._families.add(page)
            self.num_unowned += 1
        return page

    def _settle(self, page: CachedPage, device: PageId, owner: Session | None) -> None:
        """A sequence holds `device` with the bytes of `page`, and `owner` has it on its path."""
        if page.device is None:
            self._place(page, device)
        if owner is not None and owner.key.namespace == page.namespace:
            self._own(page, owner)
        # A shorter one of the same owners is of no use beside it: every match of the one is a match of the other.
        superseded = [
            sibling
            for sibling in self._families.of_page(page)
            if len(sibling.packed) < len(page.packed)
            and page.packed.startswith(sibling.packed)
            and sibling.owners <= page.owners
        ]
        if superseded:
            self.remove(superseded)

    def _place(self, page: CachedPage, device: PageId) -> None:
        self.pool.keep(device)
        page.device = device
        self._on_device[device] = page
        self.host.add(page)

    def _unplace(self, page: CachedPage) -> None:
        if page.device is not None:
            device, page.device = page.device, None
            del self._on_device[device]
            self.pool.give_up(device)

    def _own(self, page: CachedPage, owner: Session) -> None:
        if owner not in page.owners:
            self.num_unowned -= not page.owners
            page.owners = page.owners | owner.alone if page.owners else owner.alone
            owner.pages.add(page)

    def _line_up(self, page: CachedPage) -> None:
        self._device_order.add(page)
        self.host.add(page)

    def _may_leave_device(self, page: CachedPage) -> bool:
        return page.device is not None and self.pool.is_evictable(page.device)


def _nothing(pages: Sequence[CachedPage]) -> None:
    """There is no tier below the device."""


def namespace_of(index: int, namespace: Namespace, public_tokens: int) -> Namespace:
    """Whose the `index`-th page of a chain is whose first `public_tokens` tokens are a persona's."""
    return PUBLIC if (index + 1) * PAGE_TOKENS <= public_tokens else namespace


def _has_place(page: CachedPage) -> bool:
    return page.device is not None or page.host is not None or page.disk is not None


def _is_only_on_device(page: CachedPage) -> bool:
    return page.host is None and page.disk is None
