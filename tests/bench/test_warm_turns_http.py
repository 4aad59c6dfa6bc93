from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.warm_turns_http import SEGMENTS, measure, table
from tests.support.tiny_llama import write_folder


@pytest.mark.slow
def test_turns_through_http_are_told_apart_and_say_the_same(tmp_path: Path) -> None:
    """With a model so small that its times say nothing: every clock is read, and texts and reuse are as they have to be."""
    write_folder(tmp_path / "model", max_position_embeddings=2048)
    settings = {"KVASIR_MODEL": str(tmp_path / "model"), "KVASIR_KERNELS": "reference", "KVASIR_KV_MEMORY_MIB": "32"}
    result = measure(
        tmp_path,
        history_tokens=60,
        persona_tokens=20,
        rounds=1,
        restarts=1,
        settings={**settings, "KVASIR_THREADS": "1"},
        report=lambda line: None,
    )
    assert result.same_text
    kinds = ["history read", "first turn", "next turn", "persona", "next turn, restarted", "persona, restarted"]
    assert list(result.rows) == kinds
    for row in result.rows.values():
        assert sum(row[name] for name in SEGMENTS) == pytest.approx(row["ttft"])
        assert min(row.values()) >= 0
    assert result.rows["next turn"]["cached"] > result.rows["history read"]["input"]
    assert result.rows["persona"]["cached"] > 20
    assert len(table(result)) == 2 + len(kinds) + 1
