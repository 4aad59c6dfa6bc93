"""`/api/v1/webhooks…`, for administrators."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from app.accounts.identity import Identity
from app.pagination import LIMIT_DEFAULT, CursorText, Limit
from app.problems import problem_responses
from app.route_guards import admins_only, no_idempotency_key
from app.webhooks.models import DeliveryStatus
from app.webhooks.schemas import (
    DeliveryBody,
    DeliveryList,
    NewWebhookBody,
    WebhookBody,
    WebhookCreate,
    WebhookList,
    WebhookPatch,
)
from app.webhooks.service import WebhookService

NO_STORE = {"Cache-Control": "no-store"}

WebhookPath = FromPath[str]


@get("/", summary="List webhooks", responses=problem_responses(400, 401, 403))
async def list_webhooks(
    webhooks: NamedDependency[WebhookService], limit: Limit = LIMIT_DEFAULT, cursor: CursorText = None
) -> Response[WebhookList]:
    """All endpoints, the newest first."""
    return Response(await webhooks.page(limit=limit, cursor=cursor), headers=NO_STORE)


@post(
    "/",
    summary="Make a webhook",
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 413, 415),
)
async def create_webhook(
    data: JSONBody[WebhookCreate], caller: NamedDependency[Identity], webhooks: NamedDependency[WebhookService]
) -> Response[NewWebhookBody]:
    """An endpoint that is told what happens, signed with the `secret` that is shown now and never again. Addresses that are not
    of the internet need `KVASIR_WEBHOOK_PRIVATE_NETWORKS`."""
    body = await webhooks.create(caller, data)
    return Response(body, headers={**NO_STORE, "Location": f"/api/v1/webhooks/{body.id}"})


@get("/{webhook_id:str}", summary="Read a webhook", responses=problem_responses(401, 403, 404))
async def get_webhook(webhook_id: WebhookPath, webhooks: NamedDependency[WebhookService]) -> Response[WebhookBody]:
    """What it is told, and whether it takes it."""
    return Response(await webhooks.get(webhook_id), headers=NO_STORE)


@patch("/{webhook_id:str}", summary="Change a webhook", responses=problem_responses(400, 401, 403, 404, 413, 415))
async def patch_webhook(
    webhook_id: WebhookPath,
    data: JSONBody[WebhookPatch],
    caller: NamedDependency[Identity],
    webhooks: NamedDependency[WebhookService],
) -> Response[WebhookBody]:
    """Changes the fields that are given; what is on its way already goes to the new address."""
    return Response(await webhooks.update(caller, webhook_id, data), headers=NO_STORE)


@delete("/{webhook_id:str}", summary="Delete a webhook", responses=problem_responses(401, 403, 404))
async def delete_webhook(
    webhook_id: WebhookPath, caller: NamedDependency[Identity], webhooks: NamedDependency[WebhookService]
) -> None:
    """Removes it with everything that was on its way."""
    await webhooks.delete(caller, webhook_id)


@post(
    "/{webhook_id:str}/rotate",
    summary="Change a webhook's secret",
    status_code=200,
    guards=[no_idempotency_key],
    responses=problem_responses(400, 401, 403, 404),
)
async def rotate_secret(
    webhook_id: WebhookPath, caller: NamedDependency[Identity], webhooks: NamedDependency[WebhookService]
) -> Response[NewWebhookBody]:
    """A new `secret`, shown now and never again. Until `previous_secret_until` everything is signed with both."""
    return Response(await webhooks.rotate(caller, webhook_id), headers=NO_STORE)


@post(
    "/{webhook_id:str}/test",
    summary="Test a webhook",
    status_code=202,
    responses=problem_responses(401, 403, 404, 409),
)
async def test_webhook(
    webhook_id: WebhookPath, caller: NamedDependency[Identity], webhooks: NamedDependency[WebhookService]
) -> Response[DeliveryBody]:
    """Sends it a `webhook.test`; its deliveries say what came of it."""
    return Response(await webhooks.test(caller, webhook_id), headers=NO_STORE)


@get("/{webhook_id:str}/deliveries", summary="List deliveries", responses=problem_responses(400, 401, 403, 404))
async def list_deliveries(
    webhook_id: WebhookPath,
    webhooks: NamedDependency[WebhookService],
    status: Annotated[
        DeliveryStatus | None, QueryParameter(description="Only those in this state; dead ones were given up")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    cursor: CursorText = None,
) -> Response[DeliveryList]:
    """What was sent to it, the newest first, without what it said."""
    page = await webhooks.deliveries(webhook_id, status=status, limit=limit, cursor=cursor)
    return Response(page, headers=NO_STORE)


@post(
    "/{webhook_id:str}/deliveries/{delivery_id:str}/replay",
    summary="Send a delivery again",
    status_code=202,
    responses=problem_responses(401, 403, 404, 409),
)
async def replay_delivery(
    webhook_id: WebhookPath,
    delivery_id: FromPath[str],
    caller: NamedDependency[Identity],
    webhooks: NamedDependency[WebhookService],
) -> Response[DeliveryBody]:
    """From the first try on, under the same id."""
    return Response(await webhooks.replay(caller, webhook_id, delivery_id), headers=NO_STORE)


def router() -> Router:
    """The routes, for one application."""
    return Router(
        "/webhooks",
        guards=[admins_only],
        route_handlers=[
            list_webhooks,
            create_webhook,
            get_webhook,
            patch_webhook,
            delete_webhook,
            rotate_secret,
            test_webhook,
            list_deliveries,
            replay_delivery,
        ],
        tags=["Webhooks"],
    )
