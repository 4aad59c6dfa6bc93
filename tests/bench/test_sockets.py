"""A small run of the measurement of many sockets: nothing is lost, and an idle socket is cheap. Times are for the bench."""

from __future__ import annotations

import pytest

from tests.bench.sockets import IDLE_SOCKET_MAX_BYTES, Stream, quantile, run


@pytest.mark.slow
def test_nothing_is_lost_beside_idle_sockets_and_readers_who_do_not_read() -> None:
    report = run(idle=60, streaming=10, slow=2, words=50, delay_ms=5)
    assert report.broken_streams == 0
    assert report.frames >= 10 * 3
    assert report.bytes_per_idle_socket < IDLE_SOCKET_MAX_BYTES
    assert "kB" in str(report)


def test_a_stream_with_a_gap_or_another_text_is_not_whole() -> None:
    """Else the test above could not fail."""

    def frame(seq: int, kind: str, text: str = "") -> dict[str, object]:
        return {"seq": seq, "type": kind, "data": {"text": text}}

    delta, end = "response.output_text.delta", "response.completed"
    whole = [frame(1, "response.created"), frame(2, delta, " word1"), frame(3, delta, " word2"), frame(4, end)]
    assert Stream(whole).is_whole(2)
    assert not Stream(whole).is_whole(3)
    assert not Stream([*whole[:2], *whole[3:]]).is_whole(1)
    assert not Stream(whole[:-1]).is_whole(2)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([float(number) for number in range(1, 101)], 0.99) == 99.0
    assert quantile([], 0.5) == 0.0
