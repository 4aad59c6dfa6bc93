"""Keys and their customers share nothing: what one has said is never found for another."""

from __future__ import annotations

from pathlib import Path

from tests.app.openai.surface import Program, assistant, program_of, user
from tests.support.client import running_app
from tests.support.fake_engine import FakeEngine

QUESTION = "a question that is long enough to be worth finding again"


async def cached(program: Program, customer: str | None = None) -> int:
    body = await program.complete(QUESTION, **({} if customer is None else {"user": customer}))
    tokens: int = body["usage"]["prompt_tokens_details"]["cached_tokens"]
    return tokens


async def test_customers_of_a_key_share_nothing(program: Program) -> None:
    """C41: end customers of one key (LibreChat and others put all of them into one cache)."""
    assert await cached(program, "ann") == 0
    assert await cached(program, "ann") > 0
    assert await cached(program, "bob") == 0
    assert await cached(program) == 0
    assert await cached(program, "") == 0
    assert await cached(program, "ann/") == 0


async def test_keys_of_one_account_share_nothing(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        running_app(tmp_path, sqlite_url, engine=FakeEngine(delay_s=0)) as running,
        program_of(running, "ann", keys=2) as (one, other),
        running.signed_in("bob") as bob,
    ):
        assert await cached(one) == 0
        assert await cached(one) > 0
        assert await cached(other) == 0
        assert await cached(Program(running, bob)) == 0
        # Nobody can name another's part.
        key_id = one.engine.requests[0].namespace
        assert key_id is not None
        assert await cached(Program(running, bob), key_id.part) == 0


async def test_what_was_answered_to_one_customer_is_not_recognised_for_another(program: Program) -> None:
    answer = (await program.complete(QUESTION, user="ann"))["choices"][0]["message"]["content"]
    chat = [user(QUESTION), assistant(answer), user("and?")]
    await program.complete(chat, user="bob")
    assert program.engine.requests[-1].turns[1].token_ids is None
    await program.complete(chat, user="ann")
    assert program.engine.requests[-1].turns[1].token_ids is not None


async def test_a_session_of_the_same_name_is_each_keys_own(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        running_app(tmp_path, sqlite_url, engine=FakeEngine(delay_s=0)) as running,
        program_of(running, "ann", keys=2) as (one, other),
    ):
        headers = {"X-Kvasir-Session": "case-7"}
        await one.complete(QUESTION, headers=headers)
        found = await other.complete(QUESTION, headers=headers)
        assert found["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert len((await one.engine.snapshot()).sessions) == 2
        # They are no conversations, so people's own list does not have them, and the hourly comparison leaves them alone.
        assert (await one.http.get("/api/v1/sessions")).json()["items"] == []
        await running.context.forgetting.reconcile()
        assert len((await one.engine.snapshot()).sessions) == 2
