"""Which instructions the kernels may use: told by the flags of the CPU, given to the compiler.

Importing this module must not import torch: `kvasir doctor` asks it too.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CPU_INFO: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Variant:
    """`flags` are what Linux calls the instructions, `options` what compilers call them."""

    name: str
    flags: frozenset[str]
    options: tuple[str, ...]


AVX2: Final = Variant("avx2", frozenset(("avx2", "fma", "f16c")), ("-mavx2", "-mfma", "-mf16c"))
AVX512: Final = Variant(
    "avx512",
    AVX2.flags | {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16"},
    (
        *AVX2.options,
        *("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512bf16"),
    ),
)
VARIANTS: Final = (AVX512, AVX2)
"""The best first."""


def cpu_flags(path: Path = CPU_INFO) -> frozenset[str]:
    """What the system says of its CPU; nothing where it says nothing in this form."""
    if platform.machine() not in ("x86_64", "AMD64") or not path.is_file():
        return frozenset()
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def variant_for(flags: Collection[str]) -> Variant | None:
    """The best variant that runs on a CPU with these flags."""
    return next((variant for variant in VARIANTS if variant.flags <= set(flags)), None)
