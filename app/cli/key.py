"""`kvasir key create`: API keys, made in the database itself, whether or not the server runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from app.accounts.schemas import KEY_DAYS_MAX, KEY_NAME_MAX_CHARS, NewKeyBody
from app.cli.database import open_administration
from app.cli.startup import Refused, data_option, read_settings
from app.errors import AppError
from app.identifiers import UserId
from app.settings import Settings


@click.group()
def key() -> None:
    """Make API keys."""


@key.command()
@click.option("--user", "username", required=True, help="The account that the key acts as.")
@click.option("--name", required=True, help="What its owner will know it by.")
@click.option(
    "--expires-in-days", type=click.IntRange(1, KEY_DAYS_MAX), help="Days until it ends.  [default: it does not]"
)
@data_option
def create(username: str, name: str, expires_in_days: int | None, data: Path | None) -> None:
    """Print a new API key, once. Whoever has it acts as the account; only its hash is stored."""
    if len(name) > KEY_NAME_MAX_CHARS:
        raise Refused(f"--name: at most {KEY_NAME_MAX_CHARS} characters, got {len(name)}")
    made = asyncio.run(_create(read_settings(data=data), username, name, expires_in_days))
    click.echo(made.key)
    click.echo("It is shown now and never again. Its owner can revoke it, and so can an administrator.", err=True)


async def _create(settings: Settings, username: str, name: str, expires_in_days: int | None) -> NewKeyBody:
    async with open_administration(settings) as people:
        found = await people.accounts.find_user(username)
        if found is None:
            raise Refused(f"there is no account {username!r}")
        try:
            return await people.keys.create(UserId(found.id), name, expires_in_days, audited=True)
        except AppError as error:
            raise Refused(error.detail) from None
