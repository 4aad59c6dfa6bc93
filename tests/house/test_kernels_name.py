"""transformers looks for a hub package called `kernels` and must not take ours for it.

It finds our package under that name and believes what the distribution's version says: between its smallest and its largest
known version it would try to load attention code from the hub.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version


@pytest.mark.slow
def test_transformers_does_not_take_our_kernels_for_the_hubs() -> None:
    from transformers.utils import is_kernels_available

    import kernels

    assert kernels.__file__ is not None
    assert not is_kernels_available()


@pytest.mark.slow
def test_our_version_stays_out_of_the_range_transformers_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import import_utils

    # An installed wheel is found under our distribution's name; a checkout is not found at all.
    monkeypatch.setattr(import_utils, "_candidate_distribution_names", lambda _package: ["kvasir-chat"])
    smallest, largest = import_utils.KERNELS_MIN_VERSION, import_utils.KERNELS_MAX_VERSION
    assert not Version(smallest) <= Version(version("kvasir-chat")) < Version(largest)
    # Arguments that no earlier call had, because the answer is remembered.
    assert not import_utils.is_kernels_available(MIN_VERSION=smallest, MAX_VERSION=f"{largest}.0")
    # The range is what decides: with our version inside it, transformers would say yes.
    assert import_utils.is_kernels_available(MIN_VERSION=smallest, MAX_VERSION="9999")
