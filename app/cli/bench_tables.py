"""Tables and plots of `kvasir bench`, from the results as they are in its files. Used by `bench`; it measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from app.cli.svg_chart import Line, bar_chart, line_chart
from engine.bench.samples import spread

Results = Mapping[str, Any]


def new_table(title: str, *columns: str) -> Table:
    """A table that can be pasted into a document; all columns but the first are numbers."""
    table = Table(title=title, title_justify="left", box=box.MARKDOWN)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    return table


def machine_line(results: Results) -> str:
    """The machine, in a few words."""
    return f"{results['cpu']['model'] or 'unknown CPU'}, {results['cpu']['cores']} cores"


def engine_tables(results: Results) -> Sequence[Table]:
    """One row for each context, one column for each batch, and the prompt alone."""
    settings, (entry,) = results["settings"], results["results"]
    title = (
        f"{entry['model']} in {entry['variant']}, {entry['kernels']} kernels, {settings['threads']} threads, "
        f"{machine_line(results)}\ntokens/s, medians of {settings['repeats']} (spread of the repeats)"
    )
    table = new_table(title, "work", *(f"B={size}" for size in settings["batches"]))
    for context in settings["contexts"]:
        row = entry["decode_all"][str(context)]
        cells = [_median_and_spread(entry["decode_tok_s"][str(context)][size], row[size]) for size in row]
        table.add_row(f"decode, prompts of {context}", *cells)
    table.add_row(f"prefill of {settings['prefill']}", _median_and_spread(entry["prefill_tok_s"], entry["ttft_s"]))
    return [table]


def engine_plots(results: Results) -> Mapping[str, str]:
    """Tokens per second over the number of sequences."""
    (entry,) = results["results"]
    lines = [
        Line(f"prompts of {context} tokens", [(float(size), rate) for size, rate in row.items()])
        for context, row in entry["decode_tok_s"].items()
    ]
    return {"engine": line_chart("Decoding", "sequences", "tokens/s", lines, x_is_log=True)}


def _median_and_spread(middle: float, values: Sequence[float]) -> str:
    return f"{middle:.0f} ({spread(values):.0%})"


def ideas_tables(results: Results) -> Sequence[Table]:
    """One row for each idea, and one for each claim."""
    title = f"What each idea brings: {_engine_line(results)}\nmedians (spread of the repeats)"
    table = new_table(title, "idea", "unit", "without", "with", "times better")
    for idea in results["ideas"]:
        table.add_row(
            f"{idea['idea']}: {idea['what']}",
            idea["unit"],
            _side(idea["without"]),
            _side(idea["with"]),
            f"{idea['times_better']:.2f}",
        )
    claims = new_table("Claims", "claim", "measured", "holds")
    for idea in results["ideas"]:
        if claim := idea["claim"]:
            claims.add_row(claim["text"], claim["measured"], "yes" if claim["holds"] else "no")
    return [table, claims]


def ideas_plots(results: Results) -> Mapping[str, str]:
    """How many times better each idea makes its work."""
    names = [idea["idea"] for idea in results["ideas"]]
    times = [idea["times_better"] for idea in results["ideas"]]
    return {"ideas": bar_chart("What each idea brings", "times better", names, [("with it, without it = 1", times)])}


def growth_tables(results: Results) -> Sequence[Table]:
    """History, streams and sessions."""
    engine = _engine_line(results)
    history = new_table(f"First token, ms: {engine}", "history", "prompt", "cold", "warm", "cold / warm")
    for row in results["history"]:
        cold, warm = row["cold_ttft_ms"], row["warm_ttft_ms"]
        history.add_row(
            str(row["history_tokens"]),
            str(row["prompt_tokens"]),
            f"{cold:.0f} ({row['cold_ttft_ms_spread']:.0%})",
            f"{warm:.1f} ({row['warm_ttft_ms_spread']:.0%})",
            f"{cold / warm:.1f}",
        )
    streams = new_table("Answers at the same time", "streams", "tokens/s", "each", "ITL p50 ms", "p99 ms")
    for row in results["streams"]:
        rate = row["tokens_per_s"]
        streams.add_row(
            str(row["streams"]),
            f"{rate:.0f} ({row['tokens_per_s_spread']:.0%})",
            f"{rate / row['streams']:.0f}",
            f"{row['itl_p50_ms']:.1f}",
            f"{row['itl_p99_ms']:.1f}",
        )
    sessions = new_table("Sessions held, MiB", "sessions", "with KV", "tokens", "device", "host", "process grew")
    for row in results["sessions"]:
        numbers = (row[name] for name in ("sessions", "with_kv", "tokens", "device_mib", "host_mib", "grown_mib"))
        sessions.add_row(*(f"{number:,.0f}" for number in numbers))
    return [history, streams, sessions]


def growth_plots(results: Results) -> Mapping[str, str]:
    """One plot for each of the three."""
    history, streams, sessions = results["history"], results["streams"], results["sessions"]
    return {
        "history": line_chart(
            "First token",
            "tokens of history",
            "ms",
            [
                Line(name, [(row["history_tokens"], row[f"{name}_ttft_ms"]) for row in history])
                for name in ("cold", "warm")
            ],
            x_is_log=True,
        ),
        "streams": line_chart(
            "Answers at the same time",
            "streams",
            "tokens/s",
            [Line("all together", [(row["streams"], row["tokens_per_s"]) for row in streams])],
            x_is_log=True,
        ),
        "inter-token": line_chart(
            "Time between tokens",
            "streams",
            "ms",
            [Line(f"p{share}", [(row["streams"], row[f"itl_p{share}_ms"]) for row in streams]) for share in (50, 99)],
            x_is_log=True,
        ),
        "sessions": line_chart(
            "Memory of sessions",
            "sessions held",
            "MiB",
            [Line(name, [(row["sessions"], row[f"{name}_mib"]) for row in sessions]) for name in ("device", "host")],
        ),
    }


def _engine_line(results: Results) -> str:
    return f"{results['model']} in {results['weights']}, {results['kernels']} kernels, {machine_line(results)}"


def _side(side: Mapping[str, Any]) -> str:
    return f"{side['name']} {side['median']:,.4g} ({side['spread']:.0%})"
