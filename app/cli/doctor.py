"""`kvasir doctor`: what is wrong with this machine or this setup, in plain words, with what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from app.cli.findings import Finding, Verdict
from app.cli.machine_checks import check_machine
from app.cli.setup_checks import check_setup
from app.cli.startup import data_option, read_settings
from app.cli.startup_report import measure_startup, show_report
from app.terminal import takes_colours

COLOURS = {Verdict.GOOD: "green", Verdict.WARNING: "yellow", Verdict.WRONG: "red"}


@click.command()
@data_option
@click.option("--startup", is_flag=True, help="Start as a server does, and show where the time goes.")
@click.option("--json", "as_json", is_flag=True, help="With --startup: the table as JSON.")
def doctor(data: Path | None, startup: bool, as_json: bool) -> None:
    """Say in plain words what is wrong with this machine or setup, and what to do about it.

    Exit code 1 when something is wrong; warnings alone are no reason. Changes nothing.

    With --startup it starts the server once more, with these settings, in a process of its own that has no port and an empty
    database of its own, so it may run beside a server. It leaves nothing but the converted weights, as any start does.
    """
    settings = read_settings(data=data)
    if as_json and not startup:
        raise click.UsageError("--json goes with --startup")
    if startup:
        show_report(measure_startup(settings), as_json=as_json)
        return
    found = [
        *check_machine(settings),
        *check_setup(settings),
    ]
    for finding in found:
        show(finding)
    count = sum(finding.verdict is Verdict.WRONG for finding in found)
    if count:
        click.echo(f"\n{count} thing{'s are' if count > 1 else ' is'} wrong.")
        raise click.exceptions.Exit(1)
    click.echo("\nNothing is wrong.")


def show(finding: Finding) -> None:
    """One finding, and its fix below it."""
    verdict = f"{finding.verdict.value:8}"
    if takes_colours(sys.stdout):
        verdict = click.style(verdict, fg=COLOURS[finding.verdict])
    click.echo(f"{verdict}{finding.subject:12} {finding.text}")
    if finding.fix:
        click.echo(f"{'':20} → {finding.fix}")
