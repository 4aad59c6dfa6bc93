"""The OpenAPI document: whole, exact, and readable without any other host."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from litestar.routes import HTTPRoute

from app.web import CONTENT_SECURITY_POLICY, WEB_FOLDER
from engine.types import CachedFrom, Usage
from tests.support.client import RunningApp, problem, running_app


async def document_of(running: RunningApp) -> dict[str, Any]:
    async with running.anonymous() as client:
        answer = await client.get("/schema/openapi.json")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


async def test_every_route_of_the_api_is_in_it(running_on_sqlite: RunningApp) -> None:
    document = await document_of(running_on_sqlite)
    for route in running_on_sqlite.app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith("/api/v1"):
            methods = {method.lower() for method in route.methods - {"OPTIONS"}}
            assert methods == set(document["paths"][re.sub(r":str\}", "}", route.path)])


async def test_every_operation_says_what_it_does_and_how_it_fails(running_on_sqlite: RunningApp) -> None:
    document = await document_of(running_on_sqlite)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], path
            assert operation["description"], path
            if path.startswith("/api/v1") and operation.get("security") != [{}]:
                assert {"400", "401"} <= operation["responses"].keys(), path
            if path.startswith("/api/v1") and method in ("post", "patch", "delete"):
                assert "403" in operation["responses"], path
            for status, answer in operation["responses"].items():
                if status >= "400":
                    form = "application/json" if path.startswith("/v1") else "application/problem+json"
                    assert list(answer["content"]) == [form], (path, status)


async def test_bodies_are_described_as_strictly_as_they_are_read(running_on_sqlite: RunningApp) -> None:
    schemas = (await document_of(running_on_sqlite))["components"]["schemas"]
    create = schemas["ConversationCreate"]
    assert create["additionalProperties"] is False
    assert create["properties"]["tags"]["items"]["maxLength"] == 64
    assert create["properties"]["title"]["anyOf"][0]["maxLength"] == 200


async def test_what_an_answer_cost_is_described(running_on_sqlite: RunningApp) -> None:
    schemas = (await document_of(running_on_sqlite))["components"]["schemas"]
    usage = schemas["UsageBody"]["properties"]
    assert set(usage) == {field.name for field in fields(Usage)}
    assert set(schemas["CachedFromBody"]["properties"]) == {field.name for field in fields(CachedFrom)}
    for body in ("MessageBody", "ResponseBody"):
        assert "UsageBody" in str(schemas[body]["properties"]["usage"])


async def test_every_reference_leads_somewhere(running_on_sqlite: RunningApp) -> None:
    document = await document_of(running_on_sqlite)
    references = set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', str(document).replace("'", '"')))
    assert references
    assert references <= document["components"]["schemas"].keys()


@pytest.mark.parametrize("path", ["/schema", "/schema/asyncapi"])
async def test_the_page_for_people_loads_from_nowhere_else(tmp_path: Path, sqlite_url: str, path: str) -> None:
    async with running_app(tmp_path, sqlite_url, web_folder=WEB_FOLDER) as running, running.anonymous() as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert re.findall(r"https?:", answer.text) == []


async def test_the_documents_are_there_without_the_pages(running_on_sqlite: RunningApp) -> None:
    async with running_on_sqlite.anonymous() as client:
        problem(await client.get("/schema"), 404, "not_found")
        problem(await client.get("/schema/redoc"), 404, "not_found")
        assert (await client.get("/schema/asyncapi.json")).status_code == 200


async def test_usage_comes_in_pages_or_as_a_table(running_on_sqlite: RunningApp) -> None:
    document = await document_of(running_on_sqlite)
    content = document["paths"]["/api/v1/admin/usage"]["get"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "text/csv"}
    assert content["application/json"]["schema"]["$ref"].endswith("/UsageList")
