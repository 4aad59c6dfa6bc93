"""`/schema` (a page for people) and `/schema/openapi.json` (the document), both made from the routes themselves and without any
host but ours."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import msgspec
from litestar import Request, Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute

from app.accounts.authentication import COOKIE
from app.errors import NotFound

API_VERSION = "1"
"""The `v1` of the paths. It changes when a client would have to."""

PAGE_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"

PATHS = {"/schema", "/schema/openapi.json"}

METHODS = ("get", "post", "put", "patch", "delete")


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


class PlainPage(OpenAPIRenderPlugin):
    """The document as one page of text, without scripts: who wants more gives the JSON to a tool of theirs."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        sections = [
            self._operation(method, path, item[method])
            for path, item in sorted(openapi_schema["paths"].items())
            for method in METHODS
            if method in item
        ]
        title = escape(f"{openapi_schema['info']['title']} {openapi_schema['info']['version']}")
        page = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
            f"<p>{escape(openapi_schema['info']['description'])}</p>"
            f'<p>For programs: <a href="/schema/openapi.json">openapi.json</a></p>{"".join(sections)}</html>'
        )
        return page.encode()

    @staticmethod
    def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
        parameters = "".join(
            f"<li><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}"
            f"{', required' if parameter.get('required') else ''}) {escape(parameter.get('description') or '')}</li>"
            for parameter in operation.get("parameters", [])
        )
        answers = "".join(
            f"<li>{escape(status)} {escape(answer.get('description') or '')}</li>"
            for status, answer in operation.get("responses", {}).items()
        )
        return (
            f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            f"<p>{escape(operation.get('summary') or '')}. {escape(operation.get('description') or '')}</p>"
            f"<ul>{parameters}</ul><ul>{answers}</ul>"
        )


def _bodies(route: HTTPRoute) -> Iterator[type[msgspec.Struct]]:
    for handler in route.route_handlers:
        body = handler.parsed_fn_signature.parameters.get("data")
        if body is not None and handler.resolve_include_in_schema() and issubclass(body.annotation, msgspec.Struct):
            yield body.annotation


def _known_only(request: Request[Any, Any, Any]) -> None:
    # The framework answers an unknown path below /schema with a page of its own.
    if request.scope["path"] not in PATHS:
        raise NotFound("there is no such resource")


def openapi_config() -> OpenAPIConfig:
    """What the document says beside the routes, for one application."""
    return OpenAPIConfig(
        title="Kvasir",
        version=API_VERSION,
        description=(
            "The REST API of a Kvasir server. Every error is application/problem+json. Somebody else's id is answered like one"
            " that does not exist: 404. A cookie needs an Origin of ours on every method that changes something."
        ),
        path="/schema",
        render_plugins=[ExactDocument(path="/openapi.json"), PlainPage()],
        openapi_router=Router(
            "/schema",
            route_handlers=[],
            before_request=_known_only,
            include_in_schema=False,
            response_headers={"Content-Security-Policy": PAGE_POLICY},
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
