"""Structured logs on standard error: one line per event, JSON or readable, with the request's `trace_id`.

`configure_logging` is called once, by the command line, before anything else runs. Loggers of this project follow the
setting `log_level`. Those of libraries stay at WARNING whatever it says, because at lower levels they write out what passes
through them: aiosqlite and SQLAlchemy the parameters of statements, websockets the frames, uvicorn the query string with
its ticket. No log line may hold a message's text, a body, a header, a ticket or a query string.
"""

from __future__ import annotations

import logging
import sys
from typing import IO

import structlog
from structlog.typing import Processor

from app.settings import Settings
from app.terminal import takes_colours

OWN_LOGGERS = ("kvasir", "app", "engine", "kernels", "migrations")


def configure_logging(settings: Settings, stream: IO[str] | None = None) -> None:
    """Route structlog and the standard library's logging to one handler, replacing what was configured before."""
    stream = stream or sys.stderr
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_common(), processors=_rendering(as_json, stream))
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(settings.log_level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def current_trace_id() -> str | None:
    """The id of the request this code runs for, as it stands in the logs and in the header X-Request-Id."""
    trace_id = structlog.contextvars.get_contextvars().get("trace_id")
    return trace_id if isinstance(trace_id, str) else None


def _common() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering(as_json: bool, stream: IO[str]) -> list[Processor]:
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if as_json:
        # The plain traceback: the structured one would write out local variables, and with them what people said.
        return [
            remove_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    return [
        remove_meta,
        structlog.dev.ConsoleRenderer(colors=takes_colours(stream), exception_formatter=structlog.dev.plain_traceback),
    ]
