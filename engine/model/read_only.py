"""Memory that may be read and not written, as a tensor: a mapped file's."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch


def read_only_tensor(array: npt.NDArray[np.uint8]) -> torch.Tensor:
    """The same memory, which stays mapped as long as the tensor or a view of it lives. Writing to it ends the process."""
    with warnings.catch_warnings():
        # torch warns of an array that may not be written to; nothing writes to what this returns.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)
