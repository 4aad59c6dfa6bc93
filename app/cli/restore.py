"""`kvasir restore FILE`: puts a backup in the place of the database."""

from __future__ import annotations

from pathlib import Path

import click

from app.backup import BackupRefused, restore_backup
from app.cli.database import database_as_sentences
from app.cli.startup import Refused, data_option, make_data_folder, read_settings
from app.sole_server import DatabaseTaken


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--replace", is_flag=True, help="Put it in the place of a database that is there; that one is kept aside."
)
@data_option
def restore(file: Path, replace: bool, data: Path | None) -> None:
    """Make the database out of FILE, which `kvasir backup` wrote. The server must not run.

    FILE is checked first; one of a newer version is refused, one of an older version is migrated at the next start. For SQLite;
    PostgreSQL has pg_restore.
    """
    settings = read_settings(data=data)
    make_data_folder(settings.data)
    with database_as_sentences(settings):
        try:
            kept = restore_backup(settings.effective_database_url, file, replace=replace)
        except BackupRefused as problem:
            raise Refused(str(problem)) from None
        except DatabaseTaken as taken:
            raise Refused(f"{taken}; stop it first") from None
    click.echo(f"The database is that of {file}.")
    if kept is not None:
        click.echo(f"The one that was there is kept as {kept}.")
