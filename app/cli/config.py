"""`kvasir config`: every setting, its value (secrets masked), where the value comes from, and what it is for."""

from __future__ import annotations

import json

import click
import msgspec

from app.cli.startup import Refused
from app.settings import Settings
from app.settings_source import SettingsError, load_settings, setting_description, shown_value, variable_name


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead.")
def config(as_json: bool) -> None:
    """Show every setting, its value, and where the value comes from.

    A value comes from the command line, the environment, the .env file or the default, first found first taken.
    """
    try:
        loaded = load_settings()
    except SettingsError as error:
        raise Refused(str(error)) from None
    rows = [
        {
            "name": variable_name(field.name),
            "value": shown_value(field.name, loaded.settings),
            "origin": loaded.origins[field.name],
            "description": setting_description(field.type),
        }
        for field in msgspec.structs.fields(Settings)
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row['name']}={row['value']}  ({row['origin']})")
        click.echo(f"    {row['description']}")
