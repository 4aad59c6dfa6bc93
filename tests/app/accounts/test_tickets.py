"""Tickets: the ones that open a socket, and the ones in a link that signs somebody in."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select

from app.accounts.identity import CredentialSource
from app.accounts.models import Credential
from app.errors import AppError, Unauthenticated
from app.identifiers import UserId
from tests.support.client import RunningApp, problem

TICKETS = "/api/v1/auth/tickets"


async def ticket_of(client: object) -> str:
    answer = await client.post(TICKETS)  # type: ignore[attr-defined]
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    ticket: str = answer.json()["ticket"]
    return ticket


async def test_a_socket_ticket_says_who_asked_for_it_once(running: RunningApp) -> None:
    accounts = running.context.accounts
    async with running.signed_in("ann") as client:
        ticket = await ticket_of(client)
        me = (await client.get("/api/v1/me")).json()
        identity = await accounts.redeem_socket_ticket(ticket)
        assert (identity.user_id, identity.source) == (me["id"], CredentialSource.TICKET)
        with pytest.raises(Unauthenticated):
            await accounts.redeem_socket_ticket(ticket)


async def test_of_many_that_take_a_ticket_at_once_one_gets_it(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        ticket = await ticket_of(client)
    taking = (running.context.accounts.redeem_socket_ticket(ticket) for _ in range(8))
    outcomes = await asyncio.gather(*taking, return_exceptions=True)
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Unauthenticated) for outcome in outcomes) == 7


async def test_a_socket_ticket_lasts_half_a_minute(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        in_time, late = await ticket_of(client), await ticket_of(client)
        running.clock.advance(29.9)
        await running.context.accounts.redeem_socket_ticket(in_time)
        running.clock.advance(0.1)
        with pytest.raises(Unauthenticated):
            await running.context.accounts.redeem_socket_ticket(late)


async def test_a_socket_ticket_ends_with_the_sign_in_that_asked_for_it(running: RunningApp) -> None:
    """open-webui/open-webui#25764: revoked tokens could open new sockets."""
    async with running.signed_in("ann") as client:
        ticket = await ticket_of(client)
        await client.post("/api/v1/auth/logout")
        with pytest.raises(Unauthenticated):
            await running.context.accounts.redeem_socket_ticket(ticket)


async def test_a_socket_of_a_ticket_belongs_to_the_sign_in_behind_it(running: RunningApp) -> None:
    revoked: list[str] = []
    running.context.accounts.on_revoked(revoked.append)
    async with running.signed_in("ann") as client:
        identity = await running.context.accounts.redeem_socket_ticket(await ticket_of(client))
        await client.post("/api/v1/auth/logout")
    assert revoked == [identity.credential_id]


@pytest.mark.parametrize("kind", ["socket ticket", "session token", "sign-in ticket"])
async def test_one_kind_of_token_never_passes_for_another(running: RunningApp, kind: str) -> None:
    accounts = running.context.accounts
    async with running.signed_in("ann") as client:
        user_id = UserId((await client.get("/api/v1/me")).json()["id"])
        tokens = {
            "socket ticket": await ticket_of(client),
            "session token": client.headers["Authorization"].removeprefix("Bearer "),
            "sign-in ticket": await accounts.make_sign_in_ticket(user_id),
        }
    uses = {
        "socket ticket": accounts.redeem_socket_ticket,
        "session token": lambda token: accounts.identify(token, CredentialSource.BEARER),
        "sign-in ticket": accounts.redeem_sign_in_ticket,
    }
    for other, use in uses.items():
        if other != kind:
            with pytest.raises(AppError):
                await use(tokens[kind])
    await uses[kind](tokens[kind])


async def test_tokens_are_stored_as_hashes_only(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        secrets = {await ticket_of(client), client.headers["Authorization"].removeprefix("Bearer ")}
    async with running.context.database.read() as session:
        rows = (await session.scalars(select(Credential))).all()
    stored = {str(getattr(row, column.key)) for row in rows for column in Credential.__mapper__.column_attrs}
    assert not secrets & stored


@pytest.mark.parametrize("path", [TICKETS, "/api/v1/auth/login"])
async def test_an_answer_that_is_a_secret_takes_no_idempotency_key(running: RunningApp, path: str) -> None:
    async with running.signed_in("ann") as client:
        answer = await client.post(path, json={"username": "ann", "password": "x"}, headers={"Idempotency-Key": "k"})
        problem(answer, 400, "idempotency_not_supported")


async def test_what_cannot_hold_any_more_is_swept_out(running: RunningApp) -> None:
    async with running.signed_in("ann") as client:
        await ticket_of(client)
        running.clock.advance(31)
        await running.context.accounts.purge()
        assert (await client.get("/api/v1/me")).status_code == 200
        running.clock.advance(31 * 86400)
        await running.context.accounts.purge()
    async with running.context.database.read() as session:
        assert (await session.scalars(select(Credential))).all() == []
