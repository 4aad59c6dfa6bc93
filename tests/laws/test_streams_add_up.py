"""Law 3: joined deltas are the decoding of all ids, whatever the answer is made of and however it ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.types import EngineEvent, Finished, FinishReason, RequestId, TextDelta
from tests.support.tiny_model import END, TinyTokenizer, reference_ids, request, tiny_engine

TOKENIZER = TinyTokenizer()

# Bytes that begin, continue and end characters, so that the answers are full of halves; and letters for the stop strings.
prompts = st.text(min_size=0, max_size=20)
stops = st.lists(
    st.one_of(st.text("abcdefgh �\u0001?", min_size=1, max_size=2), st.text(min_size=1, max_size=1)), max_size=4
)


def until_stop(text: str, stop: list[str]) -> str | None:
    """The text before the first stop string, by the naive definition; None where there is none."""
    for end in range(1, len(text) + 1):
        if found := [one for one in stop if text[:end].endswith(one)]:
            return text[: end - max(map(len, found))]
    return None


def joined(events: list[EngineEvent], name: str) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.request_id == name)


def end_of(events: list[EngineEvent], name: str) -> Finished:
    (end,) = [event for event in events if isinstance(event, Finished) and event.request_id == name]
    return end


@given(prompts, stops, st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_deltas_are_the_text_of_all_ids_up_to_the_first_stop_string(
    prompt: str, stop: list[str], max_tokens: int
) -> None:
    engine = tiny_engine()
    one = request("a", prompt, stop=tuple(stop), max_tokens=max_tokens)
    engine.submit(one, TOKENIZER.encode_turns(one.turns), 0.0)
    events: list[EngineEvent] = []
    while engine.has_work:
        events += engine.step()
    ids = reference_ids(TOKENIZER.encode_turns(one.turns), max_tokens)
    whole = TOKENIZER.decode(ids)
    stopped = until_stop(whole, stop)
    end = end_of(events, "a")
    assert joined(events, "a") == (whole if stopped is None else stopped)
    if stopped is not None:
        assert end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    else:
        assert end.reason is (FinishReason.STOP if ids[-1] == END else FinishReason.LENGTH)
        assert end.token_ids == tuple(token for token in ids if token != END)
    if end.token_ids is not None:
        assert TOKENIZER.decode(end.token_ids) == joined(events, "a")


@given(
    st.lists(st.tuples(prompts, st.sampled_from([0.0, 1.0, 2.0]), st.integers(0, 40)), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_deltas_add_up_for_random_ids_in_company_also_where_they_are_cancelled(
    asked: list[tuple[str, float, int]], seed: int
) -> None:
    engine = tiny_engine(num_pages=20, max_step_tokens=16)
    events: list[EngineEvent] = []
    for number, (prompt, temperature, _) in enumerate(asked):
        one = request(f"r{number}", prompt, temperature=temperature, seed=seed, max_tokens=40, ignore_eos=True)
        engine.submit(one, TOKENIZER.encode_turns(one.turns), 0.0)
    step = 0
    while engine.has_work:
        for number, (_, _, cancelled_at) in enumerate(asked):
            if cancelled_at == step:
                engine.cancel(RequestId(f"r{number}"))
        events += engine.step()
        step += 1
    events += engine.take_events()
    for number in range(len(asked)):
        end = end_of(events, f"r{number}")
        assert end.token_ids is not None
        assert len(end.token_ids) == end.usage.output_tokens
        assert joined(events, f"r{number}") == TOKENIZER.decode(end.token_ids)
