"""Settings of the engine, as one value handed in by whoever starts it. Every size says its unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE_TOKENS = 16
"""Tokens in a page of KV. Small on purpose: only whole pages are shared, and a short system prompt should be worth it."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the local engine runs.

    `kv_memory_bytes` bounds the KV pages of all layers together. `max_step_tokens` is the token budget of one step: decodes
    first, then chunks of prefill. `max_running` bounds the sequences in a step, `max_waiting` those in the queue.
    `threads` None means one per usable core. `weights` is `auto`, `fp32`, `bf16`, `int8` or `int4`; `kv_dtype`, of keys and
    values, is `auto`, `bf16` or `int8`. `kernels` is `auto`,
    `reference` or `cpu`; compiled ones are kept in `kernels_folder`, and without one there are none. `kept_weights_folder` is
    where converted weights are kept, for the next start to map; None keeps none. Chats without a system prompt begin with
    `system_prompt`; empty, with what the model's template says by itself.

    Queue: `max_waiting_tokens` bounds the prompt tokens of the requests that wait. An idle engine may wait `batch_window_ms` for
    more requests before its first step, never for interactive ones. A step is kept short enough that running answers get a
    token every `inter_token_target_ms`; with 0 it only takes no longer than 3.5 times what its answers are used to. `kv_reserve`
    is the share of the pages that admission leaves free for running answers to grow into. In a step of answers alone each may
    have up to `speculation_tokens` guessed ahead, where that is worth its time; with 0 none is.

    Reuse: `reuse` False computes every prompt whole. Sessions leave the pages for the host's memory `session_device_s`, that
    for the disk `session_host_s`, and the disk for good `session_ttl_s` after their last turn.
    `host_memory_bytes` 0 and `disk_folder` None switch a tier off. `prefix_memory_bytes` bounds what personas' prefixes hold.
    A read or write of the disk that takes longer than `transfer_timeout_s` counts as failed. At a stop the engine spends up to
    `save_s` on writing sessions to disk.
    """

    model_path: Path
    model_name: str
    system_prompt: str = ""
    weights: str = "auto"
    kv_dtype: str = "auto"
    kernels: str = "auto"
    kernels_folder: Path | None = None
    kept_weights_folder: Path | None = None
    threads: int | None = None
    kv_memory_bytes: int = 1 << 30
    max_step_tokens: int = 256
    max_running: int = 32
    max_waiting: int = 256
    max_waiting_tokens: int = 1 << 18
    batch_window_ms: int = 0
    inter_token_target_ms: int = 0
    kv_reserve: float = 0.3
    speculation_tokens: int = 6
    reuse: bool = True
    host_memory_bytes: int = 0
    disk_folder: Path | None = None
    disk_bytes: int = 1 << 32
    prefix_memory_bytes: int = 1 << 28
    session_device_s: float = 300.0
    session_host_s: float = 1800.0
    session_ttl_s: float = 86400.0
    transfer_timeout_s: float = 10.0
    save_s: float = 10.0
