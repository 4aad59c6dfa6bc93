"""`/schema` and `/schema/asyncapi` (pages for people), `/schema/openapi.json` and `/schema/asyncapi.json` (the documents), made
from the routes and the frame types themselves, and shown without any host but ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from litestar import MediaType, Request, Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute

from app.accounts.authentication import COOKIE
from app.asyncapi import asyncapi_document
from app.errors import NotFound
from app.web import PAGE_HEADERS

API_VERSION = "1"
"""The `v1` of the paths. It changes when a client would have to."""

VIEWER_PAGE = "schema.html"

PATHS = {"/schema", "/schema/openapi.json", "/schema/asyncapi", "/schema/asyncapi.json"}


class ExactDocument(JsonRenderPlugin):
    """The document as JSON. The framework's reading of request bodies leaves out that further fields are refused and what holds
    for the items of a list, so those bodies are described by msgspec, which also checks them."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        types = {struct for route in request.app.routes if isinstance(route, HTTPRoute) for struct in _bodies(route)}
        ordered = sorted(types, key=lambda struct: struct.__name__)
        _, exact = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
        components = {**openapi_schema["components"]}
        components["schemas"] = {**components["schemas"], **exact}
        return super().render(request, {**openapi_schema, "components": components})


class SocketDocument(OpenAPIRenderPlugin):
    """The socket, described in AsyncAPI, for the address that it is asked at."""

    def __init__(self) -> None:
        super().__init__(path="/asyncapi.json", media_type=MediaType.JSON)

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        url = request.base_url
        return msgspec.json.encode(asyncapi_document(API_VERSION, url.netloc, is_secure=url.scheme == "https"))


class Viewer(OpenAPIRenderPlugin):
    """The page that shows either document to people: a file of `web/`, which fetches the document from here."""

    def __init__(self, web_folder: Path) -> None:
        super().__init__(path=["/", "/asyncapi"])
        page = web_folder / VIEWER_PAGE
        self._page = page.read_bytes() if page.is_file() else None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        if self._page is None:
            raise NotFound("this installation came without its pages; the documents are there")
        return self._page


def _bodies(route: HTTPRoute) -> Iterator[type[msgspec.Struct]]:
    for handler in route.route_handlers:
        body = handler.parsed_fn_signature.parameters.get("data")
        if body is not None and handler.resolve_include_in_schema() and issubclass(body.annotation, msgspec.Struct):
            yield body.annotation


def _known_only(request: Request[Any, Any, Any]) -> None:
    # The framework answers an unknown path below /schema with a page of its own.
    if request.scope["path"] not in PATHS:
        raise NotFound("there is no such resource")


def openapi_config(web_folder: Path) -> OpenAPIConfig:
    """What the document says beside the routes, for one application."""
    return OpenAPIConfig(
        title="Kvasir",
        version=API_VERSION,
        description=(
            "The REST API of a Kvasir server. Every error is application/problem+json, and below /v1 what OpenAI's clients"
            " expect. Somebody else's id is answered like one that does not exist: 404. A cookie needs an Origin of ours on"
            " every method that changes something."
        ),
        path="/schema",
        render_plugins=[ExactDocument(path="/openapi.json"), SocketDocument(), Viewer(web_folder)],
        openapi_router=Router(
            "/schema",
            route_handlers=[],
            before_request=_known_only,
            include_in_schema=False,
            response_headers=PAGE_HEADERS,
        ),
        components=Components(
            security_schemes={
                "bearer": SecurityScheme(type="http", scheme="bearer"),
                "cookie": SecurityScheme(type="apiKey", name=COOKIE, security_scheme_in="cookie"),
            }
        ),
        security=[{"bearer": []}, {"cookie": []}],
        use_handler_docstrings=True,
    )
