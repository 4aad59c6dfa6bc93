"""Tables and plots of `kvasir bench`, from the results as they are in its files. Used by `bench`; it measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from app.cli.svg_chart import Line, line_chart
from engine.bench.samples import spread

Results = Mapping[str, Any]


def new_table(title: str, *columns: str) -> Table:
    """A table that can be pasted into a document; all columns but the first are numbers."""
    table = Table(title=title, title_justify="left", box=box.MARKDOWN)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
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
