"""`kvasir db upgrade|check`: the schema of the database."""

from __future__ import annotations

from pathlib import Path

import click

from app.cli.database import database_damages, database_differences, upgrade_database
from app.cli.startup import data_option, read_settings
from app.settings import Settings


@click.group()
def db() -> None:
    """Migrate the database, or check whether it has to be."""


@db.command()
@data_option
def upgrade(data: Path | None) -> None:
    """Bring the database to this version's schema. `kvasir serve` does it too, at every start."""
    upgrade_database(read_settings(data=data))
    click.echo("The database is at this version's schema.")


@db.command()
@data_option
def check(data: Path | None) -> None:
    """Say whether the database fits this version and is whole; exit code 1 when not. Changes nothing.

    It reads all of it, so a large one takes a while; a server may run meanwhile.
    """
    settings = read_settings(data=data)
    differences = database_differences(settings)
    for difference in differences:
        click.echo(difference)
    if differences:
        raise click.exceptions.Exit(1)
    if found := database_damages(settings):
        for sentence in found:
            click.echo(sentence)
        click.echo(f"\n{what_to_do(settings)}")
        raise click.exceptions.Exit(1)
    click.echo("The database is at this version's schema, and whole.")


def what_to_do(settings: Settings) -> str:
    """With a damaged database."""
    if settings.effective_database_url.startswith("sqlite"):
        return (
            "Stop the server, copy the data folder aside, and put the newest backup in place: "
            "kvasir restore FILE --replace. What was said since then is in the copy alone. Check the disk."
        )
    return (
        "Stop the servers, keep a copy (pg_dump), and restore the newest backup with pg_restore. "
        "Damaged pages of PostgreSQL itself are found by its own amcheck."
    )
