from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.bench.machine import describe_machine
from engine.bench.protocol import ProtocolSettings, measure_engine, window_rate
from engine.bench.samples import percentile, spread
from engine.bench.token_engine import StepCounts, TokenEngine
from engine.config import EngineConfig
from engine.errors import EngineError, EngineNotReady
from tests.support.tiny_llama import write_folder

SETTINGS = ProtocolSettings(threads=1, prefill=40, steps=4, repeats=2, batches=(1, 3), contexts=(16, 48))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_folder(folder)
    return folder


def counts(*rows: tuple[int, ...]) -> list[StepCounts]:
    """Steps that each took a second."""
    return [StepCounts(float(second), row) for second, row in enumerate(rows)]


def test_a_window_begins_with_the_last_first_token_and_ends_with_the_first_last_one() -> None:
    steps = counts((1, 0), (2, 1), (3, 2), (4, 3), (4, 4))
    assert window_rate(steps, 2) == pytest.approx((3 + 4 - 2 - 1) / 2)


def test_what_happens_after_the_first_sequence_has_ended_does_not_count() -> None:
    steps = counts((1, 1), (2, 2), (3, 3), (3, 4))
    steps[-1] = StepCounts(1000.0, (4, 4))
    steps.insert(3, StepCounts(3.0, (4, 4)))
    assert window_rate(steps[:4], 3) == pytest.approx(2.0)


def test_a_window_that_is_too_short_is_no_measurement() -> None:
    with pytest.raises(EngineError, match="2 sequences decoded together for 1 steps, where 2 are measured"):
        window_rate(counts((3, 0), (4, 1), (5, 2), (5, 5)), 2)


def test_every_sequence_makes_all_its_tokens_and_each_step_is_told(folder: Path) -> None:
    config = EngineConfig(folder, "tiny", threads=1, reuse=False, kv_memory_bytes=1 << 24, speculation_tokens=0)
    engine = TokenEngine(config)
    try:
        engine.start()
        _, steps = engine.run([[5, 6, 7], [8, 9, 10, 11]], 6)
        assert steps[-1].tokens == (6, 6)
        assert [step.tokens for step in steps] == [(count, count) for count in range(1, 7)]
        assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
    finally:
        engine.stop()


def test_a_model_that_cannot_be_loaded_is_no_measurement(tmp_path: Path) -> None:
    engine = TokenEngine(EngineConfig(tmp_path / "nothing", "tiny", threads=1))
    with pytest.raises(EngineNotReady, match="does not exist"):
        engine.start()
    engine.stop()


def test_the_file_has_the_shape_of_the_peers_harness(folder: Path) -> None:
    measured: list[str] = []
    whole = measure_engine(EngineConfig(folder, "tiny"), SETTINGS, measured.append)
    assert len(measured) == SETTINGS.num_measurements == 10
    # What the harness writes, and what its own table reads back, key by key.
    assert whole.keys() == {"date", "cpu", "python", "settings", "results"}
    assert whole["cpu"].keys() == {"model", "cores", "flags"}
    assert whole["settings"].keys() == {"threads", "prefill", "steps", "repeats", "seed", "batches", "contexts"}
    (entry,) = whole["results"]
    assert entry["peer"] == "kvasir"
    assert entry["versions"]["torch"]
    assert table_cells(whole) == 1 + 4
    assert len(entry["ttft_s"]) == SETTINGS.repeats
    assert entry["prefill_tok_s"] == pytest.approx(SETTINGS.prefill / (sum(entry["ttft_s"]) / 2), rel=0.05)
    for context in ("16", "48"):
        for size in ("1", "3"):
            rates = entry["decode_all"][context][size]
            assert len(rates) == SETTINGS.repeats
            assert entry["decode_tok_s"][context][size] == pytest.approx(sum(rates) / 2)


def table_cells(whole: dict[str, Any]) -> int:
    """How the harness makes its table out of a file; the number of cells."""
    settings = whole["settings"]
    cells = [(str(context), str(size)) for context in settings["contexts"] for size in settings["batches"]]
    for entry in whole["results"]:
        numbers = [entry["prefill_tok_s"], *(entry["decode_tok_s"][context][size] for context, size in cells)]
        assert all(number > 0 for number in numbers)
        assert isinstance(entry["variant"], str)
    return 1 + len(cells)


def test_what_no_engine_of_the_comparison_could_do_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 32 sequences"):
        ProtocolSettings(batches=(33,))
    with pytest.raises(ValueError, match="1000 tokens"):
        ProtocolSettings(contexts=(990,))


def test_the_processor_is_described_by_what_decides_its_speed() -> None:
    text = "processor : 0\nmodel name\t: A fast one\nflags\t\t: fpu avx2 fma sse avx512_vnni\n"
    described = describe_machine(text)
    assert (described["model"], described["flags"]) == ("A fast one", ["avx2", "fma", "avx512_vnni"])
    assert describe_machine("")["flags"] == []


def test_spread_and_percentiles() -> None:
    assert spread([10.0, 12.0, 11.0]) == pytest.approx(2 / 11)
    assert spread([0.0]) == 0.0
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)] == [
        1,
        1,
        2,
        3,
        4,
        4,
    ]
    assert percentile([], 0.5) == 0.0
