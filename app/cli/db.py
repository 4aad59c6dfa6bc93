"""`kvasir db upgrade|check`: the schema of the database."""

from __future__ import annotations

from pathlib import Path

import click

from app.cli.database import database_differences, upgrade_database
from app.cli.startup import data_option, read_settings


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
    """Say whether the database fits this version; exit code 1 when it does not. Changes nothing."""
    differences = database_differences(read_settings(data=data))
    for difference in differences:
        click.echo(difference)
    if differences:
        raise click.exceptions.Exit(1)
    click.echo("The database is at this version's schema.")
