"""transformers looks for a hub package called `kernels` and must not take ours for it."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_transformers_does_not_take_our_kernels_for_the_hubs() -> None:
    from transformers.utils import is_kernels_available

    assert not is_kernels_available()
