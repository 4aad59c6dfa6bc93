"""How the fetching of a model is shown."""

from __future__ import annotations

import io

from rich.console import Console

from app.cli.pull_progress import PullProgress


def test_where_nobody_watches_there_is_a_plain_line_now_and_then() -> None:
    output = io.StringIO()
    with PullProgress(Console(file=output)) as progress:
        for done in range(101):
            progress("downloading a model", done * 1_000_000, 100_000_000)
        progress("downloading a model", 100_000_000, 100_000_000)
        progress("converting the tokenizer", 0, None)
        progress("converting the tokenizer", 0, None)
    assert output.getvalue().splitlines() == [
        "downloading a model 0 of 100 MB",
        "downloading a model 25 of 100 MB",
        "downloading a model 50 of 100 MB",
        "downloading a model 75 of 100 MB",
        "downloading a model 100 of 100 MB",
        "converting the tokenizer",
    ]


def test_on_a_terminal_there_is_a_bar() -> None:
    output = io.StringIO()
    with PullProgress(Console(file=output, force_terminal=True, width=100)) as progress:
        progress("downloading a model", 25_000_000, 100_000_000)
        progress("downloading a model", 100_000_000, 100_000_000)
    assert "downloading a model" in output.getvalue()
    assert "100.0/100.0 MB" in output.getvalue()
