"""`GET /metrics`. Open to whoever reaches the port: it holds counts, and nothing about anybody."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency

from app.operations.metrics import CONTENT_TYPE, Metrics


@get("/metrics", sync_to_thread=False, include_in_schema=False)
def metrics_exposition(metrics: NamedDependency[Metrics]) -> Response[bytes]:
    """The metrics of this process."""
    # As a header: to a media type of text the framework would add a second charset, and Prometheus reads no such thing.
    return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})
