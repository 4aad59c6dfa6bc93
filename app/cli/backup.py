"""`kvasir backup FILE`: a copy of a SQLite database, also while the server runs."""

from __future__ import annotations

from pathlib import Path

import click

from app.backup import BackupRefused, make_backup
from app.cli.database import database_as_sentences
from app.cli.startup import Refused, data_option, read_settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@data_option
def backup(file: Path, data: Path | None) -> None:
    """Copy the database to FILE, which must not exist. The server may run and be written to meanwhile.

    The copy is whole and checked. Answers that were being made are in it as interrupted, with what was shown of
    them. Models and KV are not in it: both are made again. For SQLite; PostgreSQL has pg_dump.
    """
    settings = read_settings(data=data)
    with database_as_sentences(settings):
        try:
            made = make_backup(settings.effective_database_url, settings.data / "journal", file)
        except BackupRefused as problem:
            raise Refused(str(problem)) from None
    click.echo(f"Wrote {made.file}, {made.size_bytes / 1e6:.1f} MB, and found it whole.")
    if made.interrupted is None:
        click.echo(
            "Its database is of another version of Kvasir; answers that were being made are in it as they stood."
        )
    elif made.interrupted:
        click.echo(f"Answers that were being made and are interrupted in it: {made.interrupted}.")
