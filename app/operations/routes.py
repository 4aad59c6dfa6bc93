"""`GET /metrics`. Open to whoever reaches the port: it holds counts, and nothing about anybody."""

from __future__ import annotations

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from app.operations.metrics import CONTENT_TYPE, Metrics


def metrics_route(metrics: Metrics) -> HTTPRouteHandler:
    """The route for one app's metrics."""

    @get("/metrics", sync_to_thread=False, include_in_schema=False)
    def metrics_exposition() -> Response[bytes]:
        # As a header: to a media type of text the framework would add a second charset, and Prometheus reads no such thing.
        return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    return metrics_exposition
