"""Logs: what they say of a request, and what they never say, at the most talkative level."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar, get, post
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, JSONBody

from app.errors import Unavailable
from app.operations.logging import configure_logging, current_trace_id
from app.operations.metrics import CONTENT_TYPE, Metrics
from app.operations.requests import FailureLog, RequestLog
from app.operations.routes import metrics_exposition
from app.operations.tracing import NoTracing
from app.settings import Settings
from engine.types import EngineState, EngineStats

CANARY = "the-parrot-is-called-Ferdinand"


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


@get("/things/{name:str}", sync_to_thread=False)
def read_thing(name: FromPath[str]) -> dict[str, str | None]:
    if name == "none":
        raise NotFoundException("no such thing")
    if name == "later":
        raise Unavailable("come back later", retry_after_s=3)
    return {"trace_id": current_trace_id()}


@post("/broken", sync_to_thread=False)
def broken(data: JSONBody[dict[str, str]]) -> None:
    words = data["words"]
    raise RuntimeError(f"cannot do this with {len(words)} characters")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: EngineStats(EngineState.READY))


@pytest.fixture
def client(metrics: Metrics) -> httpx.AsyncClient:
    app = Litestar(
        [read_thing, broken, metrics_exposition],
        dependencies={"metrics": Provide(lambda: metrics, sync_to_thread=False)},
        logging_config=FailureLog(),
        openapi_config=None,
    )
    app.asgi_handler = RequestLog(app.asgi_handler, metrics, NoTracing())
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def test_a_request_is_one_line_with_method_path_status_and_duration(
    log: io.StringIO, client: httpx.AsyncClient
) -> None:
    await client.get("/things/spoon")
    (line,) = lines(log)
    assert (line["event"], line["method"], line["path"], line["status"]) == ("request", "GET", "/things/spoon", 200)
    assert line["duration_ms"] >= 0
    assert line["level"] == "info"


async def test_a_well_formed_request_id_is_taken_and_given_back_everywhere(
    log: io.StringIO, client: httpx.AsyncClient
) -> None:
    response = await client.get("/things/spoon", headers={"X-Request-Id": "from-the-proxy.42"})
    assert response.headers["x-request-id"] == "from-the-proxy.42"
    assert response.json() == {"trace_id": "from-the-proxy.42"}
    assert lines(log)[0]["trace_id"] == "from-the-proxy.42"


@pytest.mark.parametrize("malformed", ["", "a b", "x" * 65, "<script>", "id;drop", "{}"])
async def test_a_malformed_request_id_is_replaced(log: io.StringIO, client: httpx.AsyncClient, malformed: str) -> None:
    response = await client.get("/things/spoon", headers={"X-Request-Id": malformed})
    assert len(response.headers["x-request-id"]) == 32
    assert response.headers["x-request-id"] == lines(log)[0]["trace_id"]


async def test_a_path_that_finds_no_route_is_logged_and_counted_without_a_label_of_its_own(
    log: io.StringIO, client: httpx.AsyncClient
) -> None:
    await client.get("/nowhere/at%0Aall")
    assert lines(log)[0]["status"] == 404
    assert lines(log)[0]["path"] == "/nowhere/at%0Aall"
    exposition = (await client.get("/metrics")).text
    assert 'kvasir_http_requests_total{method="GET",path="(no route)",status="404"} 1.0' in exposition


async def test_counts_carry_the_routes_template_and_not_the_path(log: io.StringIO, client: httpx.AsyncClient) -> None:
    await client.get("/things/spoon")
    await client.get("/things/fork")
    response = await client.get("/metrics")
    # Exactly once: Prometheus refuses a media type with a parameter that is there twice.
    assert response.headers.get_list("content-type") == [CONTENT_TYPE]
    assert 'path="/things/{name}",status="200"} 2.0' in response.text
    assert "spoon" not in response.text


async def test_probes_of_machines_do_not_fill_the_log(log: io.StringIO, client: httpx.AsyncClient) -> None:
    await client.get("/metrics")
    assert lines(log)[0]["level"] == "debug"


async def test_a_failure_here_is_logged_with_its_traceback(log: io.StringIO, client: httpx.AsyncClient) -> None:
    response = await client.post("/broken", json={"words": CANARY})
    assert response.status_code == 500
    failure = next(line for line in lines(log) if line["event"] == "failure")
    assert "RuntimeError: cannot do this with 30 characters" in failure["exception"]
    assert failure["trace_id"] == response.headers["x-request-id"]


async def test_what_a_caller_did_wrong_is_no_failure_and_a_refusal_has_no_traceback(
    log: io.StringIO, client: httpx.AsyncClient
) -> None:
    await client.get("/things/none")
    assert [line["event"] for line in lines(log)] == ["request"]
    await client.get("/things/later")
    assert "exception" not in log.getvalue()


async def test_nothing_of_a_body_a_header_or_a_query_string_is_logged_at_debug(
    log: io.StringIO, client: httpx.AsyncClient
) -> None:
    await client.get(f"/things/spoon?ticket={CANARY}", headers={"Authorization": f"Bearer {CANARY}", "X-Note": CANARY})
    await client.post("/broken", json={"words": CANARY})
    assert len(lines(log)) == 3
    assert CANARY not in log.getvalue()


@pytest.mark.parametrize(
    "library",
    ["aiosqlite", "sqlalchemy.engine.Engine", "websockets.server", "uvicorn.error", "uvicorn.access", "httpx"],
)
def test_libraries_that_write_out_what_passes_through_them_stay_silent(log: io.StringIO, library: str) -> None:
    for level in (logging.DEBUG, logging.INFO):
        logging.getLogger(library).log(level, "passing through: %s", CANARY)
    assert log.getvalue() == ""
    logging.getLogger(library).warning("something is wrong")
    assert lines(log)[0]["event"] == "something is wrong"


def test_the_level_is_that_of_the_setting(log: io.StringIO) -> None:
    structlog.stdlib.get_logger("app.somewhere").debug("a detail", count=3)
    assert lines(log)[0]["count"] == 3
    configure_logging(Settings(log_level="warning", log_format="json"), log)
    structlog.stdlib.get_logger("app.somewhere").info("not wanted")
    assert len(lines(log)) == 1


def test_auto_is_json_where_nobody_reads_along(log: io.StringIO) -> None:
    stream = io.StringIO()
    configure_logging(Settings(log_format="auto"), stream)
    structlog.stdlib.get_logger("app.somewhere").info("hello")
    assert json.loads(stream.getvalue())["event"] == "hello"


def test_readable_logs_show_no_local_variables_of_a_failure(log: io.StringIO) -> None:
    stream = io.StringIO()
    configure_logging(Settings(log_format="console"), stream)
    said = CANARY
    try:
        raise RuntimeError(f"failed after {len(said)} characters")
    except RuntimeError:
        structlog.stdlib.get_logger("app.somewhere").exception("failure")
    assert "failed after 30 characters" in stream.getvalue()
    assert "said" not in stream.getvalue().replace("{len(said)}", "").replace("said)", "")
    assert CANARY not in stream.getvalue()
