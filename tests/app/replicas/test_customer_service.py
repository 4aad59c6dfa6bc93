"""Customer service on two servers: an agent at one of them, the person and the answer at the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.accounts.models import UserRole
from tests.app.replicas.deployment import deployed
from tests.app.service.desk import Agent
from tests.app.service.test_sockets import inbox_events, next_of
from tests.support.fake_engine import FakeEngine
from tests.support.live_server import eventually_equal
from tests.support.redis_server import RedisServer
from tests.support.scripts import ENDLESS

pytestmark = pytest.mark.postgres


async def test_a_take_over_on_the_other_server_stops_the_answer_and_holds_its_session(
    tmp_path: Path, postgres_url: str, redis_server: RedisServer
) -> None:
    engines = [FakeEngine(delay_s=0.002, answer=lambda request: ENDLESS) for _ in range(2)]
    async with (
        deployed(tmp_path, postgres_url, redis_server.url, engines=engines) as pair,
        pair.also("agnes", UserRole.AGENT) as agents,
        pair.people[0].socket() as socket,
        inbox_events(agents[1]) as events,
    ):
        here = pair.people[0]
        conversation_id = await here.conversation()
        await socket.ask("conversation.subscribe", conversation_id=conversation_id)
        said = await socket.say(conversation_id, "hello")
        await socket.text_arrives(said["response_id"], 3)
        await socket.ask("handoff.request", conversation_id=conversation_id)
        assert (await next_of(events, "conversation.status_changed"))["state"] == "queued"
        both = await asyncio.gather(*(Agent(agent.http, "agnes").tries("take", conversation_id) for agent in agents))
        assert {answer.status_code for answer in both} == {200}
        assert (await socket.end_of(said["response_id"]))["type"] == "response.cancelled"

        async def is_held() -> bool:
            (status,) = (await engines[0].snapshot()).sessions
            return status.seconds_to_timeout is None

        await eventually_equal(is_held, True)
        await Agent(agents[1].http, "agnes").says(conversation_id, "I am here.")
        shown = await socket.until(lambda frame: frame["type"] == "message.created")
        assert shown["data"]["message"]["content"] == "I am here."
        assert (await socket.say(conversation_id, "thank you"))["response"] is None
        await Agent(agents[1].http, "agnes").does("return", conversation_id)
        await eventually_equal(is_held, False)
    redis_server.empty()
