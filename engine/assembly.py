"""Puts an engine together out of a configuration and a loaded model: sizes, tiers, books, warm-up.

Called once by the engine's thread. Everything is handed in from here; no part makes another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from engine.batch_window import BatchWindow
from engine.config import PAGE_TOKENS, EngineConfig
from engine.core import Engine
from engine.errors import EngineError
from engine.groundwork import Groundwork
from engine.kv_cache import KVCache, KVSpec
from engine.memory import Memory
from engine.memory_budget import MemoryBudget
from engine.model.loader import LoadedModel
from engine.page_keys import PageKeys
from engine.pages import PagePool
from engine.prefix_cache import PrefixCache
from engine.prefixes import DEFAULT_OPENING, Prefixes
from engine.runner import Runner
from engine.sampler import Sampler
from engine.scheduler import Scheduler
from engine.sessions import Sessions
from engine.snapshot import SessionState
from engine.thread import ReadyEngine
from engine.tiers.disk_content import FoundSession
from engine.tiers.disk_store import DiskStore, DiskUnusable
from engine.tiers.host_memory import HostMemory
from engine.tiers.record_format import RecordFormat
from engine.tiers.secret import SecretUnusable, read_or_make_secret
from engine.tiers.tiers import Tiers
from engine.tiers.transfers import Transfers

logger = logging.getLogger(__name__)


def assemble(
    config: EngineConfig,
    loaded: LoadedModel,
    *,
    clock: Callable[[], float],
    wake: Callable[[], None],
    on_progress: Callable[[str], None],
    warm_up: bool = True,
    wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> tuple[Engine, ReadyEngine]:
    """A warm engine. `wake` is called from another thread when the disk has answered. Raises EngineError."""
    on_progress("allocating the pages")
    spec, info, tokenizer = loaded.kv_spec, loaded.info, loaded.tokenizer
    num_pages = count_pages(config, spec)
    kv_cache = KVCache.for_spec(spec, num_pages)
    kv_cache.reach(0)
    runner = Runner(loaded.decoder, kv_cache, Sampler(tokenizer.vocabulary_size, tokenizer.end_token_ids))
    on_progress("reading what is kept on disk")
    disk, found = None, list[FoundSession]()
    try:
        keys = PageKeys(read_or_make_secret(config.disk_folder), info.fingerprint)
        if config.disk_folder is not None and config.disk_bytes and config.reuse:
            disk = DiskStore(
                config.disk_folder,
                fingerprint=info.fingerprint,
                root=keys.root,
                format=RecordFormat.of(spec),
                limit_bytes=config.disk_bytes,
                ttl_s=config.session_ttl_s,
                wall_clock=wall_clock,
            )
            found = disk.open()
    except (DiskUnusable, SecretUnusable) as problem:
        # KV on disk is a copy: without it everything is answered, and a restart begins cold.
        logger.warning("%s; nothing is kept on disk", problem)
        keys, disk = PageKeys(read_or_make_secret(None), info.fingerprint), None
    host = None
    if config.host_memory_bytes >= KVCache.bytes_per_page(spec) and config.reuse:
        host = HostMemory.within(spec, config.host_memory_bytes)
    cache = PrefixCache(PagePool(num_pages), keys)
    scheduler = Scheduler(
        cache,
        max_context_tokens=info.context_tokens,
        max_step_tokens=config.max_step_tokens,
        max_running=config.max_running,
        kv_reserve=config.kv_reserve,
        inter_token_target_s=config.inter_token_target_ms / 1000 or None,
        transfer_timeout_s=config.transfer_timeout_s,
        speculation_tokens=config.speculation_tokens,
    )
    tiers = Tiers(
        kv_cache,
        host,
        disk,
        Transfers(config.transfer_timeout_s, clock, wake),
        clock=clock,
        host_victims=cache.host.victims,
        prune=cache.prune,
        stored=cache.stored,
        write_behind=lambda count: memory.write_behind(count),
    )
    exist = [SessionState.DEVICE]
    exist += [SessionState.HOST] if host is not None else []
    exist += [SessionState.DISK] if disk is not None else []
    memory: Memory = Memory(
        scheduler,
        Sessions(clock, config.session_device_s, config.session_host_s, config.session_ttl_s, exist),
        Prefixes(config.prefix_memory_bytes // KVCache.bytes_per_page(spec)),
        tiers,
        clock=clock,
        reuse=config.reuse,
        save_s=config.save_s,
    )
    cache.move_with(park=tiers.park, leave_host=tiers.leave_host, forget=tiers.forget)
    if disk is not None:
        memory.adopt(found, disk.foreign_sessions)
    if warm_up:
        on_progress("warming up")
        runner.warm_up(config.max_step_tokens, config.max_running)
    batch_window = BatchWindow(config.batch_window_ms / 1000, config.max_running, config.max_step_tokens)
    groundwork = Groundwork(scheduler, memory, tokenizer.between_ids() if config.reuse else ())
    engine = Engine(scheduler, memory, runner, tokenizer, clock, batch_window, groundwork)
    if config.reuse and (opening := tokenizer.prefix_ids(())):
        engine.set_prefix(DEFAULT_OPENING, opening)
    logger.info(
        "%s is ready; the KV cache holds %d tokens, the host %d, the disk %d; beside the model they take up to %d MiB of memory",
        info.name,
        num_pages * PAGE_TOKENS,
        host.num_slots * PAGE_TOKENS if host is not None else 0,
        (config.disk_bytes // KVCache.bytes_per_page(spec)) * PAGE_TOKENS if disk is not None else 0,
        MemoryBudget.of(config, KVCache.bytes_per_page(spec)).total >> 20,
    )
    return engine, ReadyEngine(info, tokenizer, scheduler.max_sequence_tokens)


def count_pages(config: EngineConfig, spec: KVSpec) -> int:
    """Pages the configured memory holds. Raises EngineError where there is not one."""
    page_bytes = KVCache.bytes_per_page(spec)
    num_pages = config.kv_memory_bytes // page_bytes
    if num_pages < 1:
        raise EngineError(f"the KV cache has {config.kv_memory_bytes} bytes, but one page needs {page_bytes}")
    return num_pages
