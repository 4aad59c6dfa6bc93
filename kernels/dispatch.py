"""Chooses the implementation of the decoder's operations, and says which one and why.

Called once when a model is loaded; the answer is printed at the start and shown to clients.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import torch

from kernels import reference

OLDEST_CAPABILITY: Final = (8, 0)
"""Of an NVIDIA device: what Triton supports."""


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """`operations` has the functions of `kernels.reference`; `reason` is one sentence for people."""

    name: str
    reason: str
    operations: ModuleType


def choose_kernels(*, device: torch.device | None = None) -> KernelChoice:
    """The implementation to use on this machine, for tensors on `device`, which is the CPU where it is None."""
    if device is not None and device.type == "cuda":
        return choose_cuda_kernels(
            torch.cuda.get_device_name(device),
            torch.cuda.get_device_capability(device),
            has_triton=importlib.util.find_spec("triton") is not None,
        )
    return KernelChoice(
        name="reference",
        reason=f"plain torch {torch.__version__}, the only implementation there is; it runs everywhere",
        operations=reference,
    )


def choose_cuda_kernels(device_name: str, capability: tuple[int, int], *, has_triton: bool) -> KernelChoice:
    """The implementation for an NVIDIA device. Only here is triton imported, and only if it is chosen."""
    plain = f"plain torch {torch.__version__} on {device_name}"
    if not has_triton:
        return KernelChoice("reference", f"{plain}, because triton is not installed", reference)
    if capability < OLDEST_CAPABILITY:
        has, wants = (".".join(map(str, version)) for version in (capability, OLDEST_CAPABILITY))
        return KernelChoice(
            "reference", f"{plain}, because Triton wants compute capability {wants} and it has {has}", reference
        )
    return KernelChoice("triton", f"compiled by Triton for {device_name}", importlib.import_module("kernels.triton"))
