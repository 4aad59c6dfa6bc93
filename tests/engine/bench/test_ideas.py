from __future__ import annotations

import pytest

from engine.bench.capacity import lengths_of
from engine.bench.chats import TokenMoment, Turned, chatting
from engine.bench.comparison import Claim, Comparison
from engine.bench.growth import GrowthSettings, measure_growth
from engine.bench.ideas import IdeaSettings, measure_ideas, mixed_jobs
from engine.bench.streams import rates_of
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.types import Role, Turn
from tests.support.tiny_llama import write_folder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    folder = tmp_path_factory.mktemp("model")
    write_folder(folder, max_position_embeddings=2048)
    return EngineConfig(folder, "tiny", threads=1, kv_memory_bytes=1 << 25, host_memory_bytes=1 << 22)


def test_a_comparison_says_how_many_times_better_whichever_way_is_better() -> None:
    faster = Comparison("a", "b", "tokens/s", "off", [10.0, 11.0, 12.0], "on", [33.0], more_is_better=True)
    sooner = Comparison("a", "b", "ms", "off", [30.0], "on", [10.0], False, Claim("3 times", "3 times", True))
    assert (faster.times_better, sooner.times_better) == (pytest.approx(3.0), pytest.approx(3.0))
    assert faster.as_json()["claim"] is None
    assert faster.as_json()["without"] == {
        "name": "off",
        "median": 11.0,
        "spread": pytest.approx(2 / 11, abs=1e-3),
        "all": [10.0, 11.0, 12.0],
    }
    assert sooner.as_json()["claim"] == {"text": "3 times", "measured": "3 times", "holds": True}


def test_most_of_the_mixed_answers_are_short_and_a_few_are_long() -> None:
    jobs = mixed_jobs(IdeaSettings(answers=200))
    tokens = sorted(job.tokens for job in jobs)
    assert tokens[0] >= 2
    assert tokens[-1] <= 400
    assert tokens[-1] > 4 * tokens[100]
    assert mixed_jobs(IdeaSettings(answers=200)) == jobs
    assert sum(lengths_of(8, 1600)) == 8 * 1600


def test_the_rate_of_streams_is_that_of_the_time_in_which_all_of_them_run() -> None:
    early, late = Turned(0.0), Turned(0.0)
    early.moments = [TokenMoment(float(second), second) for second in range(1, 6)]
    late.moments = [TokenMoment(float(second), second - 2) for second in range(3, 9)]
    measured = rates_of([early, late])
    assert measured.tokens_per_s == pytest.approx((2 + 2) / 2)
    assert measured.gaps_ms == [1000.0] * 9


async def test_every_idea_is_switched_off_and_on_as_often_as_asked(config: EngineConfig) -> None:
    settings = IdeaSettings(
        repeats=2,
        answers=6,
        places=3,
        middle_tokens=4,
        most_tokens=12,
        history_tokens=400,
        persona_tokens=128,
        mean_tokens=160,
        context_tokens=512,
    )
    measured: list[str] = []
    results = await measure_ideas(config, settings, measured.append)
    assert len(measured) == settings.num_measurements
    ideas = {idea["idea"]: idea for idea in results["ideas"]}
    assert list(ideas) == ["continuous batching", "KV reuse", "persona prefix", "paging"]
    for name in ("continuous batching", "KV reuse", "persona prefix"):
        for side in ("without", "with"):
            assert len(ideas[name][side]["all"]) == 2
            assert min(ideas[name][side]["all"]) > 0
    assert "8" in ideas["KV reuse"]["claim"]["measured"]
    # Counted, not timed: the same on every machine.
    assert ideas["paging"]["without"]["all"] == [4.0]
    assert ideas["paging"]["with"]["median"] >= 8
    assert results["settings"]["history_tokens"] == 400
    assert results["kernels"] == "reference"


async def test_growth_is_measured_at_each_size(config: EngineConfig) -> None:
    settings = GrowthSettings((64, 128), (2, 4), 64, (1, 3), repeats=2)
    measured: list[str] = []
    results = await measure_growth(config, settings, measured.append)
    assert len(measured) == settings.num_measurements
    first, second = results["history"]
    assert first["prompt_tokens"] < second["prompt_tokens"]
    assert len(second["cold_ttft_ms_all"]) == len(second["warm_ttft_ms_all"]) == 2
    assert [row["streams"] for row in results["streams"]] == [1, 3]
    assert all(row["tokens_per_s"] > 0 and row["itl_p99_ms"] >= row["itl_p50_ms"] for row in results["streams"])
    assert [row["with_kv"] for row in results["sessions"]] == [2, 4]
    assert results["sessions"][0]["tokens"] < results["sessions"][1]["tokens"]


async def test_an_answer_that_cannot_be_given_ends_the_measurement(config: EngineConfig) -> None:
    async with chatting(config) as chats:
        with pytest.raises(EngineError, match="tokens"):
            await chats.ask([Turn(Role.USER, "word " * 4000)], None)
