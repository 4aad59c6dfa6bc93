"""Guards of the REST routes: what is not supported is refused and never ignored. Set on the router of `/api/v1` and on routes."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from app.accounts.identity import Identity
from app.accounts.rights import Right
from app.errors import Forbidden, InvalidInput

AnyConnection = ASGIConnection[Any, Any, Any, Any]


def known_parameters_only(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Raises InvalidInput for a query parameter that the route does not declare, and for one given twice: none of ours is a list,
    and only the last would count."""
    declared = {
        field.kwarg_definition.name or name
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }
    if unknown := set(connection.query_params) - declared:
        known = ", ".join(sorted(declared)) or "none"
        raise InvalidInput(
            f"this resource has no query parameter {min(unknown)[:80]!r}; it has: {known}", code="unknown_parameter"
        )
    for name in declared:
        if len(connection.query_params.getall(name, [])) > 1:
            raise InvalidInput(f"the query parameter {name!r} is given more than once", code="repeated_parameter")


def admins_only(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Raises Forbidden for everybody else, whatever it is that they ask for."""
    caller: Identity | None = connection.user
    if caller is None or not caller.may(Right.ADMINISTER):
        raise Forbidden("only administrators may do this")


def agents_only(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Raises Forbidden for everybody but agents and administrators, whatever it is that they ask for."""
    caller: Identity | None = connection.user
    if caller is None or not caller.may(Right.ANSWER_PEOPLE):
        raise Forbidden("only agents may do this")


def no_idempotency_key(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """For routes that take or answer a secret: not even a plain hash of it is stored, so it cannot be answered again.

    Raises InvalidInput.
    """
    if "idempotency-key" in connection.headers:
        raise InvalidInput(
            "this resource is about a secret that is not kept, so it takes no Idempotency-Key",
            code="idempotency_not_supported",
        )
