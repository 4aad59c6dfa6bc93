"""`kvasir user create|link`: accounts, made in the database itself, whether or not the server runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from app.accounts.models import UserRole
from app.cli.database import open_administration, upgrade_database
from app.cli.startup import Refused, data_option, read_settings, stdin_text
from app.errors import Conflict, InvalidInput
from app.settings import Settings


@click.group()
def user() -> None:
    """Make accounts and sign-in links."""


@user.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in UserRole if role is not UserRole.VISITOR]),
    default="user",
    show_default=True,
    help="What the account may do.",
)
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@data_option
def create(name: str, role: str, password_stdin: bool, data: Path | None) -> None:
    """Make the account NAME. The password is asked for twice."""
    if password_stdin:
        password = stdin_text("the password", one_line=True)
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt="The same again")
    settings = read_settings(data=data)
    upgrade_database(settings)
    made = asyncio.run(_create(settings, name, password, role))
    click.echo(f"Made the account {made!r} with the role {role}.")


@user.command()
@click.argument("name")
@data_option
def link(name: str, data: Path | None) -> None:
    """Print a link that signs its reader in as NAME, once."""
    settings = read_settings(data=data)
    click.echo(asyncio.run(_link(settings, name)))
    click.echo(f"It works once, within {settings.sign_in_ticket_s / 60:g} minutes.", err=True)


async def _create(settings: Settings, name: str, password: str, role: str) -> str:
    async with open_administration(settings) as people:
        try:
            return (await people.administration.create(None, name, password, UserRole(role))).username
        except (InvalidInput, Conflict) as error:
            raise Refused(error.detail) from None


async def _link(settings: Settings, name: str) -> str:
    async with open_administration(settings) as people:
        ticket = await people.administration.make_sign_in_ticket(name)
        if ticket is None:
            raise Refused(f"there is no account {name!r}")
        return f"{settings.base_url}/?ticket={ticket}"
