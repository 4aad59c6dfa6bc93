"""`kvasir bench`: how fast the engine is, and what each of its ideas brings, measured on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.cli.startup import Refused, data_option

Command = TypeVar("Command", bound=Callable[..., Any])


def common_options(command: Command) -> Command:
    """The options that every measuring command has."""
    for option in (
        click.option("--plots", type=click.Path(path_type=Path, file_okay=False), help="Folder for plots, as SVG."),
        click.option(
            "--json", "json_path", type=click.Path(path_type=Path, dir_okay=False), help="File for all the numbers."
        ),
        click.option("--threads", type=click.IntRange(1), help="Threads that compute.  [default: KVASIR_THREADS]"),
        click.option("--model", help="auto, a folder, a GGUF file, or a hub id.  [default: KVASIR_MODEL]"),
        data_option,
    ):
        command = option(command)
    return command


def numbers(text: str) -> tuple[int, ...]:
    """`1,4,8` or `1 4 8`: whole numbers above 0."""
    try:
        found = tuple(int(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of whole numbers such as 1,4,8") from None
    if not found or min(found) < 1:
        raise click.BadParameter(f"{text!r} has to name at least one number, all of them above 0")
    return found


def numbers_option(name: str, default: str, help_text: str) -> Callable[[Command], Command]:
    """An option that takes several numbers."""
    return click.option(
        name, default=default, show_default=True, callback=lambda _ctx, _param, value: numbers(value), help=help_text
    )


@click.group(invoke_without_command=True)
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure this machine, with the engine that `kvasir serve` would run.

    \b
    engine   tokens per second by the protocol of the peers' harness    about 5 minutes

    Measure on a machine that does nothing else. Repeats take turns, so that a busy moment hits one repeat of each kind;
    tables show medians, and how far the repeats lie apart. The data folder is only used for the model and its kernels, so a
    bench may run beside a server that idles.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@bench.command()
@common_options
@numbers_option("--batches", "1,4,8,16,32", "Numbers of sequences that decode together.")
@numbers_option("--contexts", "16,512", "Lengths of their prompts, in tokens.")
@click.option("--prefill", type=click.IntRange(1), default=500, show_default=True, help="Tokens of the prompt alone.")
@click.option("--steps", type=click.IntRange(1), default=32, show_default=True, help="Steps in a decode window.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Passes over all cells.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the prompts.")
def engine(
    data: Path | None,
    model: str | None,
    threads: int | None,
    json_path: Path | None,
    plots: Path | None,
    batches: tuple[int, ...],
    contexts: tuple[int, ...],
    prefill: int,
    steps: int,
    repeats: int,
    seed: int,
) -> None:
    """Tokens per second of prompts and of answers, by the protocol that other engines are measured by.

    Prompts are random ids, decoding is greedy and ignores end tokens, nothing is reused and no text is made. The rate of
    answers is that of all sequences together, in a window in which all of them decode. With --json the file has the shape of
    the peers' harness, and `kvasir bench compare` sets both side by side.
    """
    from app.cli import bench_results, bench_tables
    from app.cli.bench_progress import BenchProgress
    from app.cli.bench_setup import bench_config, bench_settings
    from engine.bench.protocol import ProtocolSettings, measure_engine
    from engine.errors import EngineError

    try:
        settings = ProtocolSettings(threads or 2, prefill, steps, repeats, seed, batches, contexts)
    except ValueError as problem:
        raise click.UsageError(str(problem)) from None
    bench_results.make_room(json_path, plots)
    config = bench_config(bench_settings(data, model, threads))
    try:
        with BenchProgress("engine", settings.num_measurements) as progress:
            results = measure_engine(config, settings, progress)
    except EngineError as problem:
        raise Refused(str(problem)) from None
    bench_results.show(*bench_tables.engine_tables(results))
    bench_results.write_json(json_path, results)
    bench_results.write_plots(plots, bench_tables.engine_plots(results))
