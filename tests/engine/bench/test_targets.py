from __future__ import annotations

from typing import Any

import pytest

from engine.bench.targets import PREFILL, TARGETS, Cell, Target, engines_of, outcomes


def file_of(*entries: dict[str, Any], prefill: int = 500) -> dict[str, Any]:
    return {"settings": {"prefill": prefill}, "results": list(entries)}


def entry(peer: str, variant: str, rates: dict[str, dict[str, list[float]]], ttft_s: list[float]) -> dict[str, Any]:
    return {"peer": peer, "variant": variant, "versions": {"torch": "2"}, "ttft_s": ttft_s, "decode_all": rates}


def test_repeats_of_one_engine_in_several_files_are_joined() -> None:
    first = file_of(entry("kvasir", "int4", {"16": {"1": [100.0]}}, [0.5]))
    second = file_of(entry("kvasir", "int4", {"16": {"1": [120.0, 140.0]}}, [0.25]))
    (engine,) = engines_of([first, second])
    assert engine.rate(Cell("16", "1")) == 120.0
    assert engine.rate(Cell(PREFILL)) == pytest.approx((1000 + 2000) / 2)
    assert engine.spread(Cell("16", "1")) == pytest.approx(40 / 120)
    assert engine.rate(Cell("512", "1")) is None


def test_we_come_first_and_what_failed_is_left_out() -> None:
    files = [
        file_of(entry("vllm", "bf16", {}, [1.0]), {"peer": "openvino", "variant": "int8", "error": "exit 1"}),
        file_of(entry("kvasir", "int4", {}, [1.0])),
    ]
    assert [engine.name for engine in engines_of(files)] == ["kvasir int4", "vllm bf16"]


def test_a_target_is_judged_by_the_one_it_names_or_by_the_best() -> None:
    engines = engines_of(
        [
            file_of(entry("kvasir", "int4", {"16": {"1": [200.0]}, "512": {"8": [900.0]}}, [0.25])),
            file_of(entry("kvasir", "int8", {"16": {"1": [220.0]}}, [0.3])),
            file_of(entry("llama.cpp", "Q4_0", {"16": {"1": [190.0]}, "512": {"8": [255.0]}}, [0.5])),
            file_of(entry("openvino", "int8", {"16": {"1": [90.0]}, "512": {"8": [340.0]}}, [0.3])),
        ]
    )
    found = {(one.target.work, one.target.ratio): one for one in outcomes(engines)}
    assert not found["decode, 1 stream", 1.2].holds
    assert found["decode, 1 stream", 1.2].ratio == pytest.approx(220 / 190)
    assert found["decode, 1 stream", 2.3].holds
    best = found["decode at 512 tokens, 8 streams", 1.7]
    assert (best.than, best.ours, best.theirs, best.holds) == ("openvino int8", 900.0, 340.0, True)
    assert found["prefill", 1.4].ratio == pytest.approx(2000 / (500 / 0.3))
    # What was not measured is not judged.
    assert ("decode, 8 streams", 2.0) not in found


def test_a_target_that_is_just_met_holds() -> None:
    engines = engines_of([file_of(entry("kvasir", "x", {}, [0.5])), file_of(entry("other", "y", {}, [1.0]))])
    (found,) = outcomes(engines, [Target("prefill", Cell(PREFILL), 2.0)])
    assert found.holds
    assert len(TARGETS) == 9


def test_what_is_no_file_of_results_is_refused() -> None:
    with pytest.raises(KeyError):
        engines_of([{"results": []}])
    with pytest.raises(TypeError):
        engines_of([file_of(entry("kvasir", "int4", {"16": {"1": [None]}}, [1.0]))])  # type: ignore[list-item]
