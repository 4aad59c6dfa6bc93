"""Chooses the implementation of the decoder's operations, and says which one and why.

Called once when a model is loaded; the answer is printed at the start and shown to clients.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import torch

from kernels import reference
from kernels.cpu.build import compiler, library_path
from kernels.cpu.library import CpuKernels, KernelsUnusable
from kernels.cpu.variant import AVX2, Variant, cpu_flags, variant_for

KERNEL_NAMES: Final = ("auto", "reference", "cpu")

OLDEST_CAPABILITY: Final = (8, 0)
"""Of an NVIDIA device: what Triton supports."""


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """`operations` has the functions of `kernels.reference`; `reason` is one sentence for people.

    `cpu` is there where the C++ kernels run, and is for a model whose weights have 4 or 8 bits. `buildable` is the variant that
    could run here and is not built yet.
    """

    name: str
    reason: str
    operations: ModuleType
    cpu: CpuKernels | None = None
    buildable: Variant | None = None


def choose_kernels(
    wanted: str = "auto",
    folder: Path | None = None,
    flags: Collection[str] | None = None,
    *,
    device: torch.device | None = None,
) -> KernelChoice:
    """The implementation to use on this machine. `folder` is where built kernels are kept; nothing is built here.

    `flags` are the CPU's, asked of the system where they are None. `device` is the CPU where it is None.
    """
    torch_name = f"plain torch {torch.__version__}"
    if wanted == "reference":
        return _reference(f"{torch_name}, as the settings ask for")
    if device is not None and device.type == "cuda":
        return choose_cuda_kernels(
            torch.cuda.get_device_name(device),
            torch.cuda.get_device_capability(device),
            has_triton=importlib.util.find_spec("triton") is not None,
        )
    if folder is None:
        return _reference(f"{torch_name}, which runs everywhere; no folder for compiled kernels is named")
    flags = cpu_flags() if flags is None else flags
    variant = variant_for(flags)
    if variant is None:
        missing = ", ".join(sorted(AVX2.flags - set(flags)))
        return _reference(f"{torch_name}, because this CPU lacks {missing}")
    path = library_path(folder, variant)
    if not path.is_file():
        if compiler() is None:
            return _reference(f"{torch_name}, because there is no C++ compiler to build the {variant.name} kernels")
        return _reference(f"{torch_name}, because the {variant.name} kernels are not built yet", variant)
    try:
        kernels = CpuKernels(path, variant)
    except KernelsUnusable as problem:
        return _reference(f"{torch_name}, because {problem}")
    return KernelChoice(f"cpu-{variant.name}", f"compiled for this CPU ({variant.name})", reference, kernels)


def choose_cuda_kernels(device_name: str, capability: tuple[int, int], *, has_triton: bool) -> KernelChoice:
    """The implementation for an NVIDIA device. Only here is triton imported, and only if it is chosen."""
    torch_name = f"plain torch {torch.__version__} on {device_name}"
    if not has_triton:
        return _reference(f"{torch_name}, because triton is not installed")
    if capability < OLDEST_CAPABILITY:
        has, wants = (".".join(map(str, version)) for version in (capability, OLDEST_CAPABILITY))
        return _reference(f"{torch_name}, because Triton wants compute capability {wants} and it has {has}")
    return KernelChoice("triton", f"compiled by Triton for {device_name}", importlib.import_module("kernels.triton"))


def _reference(reason: str, buildable: Variant | None = None) -> KernelChoice:
    return KernelChoice("reference", reason, reference, buildable=buildable)
