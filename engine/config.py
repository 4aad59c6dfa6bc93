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
    `threads` None means one per usable core. `weights` is `auto`, `fp32` or `bf16`.
    """

    model_path: Path
    model_name: str
    weights: str = "auto"
    threads: int | None = None
    kv_memory_bytes: int = 1 << 30
    max_step_tokens: int = 256
    max_running: int = 32
    max_waiting: int = 256
