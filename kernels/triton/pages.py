"""What the kernels need to know of pages: how they lie, and by what their numbers are multiplied where they are small.

keys, values   [pages, page_tokens, kv_heads, head_size], contiguous; as wide as the rows, or int8 or float8_e4m3fn with scales
scales         [pages, page_tokens, kv_heads] float32: of each token's key and value head, its own
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

LARGEST_QUANTISED: Final = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
"""To which the largest number of a head is scaled when it is stored."""


@dataclass(frozen=True, slots=True)
class PageScales:
    """A stored number times its head's scale is the number that was meant."""

    keys: torch.Tensor
    values: torch.Tensor


def check_pages(keys: torch.Tensor, values: torch.Tensor, scales: PageScales | None) -> None:
    """Raises ValueError where the kernels would read or write something else than was meant."""
    if keys.shape != values.shape or keys.dtype != values.dtype:
        raise ValueError(
            f"keys are {list(keys.shape)} {keys.dtype} and values {list(values.shape)} {values.dtype}: they must be alike"
        )
    if not (keys.is_contiguous() and values.is_contiguous()):
        raise ValueError(f"pages must be contiguous, and their strides are {keys.stride()} and {values.stride()}")
    if (keys.dtype in LARGEST_QUANTISED) != (scales is not None):
        wanted = "need scales" if scales is None else "have no scales"
        raise ValueError(f"pages of {keys.dtype} {wanted}")
    if scales is not None:
        for given in (scales.keys, scales.values):
            if given.shape != keys.shape[:3] or given.dtype != torch.float32 or not given.is_contiguous():
                raise ValueError(
                    f"scales must be contiguous float32 of {list(keys.shape[:3])}, and are {given.dtype} of "
                    f"{list(given.shape)}"
                )
