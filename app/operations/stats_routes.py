"""`/api/v1/admin/stats` and its event stream."""

from __future__ import annotations

from functools import partial

from litestar import Response, Router, get
from litestar.di import NamedDependency

from app.accounts.identity import Identity
from app.accounts.service import AccountService
from app.clock import Now
from app.operations.stats import StatsBody, StatsFeed
from app.operations.stats_stream import StatsStream
from app.problems import problem_responses
from app.realtime.hub import Hub
from app.route_guards import admins_only
from app.settings import Settings

NO_STORE = {"Cache-Control": "no-store"}


@get("/", summary="Read the server's state", responses=problem_responses(401, 403))
async def read_stats(stats: NamedDependency[StatsFeed]) -> Response[StatsBody]:
    """For administrators: queue, running answers, tokens a second, times, hit rate, and every page; at most a second old."""
    return Response(await stats.latest(), headers=NO_STORE)


@get(
    "/events",
    summary="Follow the server's state",
    media_type="text/event-stream",
    responses=problem_responses(401, 403),
)
async def follow_stats(
    caller: NamedDependency[Identity],
    stats: NamedDependency[StatsFeed],
    hub: NamedDependency[Hub],
    accounts: NamedDependency[AccountService],
    settings: NamedDependency[Settings],
    now: NamedDependency[Now],
) -> StatsStream:
    """For administrators: the same once a second, as server-sent events `stats`."""
    return StatsStream(
        hub,
        stats.encoded,
        credential_id=caller.credential_id,
        still_holds=partial(accounts.still_holds, caller),
        expires_in_s=caller.seconds_left(now()),
        send_timeout_s=settings.send_timeout_s,
    )


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/admin/stats", route_handlers=[read_stats, follow_stats], guards=[admins_only], tags=["Administration"]
    )
