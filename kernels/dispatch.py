"""Chooses the implementation of the decoder's operations, and says which one and why.

Called once when a model is loaded; the answer is printed at the start and shown to clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch

from kernels import reference


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """`operations` has the functions of `kernels.reference`; `reason` is one sentence for people."""

    name: str
    reason: str
    operations: ModuleType


def choose_kernels() -> KernelChoice:
    """The implementation to use on this machine."""
    return KernelChoice(
        name="reference",
        reason=f"plain torch {torch.__version__}, the only implementation there is; it runs everywhere",
        operations=reference,
    )
