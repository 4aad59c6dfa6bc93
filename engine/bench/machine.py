"""What a measurement was taken on: processor and versions, in the words of the peers' harness, so that files can be joined.

Called by whoever writes a result. Reads what the system says of itself and changes nothing.
"""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

DISTRIBUTION: Final = "kvasir-chat"
REPORTED: Final = (DISTRIBUTION, "torch", "numpy", "tokenizers")
FLAG_FAMILIES: Final = ("avx", "amx", "fma", "f16c", "gfni")
CPUINFO: Final = Path("/proc/cpuinfo")


def describe_machine(cpuinfo: str | None = None) -> dict[str, Any]:
    """Model, cores, and those flags that decide how fast a model computes."""
    if cpuinfo is None:
        cpuinfo = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    flags = [flag for flag in _field(cpuinfo, "flags").split() if flag.startswith(FLAG_FAMILIES)]
    return {"model": _field(cpuinfo, "model name") or platform.processor(), "cores": os.cpu_count(), "flags": flags}


def describe_versions() -> dict[str, str]:
    """Of ourselves and of what computes; one that is not installed is left out."""
    found = {}
    for name in REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_run() -> dict[str, Any]:
    """What stands at the head of every file of results."""
    return {"date": time.strftime("%Y-%m-%d"), "cpu": describe_machine(), "python": platform.python_version()}


def resident_bytes() -> int:
    """What this process has in memory now."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def _field(cpuinfo: str, key: str) -> str:
    lines = (line for line in cpuinfo.splitlines() if line.startswith(key))
    return next((line.partition(":")[2].strip() for line in lines), "")
