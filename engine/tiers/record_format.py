"""What the bytes of one page of KV consist of, so that a file can say it and another reader can check it.

Used by everything in `engine.tiers`. Pure: the precision is a name here, not torch's object.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.kv_cache import KVSpec


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A record is its `tensors` one after the other, each of `shape` in `dtype`.

    All of them are listed by name: a file that lacks one can never pass for whole (sgl-project/sglang#27504).
    """

    dtype: str
    shape: tuple[int, ...]
    tensors: tuple[str, ...]
    record_bytes: int

    @classmethod
    def of(cls, spec: KVSpec) -> RecordFormat:
        """The format of this model's pages, as `engine.kv_cache` lays them out."""
        tensors = tuple(f"{kind}.{layer}" for kind in ("keys", "values") for layer in range(spec.layers))
        tensor_bytes = math.prod(spec.page_shape) * spec.dtype.itemsize
        return cls(str(spec.dtype).removeprefix("torch."), spec.page_shape, tensors, len(tensors) * tensor_bytes)
