from __future__ import annotations

import pytest

from engine.config import EngineConfig
from tests.bench.batching import measure_rates
from tests.support.models import bundled_model_folder

TARGET = 3.0


@pytest.mark.slow
@pytest.mark.model
async def test_eight_streams_make_at_least_three_times_the_tokens_of_one() -> None:
    """One rate is divided by the other, so a slow machine or a busy one does not decide."""
    config = EngineConfig(bundled_model_folder(), "bundled")
    rates = await measure_rates(config, [1, 8], tokens=32, rounds=5)
    assert rates[8] >= TARGET * rates[1], rates
