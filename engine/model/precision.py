"""In what precision a model computes: what the setting asks for, what the kernels offer, and what this shape allows.

Called once by the loader, after the kernels are chosen and before a weight is read. A precision that is asked for and cannot be
had is a ModelError with the reason; only `auto` gives way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch

from engine.errors import ModelError
from engine.kv_cache import PageLayout
from engine.model.architecture import ModelShape
from kernels.cpu.library import CpuKernels
from kernels.cpu.probe import speedup_over_float32
from kernels.dispatch import KernelChoice

WEIGHTS_NAMES: Final = ("auto", "fp32", "bf16", "int8", "int4")
FLOAT_TYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
BITS: Final = {"int8": 8, "int4": 4}
KV_NAMES: Final = ("auto", "bf16", "int8")
KV_TYPES: Final = {"bf16": torch.bfloat16, "int8": torch.int8}

PAGE_LAYOUT: Final = 3
"""Of `kernels/cpu/rotate.h`; a page on disk outlives a version of the program."""

REGISTER_NUMBERS: Final = 16
LARGEST_HEAD: Final = 512
"""Of the compiled attention, whose pages are laid out for registers of 16 numbers."""


@dataclass(frozen=True, slots=True)
class Precision:
    """`kernels.cpu` is there exactly where the weights have 4 or 8 bits; `bits` None then leaves them the file's own.

    `dtype` is that of floating point weights, `kv_dtype` that of keys and values. `content_name` names what a page of keys and
    values depends on besides the model: two precisions with the same name can use each other's pages.
    """

    kernels: KernelChoice
    dtype: torch.dtype
    kv_dtype: torch.dtype
    content_name: str
    bits: int | None = None

    @property
    def page_layout(self) -> PageLayout:
        return PageLayout.TOKENS if self.kernels.cpu is None else PageLayout.LANES


def measured_speedup(kernels: CpuKernels) -> float:
    return speedup_over_float32(kernels, time.thread_time)


def choose_precision(
    wanted: str,
    shape: ModelShape,
    kernels: KernelChoice,
    speedup: Callable[[CpuKernels], float] = measured_speedup,
    *,
    kv_dtype: str = "auto",
) -> Precision:
    """`wanted` is the precision of the weights, `kv_dtype` that of keys and values. `speedup` says how many times as fast as
    float32 the kernels are; only `auto` asks, and never takes slower ones."""
    if wanted not in WEIGHTS_NAMES:
        raise ModelError(f"weights can be {', '.join(WEIGHTS_NAMES)}, and not {wanted!r}")
    if kv_dtype not in KV_NAMES:
        raise ModelError(f"keys and values can be {', '.join(KV_NAMES)}, and not {kv_dtype!r}")
    if wanted in FLOAT_TYPES:
        reason = f"plain torch, because weights in {wanted} are asked for"
        plain = replace(kernels, name="reference", reason=reason, cpu=None) if kernels.cpu else kernels
        return _in_floats(wanted, plain, kv_dtype)
    obstacle = _obstacle(shape) if kernels.cpu else kernels.reason
    if wanted == "auto" and obstacle is None and kernels.cpu is not None:
        times = speedup(kernels.cpu)
        kernels = replace(kernels, reason=f"{kernels.reason}, {times:.1f} times as fast as float32 on a row of 8 bits")
        if times < 1:
            obstacle = f"the compiled kernels are slower here ({times:.2f} times as fast as float32)"
    if obstacle is None:
        bits = BITS.get(wanted)
        kept = "int8" if kv_dtype == "auto" else kv_dtype
        content = f"{wanted} {kernels.name}, pages {PAGE_LAYOUT} in {kept}"
        return Precision(kernels, torch.float32, KV_TYPES[kept], content, bits)
    if wanted in BITS:
        raise ModelError(f"weights in {wanted} need the CPU kernels, which cannot be used: {obstacle}")
    # Float32 and not bfloat16: on a CPU without the instructions the smaller type is the slower one.
    plain = replace(kernels, name="reference", reason=f"plain torch, because {obstacle}", cpu=None)
    return _in_floats("fp32", plain if kernels.cpu else kernels, kv_dtype)


def _in_floats(name: str, kernels: KernelChoice, kv_dtype: str) -> Precision:
    """Keys and values are in the precision of the weights. Raises ModelError where another is asked for."""
    if kv_dtype not in ("auto", name):
        raise ModelError(
            f"keys and values in {kv_dtype} beside weights in {name} need the CPU kernels, which are not used: {kernels.reason}"
        )
    dtype = FLOAT_TYPES[name]
    return Precision(kernels, dtype, dtype, name)


def _obstacle(shape: ModelShape) -> str | None:
    """Why the compiled kernels cannot compute a model of this shape."""
    if shape.head_size % REGISTER_NUMBERS or shape.head_size > LARGEST_HEAD:
        return (
            f"its heads of {shape.head_size} numbers are not a multiple of {REGISTER_NUMBERS} up to {LARGEST_HEAD}, "
            "which the compiled attention wants"
        )
    return None
