"""What of earlier turns is used again by this setup, in one line: a start-up log line, and a finding of `kvasir doctor`.

A setting or a model that silently reads every conversation anew looks like a slow machine: whoever runs it has to be told.
"""

from __future__ import annotations

from app.cli.findings import Finding, good, warning
from app.settings import Settings
from engine.types import EngineStats

MIB = 1 << 20
OFF = "off"

LARGEST_PREFIX_SHARE = 0.5
"""Of the KV memory: what personas hold is not there for conversations."""


def reuse_in_force(stats: EngineStats) -> dict[str, str]:
    """What the engine really does: on or off, and the size of each tier."""
    limits = {tier: limit for tier, _, limit in stats.tier_bytes}
    return {
        "prefix_cache": "on" if stats.reuse else OFF,
        **{tier: _size(limits.get(tier, 0)) for tier in ("device", "host", "disk")},
    }


def check_reuse(settings: Settings) -> Finding:
    """Whether the settings let a conversation go on where it was."""
    if not settings.prefix_cache:
        return warning(
            "kv reuse", "off: every turn reads its whole conversation again", "Set KVASIR_PREFIX_CACHE=on to reuse it."
        )
    text = (
        f"on; memory {settings.kv_memory_mib} MiB, host {_size(settings.kv_host_mib * MIB)}, "
        f"disk {_size(settings.kv_disk_mib * MIB)}, personas up to {settings.kv_prefix_mib} MiB"
    )
    if settings.kv_prefix_mib > settings.kv_memory_mib * LARGEST_PREFIX_SHARE:
        fit = max(1, int(settings.kv_memory_mib * LARGEST_PREFIX_SHARE))
        return warning(
            "kv reuse", text, f"Set KVASIR_KV_PREFIX_MIB to {fit} or less, or conversations get little memory."
        )
    if not settings.kv_disk_mib:
        return warning("kv reuse", text, "Set KVASIR_KV_DISK_MIB, or every conversation is read again after a restart.")
    return good("kv reuse", text)


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count else OFF
