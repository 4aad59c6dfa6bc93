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
    engine   tokens per second by the protocol that other engines are measured by       5 minutes
    ideas    what batching, reuse, pages, personas and kept weights bring, and which
             of their claims hold here                                                  6 minutes
    growth   first token over history, memory over sessions, tokens over streams        5 minutes
    compare  files of `engine` and of the peers' harness side by side                   at once

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


@bench.command()
@common_options
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of each side, in turn.")
@click.option("--answers", type=click.IntRange(2), default=64, show_default=True, help="Answers of mixed lengths.")
@click.option("--places", type=click.IntRange(2), default=16, show_default=True, help="Answers made at the same time.")
@click.option("--history-tokens", type=click.IntRange(16), default=1024, show_default=True, help="Of the reused turn.")
@click.option("--context-tokens", type=click.IntRange(64), default=8192, show_default=True, help="Of the paged memory.")
@click.option("--mean-tokens", type=click.IntRange(16), default=1300, show_default=True, help="Of the chats in it.")
@click.option("--start/--no-start", default=True, show_default=True, help="Measure starts too.")
def ideas(
    data: Path | None,
    model: str | None,
    threads: int | None,
    json_path: Path | None,
    plots: Path | None,
    repeats: int,
    answers: int,
    places: int,
    history_tokens: int,
    context_tokens: int,
    mean_tokens: int,
    start: bool,
) -> None:
    """What each idea brings: the same work on the same engine without it and with it, and what was claimed of it.

    Static batches are handed over one after the other, the next when all answers of the last have ended. Without reuse is
    KVASIR_PREFIX_CACHE off. The memory of four whole contexts, which contiguous allocation gives to four sessions, is filled
    with chats from a quarter of the mean length to three times it; counted are those with every page in place. The first start
    compiles or converts whatever a start keeps, in a data folder of its own.
    """
    import asyncio

    from app.cli import bench_results, bench_tables
    from app.cli.bench_progress import BenchProgress
    from app.cli.bench_setup import bench_config, bench_settings
    from app.cli.bench_start import compare_starts
    from engine.bench.ideas import IdeaSettings, measure_ideas
    from engine.errors import EngineError

    bench_results.make_room(json_path, plots)
    settings = bench_settings(data, model, threads)
    config = bench_config(settings)
    wanted = IdeaSettings(
        repeats=repeats,
        answers=answers,
        places=places,
        history_tokens=history_tokens,
        persona_tokens=history_tokens,
        mean_tokens=mean_tokens,
        context_tokens=context_tokens,
    )
    try:
        with BenchProgress("ideas", wanted.num_measurements + (1 + repeats if start else 0)) as progress:
            results = asyncio.run(measure_ideas(config, wanted, progress))
            if start:
                starts = compare_starts(settings, config.model_path, results["kernels"], repeats, progress)
                results["ideas"].append(starts.as_json())
    except EngineError as problem:
        raise Refused(str(problem)) from None
    bench_results.show(*bench_tables.ideas_tables(results))
    bench_results.write_json(json_path, results)
    bench_results.write_plots(plots, bench_tables.ideas_plots(results))


@bench.command()
@common_options
@numbers_option("--histories", "256,512,1024,2048,4096", "Lengths of histories, in tokens.")
@numbers_option("--sessions", "8,16,32,64", "Numbers of sessions held.")
@click.option("--session-tokens", type=click.IntRange(16), default=512, show_default=True, help="Of each session.")
@numbers_option("--streams", "1,2,4,8,16,32", "Numbers of answers made at the same time.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="Of each measurement, in turn.")
def growth(
    data: Path | None,
    model: str | None,
    threads: int | None,
    json_path: Path | None,
    plots: Path | None,
    histories: tuple[int, ...],
    sessions: tuple[int, ...],
    session_tokens: int,
    streams: tuple[int, ...],
    repeats: int,
) -> None:
    """How things grow: the first token with the history, memory with the sessions held, tokens with the streams.

    Cold is a history that nobody has read, warm the next turn of the same conversation. Times are from the question to the
    first text, and from one piece of text to the next.
    """
    import asyncio

    from app.cli import bench_results, bench_tables
    from app.cli.bench_progress import BenchProgress
    from app.cli.bench_setup import bench_config, bench_settings
    from engine.bench.growth import GrowthSettings, measure_growth
    from engine.errors import EngineError

    bench_results.make_room(json_path, plots)
    config = bench_config(bench_settings(data, model, threads))
    wanted = GrowthSettings(histories, sessions, session_tokens, streams, repeats)
    try:
        with BenchProgress("growth", wanted.num_measurements) as progress:
            results = asyncio.run(measure_growth(config, wanted, progress))
    except EngineError as problem:
        raise Refused(str(problem)) from None
    bench_results.show(*bench_tables.growth_tables(results))
    bench_results.write_json(json_path, results)
    bench_results.write_plots(plots, bench_tables.growth_plots(results))


@bench.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
def compare(files: tuple[Path, ...]) -> None:
    """Set results of `kvasir bench engine` and of the peers' harness side by side, as Markdown.

    FILES are any number of either; repeats of the same engine and variant are joined, so that runs may take turns. A target is
    the ratio of the medians, to the best of those it names.
    """
    from app.cli.bench_compare import comparison_markdown, read_results

    click.echo(comparison_markdown(read_results(files)))
